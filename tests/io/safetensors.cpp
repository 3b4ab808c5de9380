#include <dflash/io/safetensors.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "io/allocation.hpp"
#include "io/crafted.hpp"

#if defined(__unix__)
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace io_test;
using dflash::io_error;
using dflash::io::as_weight;
using dflash::io::safetensors_file;
using dflash::io::safetensors_writer;
using dflash::io::stored_tensor;

namespace {

std::string one_tensor(const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"t": {"dtype": ")" + type + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
}

/// The message with which a file of these bytes is refused.
std::string refused(const std::string& bytes) {
    const temp_folder folder;
    const auto path = folder.write("x.safetensors", bytes);
    const std::string message = message_of<io_error>([&] { const safetensors_file file(path); });
    CHECK(contains(message, "x.safetensors"));
    return message;
}

std::string refused_header(const std::string& header, std::size_t data_bytes) {
    return refused(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

dflash::index accepted_elements(const std::string& header, std::size_t data_bytes) {
    const temp_folder folder;
    const safetensors_file file(
        folder.write("x.safetensors", safetensors_bytes(header, std::string(data_bytes, '\0'))));
    return file.at("t").elements();
}

}  // namespace

TEST_CASE("sizes whose product wraps, and sizes that are none, are refused") {
    const std::string product = refused_header(one_tensor("F32", "[4294967296,4294967296]", "[0,0]"), 0);
    CHECK(contains(product, "tensor \"t\": shape [4294967296, 4294967296] has more elements than memory can have"));
    CHECK(contains(refused_header(one_tensor("F32", "[4611686018427387905]", "[0,4]"), 4), "more elements"));
    CHECK(contains(refused_header(one_tensor("F64", "[2305843009213693952]", "[0,0]"), 0), "more elements"));
    CHECK(contains(refused_header(one_tensor("U8", "[9223372036854775807,3]", "[0,0]"), 0), "more elements"));
    CHECK(contains(refused_header(one_tensor("F32", "[-1,4]", "[0,4]"), 4), "tensor \"t\": shape: got -1"));
    CHECK(contains(refused_header(one_tensor("F32", "[-1,-4]", "[0,16]"), 16), "shape: got -1"));
    CHECK(contains(refused_header(one_tensor("F32", "[1e30]", "[0,4]"), 4), "shape: got 1e+30"));
    CHECK(contains(refused_header(one_tensor("F32", "[1.5]", "[0,6]"), 6), "shape: got 1.5"));
    CHECK(contains(refused_header(one_tensor("F32", "[1.0]", "[0,4]"), 4), "shape: got 1.0"));
    CHECK(contains(refused_header(one_tensor("F32", "[18446744073709551615]", "[0,4]"), 4), "shape: got"));
    CHECK(contains(refused_header(one_tensor("F32", "[\"1\"]", "[0,4]"), 4), "shape: got \"1\""));
    CHECK(contains(refused_header(one_tensor("F32", "4", "[0,16]"), 16), "shape: got 4, needs a list"));
    CHECK(accepted_elements(one_tensor("F32", "[0]", "[0,0]"), 0) == 0);
    CHECK(accepted_elements(one_tensor("F32", "[]", "[0,4]"), 4) == 1);
    CHECK(accepted_elements(one_tensor("F32", "[4294967296,0,4294967296]", "[0,0]"), 0) == 0);
    CHECK(accepted_elements(one_tensor("F4", "[2,3]", "[0,3]"), 3) == 6);
    CHECK(contains(refused_header(one_tensor("F4", "[3]", "[0,2]"), 2), "does not fill whole bytes"));
}

TEST_CASE("the header length is compared with the file before it is used") {
    const std::string body = one_tensor("F32", "[1]", "[0,4]");
    const auto with_length = [&](std::uint64_t length) {
        return refused(little_endian(length) + body + std::string(4, '\0'));
    };
    CHECK(contains(with_length((std::numeric_limits<std::uint64_t>::max)()),
                   "the header is said to have 18446744073709551615 bytes, the file has"));
    CHECK(contains(with_length((std::numeric_limits<std::uint64_t>::max)() - 7), "is said to have"));
    CHECK(contains(with_length(std::uint64_t{1} << 63), "is said to have 9223372036854775808"));
    const std::size_t size = 8 + body.size() + 4;
    CHECK(contains(with_length(size + 1), "is said to have " + std::to_string(size + 1) + " bytes"));
    CHECK(contains(with_length(size - 7), "is said to have"));  // one more than there is
    CHECK(contains(with_length(0), "does not start with '{'"));
    CHECK(contains(with_length(body.size() - 1), "invalid JSON"));
    CHECK(contains(with_length(body.size() + 1), "NUL byte"));  // the first data byte is no padding
    CHECK(contains(refused(std::string(7, 'a')), "7 bytes, a safetensors file has at least 8"));
    CHECK(contains(refused(""), "0 bytes"));
    CHECK(contains(refused(" " + body), "is said to have"));
    CHECK(contains(refused(safetensors_bytes(" " + body, std::string(4, '\0'))), "does not start with '{'"));
    CHECK(contains(refused(safetensors_bytes("[]", "")), "does not start with '{'"));
    CHECK(contains(refused(safetensors_bytes("\xEF\xBB\xBF{}", "")), "does not start with '{'"));
    CHECK(contains(refused(safetensors_bytes("{} {}", "")), "invalid JSON"));
}

TEST_CASE("the offsets must be those of the shape and lie in the file") {
    CHECK(contains(refused_header(one_tensor("F32", "[32,8]", "[0,65536]"), 65536),
                   "tensor \"t\": shape [32, 8] of F32 has 1024 bytes, data_offsets give it 65536"));
    CHECK(contains(refused_header(one_tensor("F32", "[32,8]", "[0,65536]"), 1024),
                   "data_offsets: ends at 65536, the data has 1024 bytes"));
    CHECK(contains(refused_header(one_tensor("F32", "[1000,1000]", "[0,4]"), 4),
                   "has 4000000 bytes, data_offsets give it 4"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[4]"), 4), "data_offsets: got a list of 1"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[0,4,8]"), 8), "data_offsets: got a list of 3"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "{}"), 4), "data_offsets: got an object"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[4,0]"), 4), "ends at 0, before it starts at 4"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[-4,0]"), 4), "data_offsets: got -4"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[0,-4]"), 4), "data_offsets: got -4"));
    CHECK(contains(refused_header(one_tensor("F32", "[1]", "[0.0,4.0]"), 4), "data_offsets: got 0.0"));
    CHECK(contains(refused_header(one_tensor("F32", "[0]", "[9223372036854775807,9223372036854775807]"), 0),
                   "ends at 9223372036854775807, the data has 0"));
}

