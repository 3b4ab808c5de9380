#include <dflash/io/checkpoint.hpp>

#include "io/crafted.hpp"

using namespace io_test;
using dflash::io_error;
using dflash::io::checkpoint;

namespace {

struct sharded {
    temp_folder folder;
    json weight_map = {{"a", "model-00001-of-00002.safetensors"},
                       {"b", "model-00002-of-00002.safetensors"},
                       {"c", "model-00001-of-00002.safetensors"}};
    std::vector<made_tensor> first = {filled("a", "F32", {2}, 1.0F), filled("c", "BF16", {3}, 3.0F)};
    std::vector<made_tensor> second = {filled("b", "F16", {1, 2}, 2.0F)};

    void write() const {
        folder.write("model.safetensors.index.json",
                     json({{"metadata", {{"total_size", 14}}}, {"weight_map", weight_map}}).dump());
        folder.write("model-00001-of-00002.safetensors", safetensors_of(first));
        folder.write("model-00002-of-00002.safetensors", safetensors_of(second));
    }
    [[nodiscard]] std::string refused() const {
        write();
        return message_of<io_error>([&] { const checkpoint c(folder.path()); });
    }
};

}  // namespace

TEST_CASE("a sharded folder gives the tensors of all shards") {
    sharded s;
    s.write();
    const checkpoint c(s.folder.path());
    REQUIRE(c.tensors().size() == 3);
    CHECK(read_f64(*c.find("a")->tensor) == std::vector<double>(2, 1.0));
    CHECK(read_f64(*c.find("b")->tensor) == std::vector<double>(2, 2.0));
    CHECK(read_f64(*c.find("c")->tensor) == std::vector<double>(3, 3.0));
    CHECK(c.find("d") == nullptr);
    CHECK(c.find("b")->file->path().ends_with("model-00002-of-00002.safetensors"));
}

TEST_CASE("the owner keeps the bytes when the checkpoint is gone") {
    sharded s;
    s.write();
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
    {
        const checkpoint c(s.folder.path());
        owner = c.owner();
        bytes = c.find("a")->tensor->bytes;
    }
    float value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    CHECK(value == 1.0F);
}

TEST_CASE("a shard name that could leave the folder is refused before any file is opened") {
    const std::vector<std::string> names = {"../x.safetensors",
                                            "/etc/hostname",
                                            "/etc/x.safetensors",
                                            "a/../../x",
                                            "a/x.safetensors",
                                            "./x.safetensors",
                                            "C:\\x",
                                            "C:x.safetensors",
                                            "..\\x.safetensors",
                                            "\\\\host\\share\\x.safetensors",
                                            std::string("x\0.safetensors", 14),
                                            std::string("x.safetensors\0", 14),
                                            "x\n.safetensors",
                                            "",
                                            ".",
                                            "..",
                                            ".safetensors",
                                            "..safetensors",
                                            "x.bin",
                                            "model.safetensors.index.json"};
    for (const std::string& name : names) {
        CAPTURE(name);
        CHECK(contains(message_of<io_error>([&] { dflash::io::check_shard_name("dir/index.json", name); }),
                       "dir/index.json: weight_map: shard "));
        // In a folder: the good shards named before and after it are not there, and yet the name is the complaint.
        const temp_folder folder;
        const json map = {{"a", "model-00001-of-00002.safetensors"}, {"b", name}, {"c", "zzz.safetensors"}};
        folder.write("model.safetensors.index.json", json({{"weight_map", map}}).dump());
        CHECK(contains(message_of<io_error>([&] { const checkpoint c(folder.path()); }),
                       "is not the plain name of a .safetensors file"));
    }
    dflash::io::check_shard_name("i", "model-00001-of-00002.safetensors");
    dflash::io::check_shard_name("i", "a..b.safetensors");
}

