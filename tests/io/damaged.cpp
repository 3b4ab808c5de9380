// Damaged and hostile files: whatever the bytes, loading succeeds or raises a dflash error. Run under sanitizers too.
#include <random>

#include "io/crafted.hpp"

using namespace io_test;

namespace {

/// Loads the pair from the folders as they are; true when it loaded.
bool loads(const tiny_pair& p) {
    try {
        const auto target = dflash::io::load_target(p.target_folder());
        const auto draft = dflash::io::load_draft(p.draft_folder(), target.shape);
        // Every byte that a view claims can be read.
        unsigned sum = 0;
        const auto touch = [&](const dflash::tensor_view& view) {
            for (dflash::index i = 0; i < view.rows * view.cols * size_of(view.type); ++i) {
                sum += static_cast<unsigned>(view.data[i]);
            }
        };
        touch(target.weights.embedding);
        touch(target.weights.head);
        for (const auto& layer : target.weights.layers) {
            touch(layer.q);
            touch(layer.down);
        }
        touch(draft.weights.fc);
        volatile unsigned keep = sum;
        static_cast<void>(keep);
        return true;
    } catch (const dflash::error& e) {
        CHECK(std::string(e.what()).size() < 2000);
        return false;
    }
}

/// One to four random changes: bits, bytes, cuts, insertions, repeats.
std::string damaged(std::string bytes, std::mt19937& random) {
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::string spice = "{}[]\",:0123456789-+.eE \\u\n\xFF\x80";
    for (std::size_t change = 0; change < 1 + pick(4) && !bytes.empty(); ++change) {
        const std::size_t at = pick(bytes.size());
        switch (pick(6)) {
            case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8))); break;
            case 1: bytes[at] = static_cast<char>(pick(256)); break;
            case 2: bytes[at] = spice[pick(spice.size())]; break;
            case 3: bytes.resize(at); break;
            case 4: bytes.insert(at, 1, spice[pick(spice.size())]); break;
            default: bytes.insert(at, bytes.substr(at, 1 + pick(40))); break;
        }
    }
    return bytes;
}

/// A value that no configuration should have.
json hostile(std::mt19937& random) {
    const json values[] = {nullptr,
                           true,
                           false,
                           0,
                           -1,
                           1,
                           2,
                           3,
                           7,
                           1.5,
                           1e30,
                           -1e308,
                           2147483647,
                           2147483648,
                           9223372036854775807,
                           18446744073709551615U,
                           "",
                           "qwen3",
                           "yarn",
                           json::array(),
                           json::array({1, 4}),
                           json::array({-1}),
                           json::object(),
                           json({{"rope_theta", 3}})};
    return values[random() % (sizeof(values) / sizeof(values[0]))];
}

}  // namespace

TEST_CASE("damaged tensor files load or are refused") {
    tiny_pair p;
    p.write();
    REQUIRE(loads(p));
    std::mt19937 random(1);
    const std::string whole = safetensors_of(p.draft_tensors);
    std::size_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    int loaded = 0;
    for (int round = 0; round < 900; ++round) {
        // Two in three hit the header, where a change can lie.
        std::string bytes = round % 3 == 0 ? damaged(whole, random)
                                           : damaged(whole.substr(0, 8 + header), random) + whole.substr(8 + header);
        p.folder.write("draft/model.safetensors", bytes);
        loaded += loads(p) ? 1 : 0;
    }
    CHECK(loaded < 600);  // changes of weights pass, most of the others must not
}

TEST_CASE("every truncation of a tensor file is refused") {
    tiny_pair p;
    p.write();
    const std::string whole = safetensors_of(p.draft_tensors);
    for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 37) {
        p.folder.write("draft/model.safetensors", whole.substr(0, size));
        CHECK_FALSE(loads(p));
    }
    p.folder.write("draft/model.safetensors", whole + '\0');
    CHECK_FALSE(loads(p));
}

TEST_CASE("damaged configurations load or are refused") {
    tiny_pair p;
    p.generation_config = {{"eos_token_id", {1, 2}}};
    p.target_config["rope_scaling"] = {{"rope_type", "llama3"},
                                       {"factor", 8.0},
                                       {"low_freq_factor", 1.0},
                                       {"high_freq_factor", 4.0},
                                       {"original_max_position_embeddings", 16}};
    p.write();
    REQUIRE(loads(p));
    std::mt19937 random(2);
    for (int round = 0; round < 250; ++round) {
        p.folder.write("target/config.json", damaged(p.target_config.dump(), random));
        loads(p);
        p.write();
        p.folder.write("draft/config.json", damaged(p.draft_config.dump(), random));
        loads(p);
        p.write();
        p.folder.write("target/generation_config.json", damaged(p.generation_config.dump(), random));
        loads(p);
    }
}

TEST_CASE("hostile values under every key load or are refused") {
    std::mt19937 random(3);
    const std::vector<std::string> more = {"rope_scaling",       "rope_parameters",   "layer_types", "sliding_window",
                                           "use_sliding_window", "max_window_layers", "is_causal",   "eos_token_id",
                                           "num_experts",        "attention_bias",    "context"};
    for (int round = 0; round < 400; ++round) {
        tiny_pair p;
        for (json* config : {&p.target_config, &p.draft_config}) {
            for (std::size_t n = 0; n < 1 + random() % 2; ++n) {
                const std::size_t at = random() % (config->size() + more.size());
                const std::string key = at < config->size()
                                            ? std::next(config->begin(), static_cast<std::ptrdiff_t>(at)).key()
                                            : more[at - config->size()];
                (*config)[key] = hostile(random);
            }
            if (config->contains("dflash_config") && (*config)["dflash_config"].is_object() && random() % 2 == 0) {
                const char* keys[] = {"block_size", "mask_token_id", "target_layer_ids", "causal"};
                (*config)["dflash_config"][keys[random() % 4]] = hostile(random);
            }
        }
        p.write();
        loads(p);
    }
}

TEST_CASE("a damaged index loads or is refused") {
    std::mt19937 random(4);
    tiny_pair p;
    p.write();
    std::filesystem::remove(p.target_folder() / "model.safetensors");
    json map = json::object();
    for (const made_tensor& t : p.target_tensors) {
        map[t.name] = "only.safetensors";
    }
    const std::string index = json({{"weight_map", map}}).dump();
    p.folder.write("target/only.safetensors", safetensors_of(p.target_tensors));
    p.folder.write("target/model.safetensors.index.json", index);
    REQUIRE(loads(p));
    for (int round = 0; round < 300; ++round) {
        p.folder.write("target/model.safetensors.index.json", damaged(index, random));
        loads(p);
    }
}