TEST_CASE("the tensors cover the data, once") {
    const auto two = [](const std::string& a, const std::string& b) {
        return R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": )" + a +
               R"(}, "b": {"dtype": "F32", "shape": [2], "data_offsets": )" + b + "}}";
    };
    CHECK(contains(refused_header(two("[0,8]", "[4,12]"), 12),
                   "tensor \"b\" starts at byte 4 of the data, the one before ends at 8 (they overlap)"));
    CHECK(contains(refused_header(two("[0,8]", "[0,8]"), 8), "overlap"));
    CHECK(contains(refused_header(two("[0,8]", "[12,20]"), 20),
                   "tensor \"b\" starts at byte 12 of the data, the one before ends at 8 (a hole)"));
    CHECK(contains(refused_header(two("[4,12]", "[12,20]"), 20), "tensor \"a\" starts at byte 4"));
    CHECK(contains(refused_header(two("[0,8]", "[8,16]"), 20), "end at byte 16 of the data, which has 20"));
    CHECK(contains(refused_header("{}", 1), "end at byte 0 of the data, which has 1"));
    const temp_folder folder;
    const safetensors_file file(
        folder.write("x.safetensors", safetensors_bytes(two("[8,16]", "[0,8]") + "   ", std::string(16, '\1'))));
    CHECK(file.tensors().size() == 2);  // any order in the file, padding after the header
    const safetensors_file empty(folder.write("y.safetensors", safetensors_bytes("{}", "")));
    CHECK(empty.tensors().empty());
}