TEST_CASE("a file outside the folder stays closed") {
    // The escape would succeed if the name were joined unchecked: the file is there and valid.
    const temp_folder folder;
    folder.write("x.safetensors", safetensors_of({filled("a", "F32", {2}, 1.0F)}));
    folder.write("model/model.safetensors.index.json", R"({"weight_map": {"a": "../x.safetensors"}})");
    CHECK_THROWS_AS(const checkpoint c(folder.path() / "model"), io_error);
    folder.write("model/model.safetensors.index.json",
                 json({{"weight_map", {{"a", (folder.path() / "x.safetensors").string()}}}}).dump());
    CHECK_THROWS_AS(const checkpoint c(folder.path() / "model"), io_error);
}

TEST_CASE("index and shards must agree") {
    SUBCASE("a listed tensor is in no shard") {
        sharded s;
        s.weight_map["d"] = "model-00002-of-00002.safetensors";
        CHECK(contains(s.refused(), "weight_map: tensor \"d\" is not in \"model-00002-of-00002.safetensors\""));
    }
    SUBCASE("a tensor is in another shard than listed") {
        sharded s;
        s.weight_map["c"] = "model-00002-of-00002.safetensors";
        CHECK(contains(s.refused(),
                       "puts tensor \"c\" in \"model-00002-of-00002.safetensors\", but "
                       "\"model-00001-of-00002.safetensors\" holds one too"));
    }
    SUBCASE("a tensor is in two shards") {
        sharded s;
        s.second.push_back(filled("a", "F32", {2}, 1.0F));
        CHECK(contains(s.refused(),
                       "puts tensor \"a\" in \"model-00001-of-00002.safetensors\", but "
                       "\"model-00002-of-00002.safetensors\" holds one too"));
    }
    SUBCASE("a shard holds a tensor that is not listed") {
        sharded s;
        s.second.push_back(filled("x", "F32", {2}, 1.0F));
        CHECK(contains(s.refused(), "does not list tensor \"x\" of \"model-00002-of-00002.safetensors\""));
    }
    SUBCASE("a shard is missing") {
        sharded s;
        s.weight_map["d"] = "model-00003-of-00002.safetensors";
        CHECK(contains(s.refused(), "model-00003-of-00002.safetensors: no such file"));
    }
    SUBCASE("the map is no map of names") {
        sharded s;
        s.weight_map = 3;
        CHECK(contains(s.refused(), "weight_map: got 3, needs an object"));
        s.weight_map = {{"a", 1}};
        CHECK(contains(s.refused(), "weight_map: \"a\": got 1, needs a file name"));
    }
    SUBCASE("the index is no object") {
        const temp_folder folder;
        folder.write("model.safetensors.index.json", "[]");
        CHECK(contains(message_of<io_error>([&] { const checkpoint c(folder.path()); }), "weight_map: got nothing"));
    }
}

TEST_CASE("a single file comes first, and without either the folder is refused") {
    sharded s;
    s.write();
    s.folder.write("model.safetensors", safetensors_of({filled("only", "F32", {1}, 9.0F)}));
    const checkpoint c(s.folder.path());
    REQUIRE(c.tensors().size() == 1);
    CHECK(c.find("only") != nullptr);
    const temp_folder empty;
    CHECK(contains(message_of<io_error>([&] { const checkpoint none(empty.path()); }),
                   "neither model.safetensors nor model.safetensors.index.json is there"));
    // A link that leads nowhere is a damaged checkpoint, not an absent one.
    std::filesystem::create_symlink(empty.path() / "gone", empty.path() / "model.safetensors");
    CHECK(contains(message_of<io_error>([&] { const checkpoint none(empty.path()); }), "no such file"));
}

TEST_CASE("a shard may be a link, as in a download cache") {
    const temp_folder folder;
    const auto blob = folder.write("blobs/123", safetensors_of({filled("a", "F32", {2}, 5.0F)}));
    folder.write("model/model.safetensors.index.json", R"({"weight_map": {"a": "m.safetensors"}})");
    std::filesystem::create_symlink(blob, folder.path() / "model" / "m.safetensors");
    const checkpoint c(folder.path() / "model");
    CHECK(read_f64(*c.find("a")->tensor) == std::vector<double>(2, 5.0));
}