TEST_CASE("the header says what the format says, nothing else") {
    CHECK(contains(refused_header(one_tensor("F33", "[1]", "[0,4]"), 4), "tensor \"t\": unknown dtype \"F33\""));
    CHECK(contains(refused_header(one_tensor("f32", "[1]", "[0,4]"), 4), "unknown dtype"));
    CHECK(contains(refused_header(R"({"t": {"dtype": 32, "shape": [1], "data_offsets": [0,4]}})", 4), "dtype: got 32"));
    CHECK(contains(refused_header(R"({"t": {"dtype": "F32", "shape": [1]}})", 4), "needs exactly"));
    CHECK(contains(refused_header(R"({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0,4], "x": 1}})", 4),
                   "needs exactly"));
    CHECK(contains(refused_header(R"({"t": 1})", 4), "needs exactly"));
    CHECK(contains(refused_header(R"({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0,4]},
                                      "t": {"dtype": "F32", "shape": [1], "data_offsets": [4,8]}})",
                                  8),
                   "\"t\" occurs twice"));
    CHECK(contains(refused_header(R"({"__metadata__": {"a": 1}})", 0), "__metadata__ \"a\": got 1, needs a string"));
    CHECK(contains(refused_header(R"({"__metadata__": []})", 0), "__metadata__: got a list"));
    const temp_folder folder;
    const safetensors_file file(
        folder.write("x.safetensors", safetensors_bytes(R"({"__metadata__": {"format": "pt"}})", "")));
    REQUIRE(file.metadata().size() == 1);
    CHECK(file.metadata()[0].second == "pt");
}

TEST_CASE("no number in a file makes a large allocation") {
    for (const std::string& header :
         {one_tensor("F32", "[1099511627776]", "[0,4398046511104]"), one_tensor("F32", "[1000000000]", "[0,4]"),
          one_tensor("U8", "[9223372036854775807]", "[0,9223372036854775807]"),
          one_tensor("F32", "[0,1000000000000]", "[0,0]")}) {
        const temp_folder folder;
        const auto path = folder.write("x.safetensors", safetensors_bytes(header, std::string(4, '\0')));
        reset_largest_allocation();
        CHECK_THROWS_AS(const safetensors_file file(path), io_error);
        CHECK(largest_allocation() < 4096);
    }
    const temp_folder folder;
    const auto path = folder.write("x.safetensors", little_endian(99'999'999) + "{}");
    reset_largest_allocation();
    CHECK_THROWS_AS(const safetensors_file file(path), io_error);
    CHECK(largest_allocation() < 4096);
}

TEST_CASE("data at any alignment reads right") {
    const std::vector<float> values = {1.5F, -0.0F, 3.0F, -65504.0F, 0.0078125F};
    for (const std::string type : {"F32", "BF16", "F16"}) {
        std::string data;
        for (const float v : values) {
            data += encoded(type, v);
        }
        for (std::size_t start = 0; start < 8; ++start) {
            std::string header = one_tensor(type, "[5]", "[0," + std::to_string(data.size()) + "]");
            header.resize((header.size() + 7) / 8 * 8 + start, ' ');
            const temp_folder folder;
            const safetensors_file file(folder.write("x.safetensors", safetensors_bytes(header, data)));
            const stored_tensor& tensor = file.at("t");
            REQUIRE(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 8 == start);
            const std::vector<double> read = read_f64(tensor);
            REQUIRE(read.size() == values.size());
            for (std::size_t i = 0; i < values.size(); ++i) {
                const double expected =
                    type == "BF16" ? dflash::numerics::to_float(dflash::numerics::to_bf16(values[i])) : values[i];
                CHECK(read[i] == expected);
                CHECK(std::signbit(read[i]) == std::signbit(expected));
            }
            const dflash::tensor_view view = as_weight("x", tensor);
            CHECK(view.data == tensor.bytes.data());
            CHECK(view.rows == 1);
            CHECK(view.cols == 5);
            CHECK(name_of(view.type) == type);
        }
    }
}

TEST_CASE("weights are matrices, vectors and scalars of three types") {
    const temp_folder folder;
    std::vector<made_tensor> tensors = {filled("m", "F32", {2, 3}, 1.0F), filled("v", "BF16", {4}, 1.0F),
                                        filled("s", "F16", {}, 1.0F), filled("c", "F32", {1, 2, 3}, 1.0F),
                                        filled("none", "F32", {0, 3}, 1.0F)};
    for (const char* type : {"F64", "I64", "U64", "C64"}) {
        tensors.push_back({type, type, {1}, std::string(8, '\1')});
    }
    for (const char* type : {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}) {
        tensors.push_back({type, type, {1}, std::string(1, '\1')});
    }
    const safetensors_file file(folder.write("x.safetensors", safetensors_of(tensors)));
    const auto view = [&](const char* name) { return as_weight(file.path(), file.at(name)); };
    CHECK(view("m").rows == 2);
    CHECK(view("m").cols == 3);
    CHECK(view("v").rows == 1);
    CHECK(view("v").cols == 4);
    CHECK(view("s").rows == 1);
    CHECK(view("s").cols == 1);
    CHECK(view("none").rows == 0);
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(view("c")); }),
                   "tensor \"c\": shape [1, 2, 3] has 3 dimensions"));
    for (const char* type : {"F64", "I64", "U64", "C64", "I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}) {
        CHECK(contains(message_of<io_error>([&] { static_cast<void>(view(type)); }),
                       std::string("dtype ") + type + " is not supported for weights"));
    }
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(file.at("zzz")); }), "no tensor \"zzz\""));
    CHECK(file.find("zzz") == nullptr);
    CHECK(read_i64(file.at("BOOL")) == std::vector<std::int64_t>{1});
    CHECK(read_i64(file.at("I64")) == std::vector<std::int64_t>{0x0101010101010101});
    CHECK_THROWS_AS(static_cast<void>(read_i64(file.at("m"))), io_error);
    CHECK_THROWS_AS(static_cast<void>(read_f64(file.at("I64"))), io_error);
}

TEST_CASE("integers keep sign and width") {
    const temp_folder folder;
    const std::string ff(8, '\xFF');
    const safetensors_file file(folder.write("x.safetensors", safetensors_of({{"a", "I64", {1}, ff},
                                                                              {"b", "I32", {2}, ff},
                                                                              {"c", "I16", {4}, ff},
                                                                              {"d", "I8", {8}, ff},
                                                                              {"e", "U32", {2}, ff},
                                                                              {"f", "U16", {4}, ff},
                                                                              {"g", "U8", {8}, ff}})));
    for (const char* name : {"a", "b", "c", "d"}) {
        CHECK(read_i64(file.at(name)).back() == -1);
    }
    CHECK(read_i64(file.at("e")) == std::vector<std::int64_t>(2, 0xFFFFFFFF));
    CHECK(read_i64(file.at("f")) == std::vector<std::int64_t>(4, 0xFFFF));
    CHECK(read_i64(file.at("g")) == std::vector<std::int64_t>(8, 0xFF));
}

TEST_CASE("a moved file keeps its tensors") {
    const temp_folder folder;
    safetensors_file first(folder.write("x.safetensors", safetensors_of({filled("t", "F32", {2}, 7.0F)})));
    const stored_tensor* tensor = first.find("t");
    const safetensors_file second(std::move(first));
    CHECK(second.find("t") == tensor);
    CHECK(read_f64(*tensor) == std::vector<double>(2, 7.0));
}

#if defined(__linux__)
TEST_CASE("released bytes leave this process's memory and read the same again") {
    const auto resident = [] {  // bytes of files that this process holds in memory
        std::ifstream statm("/proc/self/statm");
        dflash::index total = 0;
        dflash::index all = 0;
        dflash::index shared = 0;
        statm >> total >> all >> shared;
        return shared * dflash::index{::sysconf(_SC_PAGESIZE)};
    };
    const temp_folder folder;
    std::string bytes(std::size_t{16} << 20, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(i * 2654435761U >> 13U);
    }
    const safetensors_file file(folder.write(
        "x.safetensors",
        safetensors_of({{"a", "U8", {static_cast<dflash::index>(bytes.size() / 2)}, bytes.substr(0, bytes.size() / 2)},
                        {"b", "U8", {static_cast<dflash::index>(bytes.size() / 2)}, bytes.substr(bytes.size() / 2)}})));
    const auto same = [&](const char* name, std::size_t at) {
        const std::span<const std::byte> got = file.find(name)->bytes;
        return std::memcmp(got.data(), bytes.data() + at, got.size()) == 0;
    };
    REQUIRE(same("a", 0));
    REQUIRE(same("b", bytes.size() / 2));
    const dflash::index before = resident();
    CHECK(file.release(file.find("a")->bytes));
    const dflash::index after = resident();
    CHECK(before - after > (dflash::index{7} << 20));  // a, and nothing of b
    CHECK(before - after <= (dflash::index{8} << 20));
    CHECK(same("a", 0));
    CHECK(same("b", bytes.size() / 2));
    CHECK(!file.release(std::as_bytes(std::span(bytes))));  // not of this file: left alone
}
#endif

TEST_CASE("only regular files are opened") {
    const temp_folder folder;
    CHECK(contains(message_of<io_error>([&] { const safetensors_file f(folder.path()); }), "not a regular file"));
    CHECK(contains(message_of<io_error>([&] { const safetensors_file f(folder.path() / "none"); }), "no such file"));
#if defined(__unix__)
    const auto pipe = folder.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // opening it would wait for a writer for ever
    CHECK(contains(message_of<io_error>([&] { const safetensors_file f(pipe); }), "not a regular file"));
#endif
}

TEST_CASE("what the writer writes reads back, in the order of adding") {
    const temp_folder folder;
    const auto path = folder.path() / "dump.safetensors";
    const float nan = std::numeric_limits<float>::quiet_NaN();
    safetensors_writer writer;
    writer.add("z", {2, 2}, std::vector<float>{1.0F, -0.0F, nan, 1e-45F});
    writer.add("a \"quoted\"\\\n\xC3\xA4", {3}, std::vector<float>{4.0F, 5.0F, 6.0F});
    writer.add("scalar", {}, std::vector<float>{7.0F});
    writer.add("empty", {0, 5}, std::vector<float>{});
    writer.write(path);
    const safetensors_file file(path);
    REQUIRE(file.tensors().size() == 4);
    const std::vector<double> z = read_f64(file.at("z"));
    CHECK(z[0] == 1.0);
    CHECK(std::signbit(z[1]));
    CHECK(std::isnan(z[2]));
    CHECK(z[3] == static_cast<double>(1e-45F));
    CHECK(file.at("z").shape == std::vector<dflash::index>{2, 2});
    CHECK(read_f64(file.at("a \"quoted\"\\\n\xC3\xA4")) == std::vector<double>{4.0, 5.0, 6.0});
    CHECK(read_f64(file.at("scalar")) == std::vector<double>{7.0});
    CHECK(file.at("scalar").shape.empty());
    CHECK(file.at("empty").elements() == 0);
    CHECK(file.at("z").bytes.data() < file.at("scalar").bytes.data());
    CHECK(reinterpret_cast<std::uintptr_t>(file.at("z").bytes.data()) % 8 == 0);
    const std::string text = dflash::io::read_text(path, 10000);
    CHECK(text.find("\"z\"") < text.find("\"scalar\""));
    writer.write(folder.path() / "again.safetensors");
    CHECK(dflash::io::read_text(folder.path() / "again.safetensors", 10000) == text);
}

TEST_CASE("the writer refuses what it cannot write") {
    const temp_folder folder;
    safetensors_writer writer;
    const std::vector<float> three(3, 1.0F);
    CHECK_THROWS_AS(writer.add("a", {2}, three), dflash::config_error);
    CHECK_THROWS_AS(writer.add("a", {-1, -3}, three), dflash::config_error);
    CHECK_THROWS_AS(writer.add("a", {4294967296, 4294967296}, {}), dflash::config_error);
    CHECK_THROWS_AS(writer.add("__metadata__", {3}, three), dflash::config_error);
    writer.add("a", {3}, three);
    CHECK_THROWS_AS(writer.add("a", {3}, three), dflash::config_error);
    CHECK_THROWS_AS(writer.write(folder.path() / "no" / "such" / "folder"), io_error);
    CHECK_THROWS_AS(writer.write(folder.path()), io_error);
    safetensors_writer bad;
    bad.add("\xFF", {3}, three);
    CHECK_THROWS_AS(bad.write(folder.path() / "x"), io_error);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "x"));
#if defined(__linux__)
    if (std::filesystem::exists("/dev/full")) {  // takes every byte into the buffer and fails when they are flushed
        CHECK(contains(message_of<io_error>([&] { writer.write("/dev/full"); }), "/dev/full: cannot write"));
        safetensors_writer large;
        large.add("a", {100000}, std::vector<float>(100000, 1.0F));
        CHECK_THROWS_AS(large.write("/dev/full"), io_error);
    }
#endif
}
