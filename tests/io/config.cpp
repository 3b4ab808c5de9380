#include <dflash/io/config.hpp>

#include "io/allocation.hpp"
#include "io/crafted.hpp"

using namespace io_test;
using dflash::config_error;
using dflash::draft_shape;
using dflash::mask_rule;
using dflash::target_shape;
using dflash::token_id;
using dflash::io::load_options;

TEST_CASE("a target configuration is read as it stands") {
    tiny_pair p;
    const target_shape s = p.target_shape();
    CHECK(s.hidden_size == 8);
    CHECK(s.layers == 6);
    CHECK(s.heads == 4);
    CHECK(s.kv_heads == 2);
    CHECK(s.head_dim == 6);  // not 8 / 4
    CHECK(s.intermediate_size == 12);
    CHECK(s.vocab_size == 10);
    CHECK(s.max_positions == 64);
    CHECK(s.rms_norm_eps == 1e-6F);
    CHECK(s.rope.theta == 1e6);
    CHECK(s.qk_norm);
    CHECK_FALSE(s.attention_bias);
    CHECK_FALSE(s.tied_head);
    CHECK(s.eos_tokens.empty());
    CHECK(s.masks == std::vector<mask_rule>(6, mask_rule{true, 0}));
    p.target_config["attention_bias"] = true;
    p.target_config["tie_word_embeddings"] = true;
    CHECK(p.target_shape().attention_bias);
    CHECK(p.target_shape().tied_head);
}

TEST_CASE("what may be left out has the documented meaning") {
    tiny_pair p;
    for (const char* key : {"head_dim", "rope_theta", "tie_word_embeddings", "hidden_act"}) {
        p.target_config.erase(key);
    }
    const target_shape s = p.target_shape();
    CHECK(s.head_dim == 2);
    CHECK(s.rope.theta == 10000.0);
    CHECK_FALSE(s.tied_head);
    p.target_config["head_dim"] = nullptr;  // null is absent
    CHECK(p.target_shape().head_dim == 2);
    p.target_config["num_attention_heads"] = 6;
    CHECK(contains(p.target_refusal(),
                   "config.json: head_dim: missing, and hidden_size 8 is not a multiple of num_attention_heads 6"));
}

TEST_CASE("head_dim is derived from the published sizes only when absent") {
    tiny_pair p;
    p.target_config["hidden_size"] = 2560;
    p.target_config["num_attention_heads"] = 32;
    p.target_config["num_key_value_heads"] = 8;
    p.target_config["head_dim"] = 128;
    CHECK(p.target_shape().head_dim == 128);
    p.target_config.erase("head_dim");
    CHECK(p.target_shape().head_dim == 80);
}

TEST_CASE("what only the checkpoint knows is required by name") {
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                            "intermediate_size", "vocab_size", "rms_norm_eps", "max_position_embeddings"}) {
        CAPTURE(key);
        tiny_pair p;
        p.target_config.erase(key);
        CHECK(contains(p.target_refusal(), std::string("config.json: ") + key + ": missing"));
    }
}

TEST_CASE("sizes that are none are refused with the key and the value") {
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                            "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"}) {
        for (const json& bad : {json(0), json(-1), json(1.5), json(8.0), json(1e30), json("8"), json(true),
                                json(json::array({8})), json(9223372036854775807), json(18446744073709551615U)}) {
            tiny_pair p;
            p.target_config[key] = bad;
            CHECK(contains(p.target_refusal(), std::string("config.json: ") + key + ": got "));
        }
    }
    tiny_pair p;
    p.target_config["head_dim"] = 5;
    CHECK(contains(p.target_refusal(), "head_dim: got 5, needs an even number"));
    p.target_config["head_dim"] = 6;
    p.target_config["rms_norm_eps"] = -1e-6;
    CHECK(contains(p.target_refusal(), "rms_norm_eps: got -1e-06"));
}

TEST_CASE("heads that cannot be grouped are refused") {
    tiny_pair p;
    p.target_config["num_attention_heads"] = 6;
    p.target_config["num_key_value_heads"] = 4;
    CHECK(contains(p.target_refusal(), "num_key_value_heads: got 4, does not divide num_attention_heads 6"));
    p.target_config["num_attention_heads"] = 28;
    CHECK(p.target_shape().kv_heads == 4);
}

TEST_CASE("a layer count allocates nothing before the layers are seen") {
    tiny_pair p;
    p.target_config["num_hidden_layers"] = 2000000000;
    p.write();
    reset_largest_allocation();
    CHECK(contains(
        message_of<config_error>([&] { static_cast<void>(dflash::io::read_target_config(p.target_folder())); }),
        "num_hidden_layers: got 2000000000, needs an integer in 1 .. 65536"));
    CHECK(largest_allocation() < 65536);
}

TEST_CASE("only the known architectures are read") {
    tiny_pair p;
    p.target_config["architectures"] = {"LlamaForCausalLM"};
    CHECK(contains(p.target_refusal(),
                   "model_type: got \"qwen3\", needs \"llama\", as architectures says LlamaForCausalLM"));
    p.target_config["model_type"] = "llama";
    CHECK_FALSE(p.target_shape().qk_norm);
    p.target_config.erase("num_key_value_heads");
    CHECK(p.target_shape().kv_heads == 4);  // Llama without grouping
    p.target_config.erase("architectures");
    CHECK_FALSE(p.target_shape().qk_norm);
    p.target_config.erase("model_type");
    CHECK(contains(p.target_refusal(), "architectures: missing, needs Qwen3ForCausalLM or LlamaForCausalLM"));
    for (const json& other : {json({"Qwen3MoeForCausalLM"}), json({"DFlashDraftModel"}), json::array(),
                              json({"Qwen3ForCausalLM", "LlamaForCausalLM"}), json("Qwen3ForCausalLM")}) {
        p.target_config["architectures"] = other;
        CHECK(contains(p.target_refusal(), "config.json: architectures: got"));
    }
    p.target_config.erase("architectures");
    p.target_config["model_type"] = "qwen2";
    CHECK(contains(p.target_refusal(), "model_type: got \"qwen2\""));
}

TEST_CASE("keys that change the mathematics are refused by name, their neutral values pass") {
    const std::vector<std::pair<const char*, json>> refused = {{"quantization_config", {{"quant_method", "fp8"}}},
                                                               {"num_experts", 128},
                                                               {"num_local_experts", 8},
                                                               {"moe_intermediate_size", 768},
                                                               {"mlp_bias", true},
                                                               {"final_logit_softcapping", 30.0},
                                                               {"logit_scale", 0.5},
                                                               {"embedding_multiplier", 12},
                                                               {"input_embedding_scale", 2.0},
                                                               {"no_rope_layers", json::array({1})}};
    for (const auto& [key, value] : refused) {
        tiny_pair p;
        p.target_config[key] = value;
        CHECK(contains(p.target_refusal(), std::string("config.json: ") + key + ": got "));
        tiny_pair q;
        q.draft_config[key] = value;
        CHECK(contains(q.draft_refusal(), std::string("config.json: ") + key + ": got "));
    }
    tiny_pair p;
    p.target_config["mlp_bias"] = false;
    p.target_config["quantization_config"] = nullptr;
    p.target_config["num_experts"] = 0;
    p.target_config["logit_scale"] = 1.0;
    p.target_config["attention_dropout"] = 0.1;
    p.target_config["torch_dtype"] = "bfloat16";
    CHECK(p.target_shape().layers == 6);
    for (const json& other : {json("gelu"), json("silu2"), json(1)}) {
        p.target_config["hidden_act"] = other;
        CHECK(contains(p.target_refusal(), "hidden_act: got"));
    }
}

TEST_CASE("layer_types alone decides which layers slide") {
    tiny_pair p;
    p.target_config["layer_types"] = {"full_attention",    "sliding_attention", "full_attention",
                                      "sliding_attention", "full_attention",    "full_attention"};
    CHECK(contains(p.target_refusal(), "sliding_window: missing"));
    p.target_config["sliding_window"] = 5;
    p.target_config["use_sliding_window"] = false;
    p.target_config["max_window_layers"] = 0;
    const std::vector<mask_rule> masks = p.target_shape().masks;
    const mask_rule full{true, 0};
    const mask_rule sliding{true, 5};
    CHECK(masks == std::vector<mask_rule>{full, sliding, full, sliding, full, full});
    p.target_config["sliding_window"] = 0;
    CHECK(contains(p.target_refusal(), "sliding_window: got 0"));
    p.target_config["sliding_window"] = nullptr;
    CHECK(contains(p.target_refusal(), "sliding_window: missing"));
    p.target_config["sliding_window"] = 5;
    p.target_config["layer_types"].erase(0);
    CHECK(contains(p.target_refusal(), "layer_types: has 5 entries, num_hidden_layers is 6"));
    p.target_config["layer_types"].push_back("chunked_attention");
    CHECK(contains(p.target_refusal(), "layer_types[5]: got \"chunked_attention\""));
    p.target_config["layer_types"][5] = 1;
    CHECK(contains(p.target_refusal(), "layer_types[5]: got 1, needs a string"));
    p.target_config["layer_types"] = std::vector<std::string>(6, "full_attention");
    p.target_config["use_sliding_window"] = true;
    CHECK(p.target_shape().masks == std::vector<mask_rule>(6, full));
}

TEST_CASE("without layer_types, use_sliding_window counts from max_window_layers on") {
    tiny_pair p;
    p.target_config["sliding_window"] = 7;
    p.target_config["max_window_layers"] = 4;
    CHECK(p.target_shape().masks == std::vector<mask_rule>(6, mask_rule{true, 0}));
    p.target_config["use_sliding_window"] = true;
    std::vector<mask_rule> masks = p.target_shape().masks;
    for (std::size_t i = 0; i < 6; ++i) {
        CHECK(masks[i] == mask_rule{true, i >= 4 ? 7 : 0});
    }
    p.target_config["max_window_layers"] = 6;
    CHECK(p.target_shape().masks == std::vector<mask_rule>(6, mask_rule{true, 0}));
    p.target_config.erase("max_window_layers");
    CHECK(contains(p.target_refusal(), "max_window_layers: missing"));
    p.target_config["use_sliding_window"] = 1;
    CHECK(contains(p.target_refusal(), "use_sliding_window: got 1, needs true or false"));
}

TEST_CASE("a Llama has no sliding layers") {
    tiny_pair p;
    p.target_config["architectures"] = {"LlamaForCausalLM"};
    p.target_config["model_type"] = "llama";
    p.target_config["sliding_window"] = 4;
    CHECK(p.target_shape().masks == std::vector<mask_rule>(6, mask_rule{true, 0}));
    p.target_config["layer_types"] = std::vector<std::string>(6, "sliding_attention");
    CHECK(contains(p.target_refusal(), "layer_types: asks for sliding layers"));
}

TEST_CASE("stop tokens are a number or a list, from both configurations") {
    tiny_pair p;
    p.target_config["eos_token_id"] = 7;
    CHECK(p.target_shape().eos_tokens == std::vector<token_id>{7});
    p.target_config["eos_token_id"] = {5, 3, 5};
    CHECK(p.target_shape().eos_tokens == std::vector<token_id>{3, 5});
    p.generation_config = {{"eos_token_id", {9, 3}}};
    CHECK(p.target_shape().eos_tokens == std::vector<token_id>{3, 5, 9});
    p.generation_config = {{"eos_token_id", 0}};
    CHECK(p.target_shape().eos_tokens == std::vector<token_id>{0, 3, 5});
    p.target_config["eos_token_id"] = nullptr;
    p.generation_config = json::object();
    CHECK(p.target_shape().eos_tokens.empty());
    for (const json& bad : {json(10), json(-1), json("5"), json(1.0)}) {
        p.generation_config = {{"eos_token_id", bad}};
        CHECK(contains(p.target_refusal(), "generation_config.json: eos_token_id: got "));
    }
    p.generation_config = {{"eos_token_id", {1, 10}}};
    CHECK(contains(p.target_refusal(), "eos_token_id[1]: got 10, needs an integer in 0 .. 9"));
}

TEST_CASE("the context limit is the configuration's unless the caller asks for less") {
    tiny_pair p;
    CHECK(p.target_shape({false, 20}).max_positions == 20);
    CHECK(p.target_shape({false, 64}).max_positions == 64);
    CHECK(contains(message_of<config_error>([&] { static_cast<void>(p.target_shape({false, 65})); }),
                   "max_position_embeddings is 64, less than the context_limit of 65"));
    CHECK_THROWS_AS(static_cast<void>(p.target_shape({false, -1})), config_error);
    p.target_config.erase("max_position_embeddings");
    CHECK(p.target_shape({false, 20}).max_positions == 20);
    p.target_config["max_position_embeddings"] = 64;
    p.draft_config["max_position_embeddings"] = 32;
    const target_shape target = p.target_shape();
    CHECK(dflash::io::read_draft_config(p.draft_folder(), target).max_positions == 32);
    CHECK(dflash::io::read_draft_config(p.draft_folder(), target, {false, 40}).max_positions == 32);
    CHECK(dflash::io::read_draft_config(p.draft_folder(), target, {false, 10}).max_positions == 10);
}

TEST_CASE("a draft configuration is read as it stands") {
    tiny_pair p;
    const draft_shape s = p.draft_shape();
    CHECK(s.layers == 2);
    CHECK(s.head_dim == 4);
    CHECK(s.block_size == 4);
    CHECK(s.mask_token == 9);
    CHECK(s.taps == std::vector<dflash::index>{1, 4});
    CHECK(s.qk_norm);
    CHECK(s.masks == std::vector<mask_rule>(2, mask_rule{false, 0}));
    p.draft_config.erase("architectures");
    CHECK(p.draft_shape().block_size == 4);
    p.draft_config["architectures"] = {"DFlash2DraftModel"};
    CHECK(contains(p.draft_refusal(), "architectures: got \"DFlash2DraftModel\", needs DFlashDraftModel"));
}

TEST_CASE("taps keep their order and repeats, and must be layers of the target") {
    tiny_pair p;
    p.draft_config["dflash_config"]["target_layer_ids"] = {4, 1, 4, 0, 5};
    CHECK(p.draft_shape().taps == std::vector<dflash::index>{4, 1, 4, 0, 5});
    for (const int bad : {-1, 6}) {
        p.draft_config["dflash_config"]["target_layer_ids"] = {1, bad};
        CHECK(contains(p.draft_refusal(), "config.json: dflash_config.target_layer_ids[1]: got " + std::to_string(bad) +
                                              ", needs an integer in 0 .. 5"));
    }
    p.draft_config["dflash_config"]["target_layer_ids"] = json::array();
    CHECK(contains(p.draft_refusal(), "target_layer_ids: got an empty list"));
    p.draft_config["dflash_config"]["target_layer_ids"] = 1;
    CHECK(contains(p.draft_refusal(), "target_layer_ids: got 1, needs a list"));
}

TEST_CASE("the file's taps count, not the rule's, in a target of 64 layers") {
    tiny_pair p;
    p.target_config["num_hidden_layers"] = 64;
    p.draft_config["num_target_layers"] = 64;
    p.draft_config["num_hidden_layers"] = 5;
    p.draft_config["dflash_config"]["target_layer_ids"] = {5, 19, 33, 47, 61};
    CHECK(p.draft_shape().taps == std::vector<dflash::index>{5, 19, 33, 47, 61});
    p.draft_config["dflash_config"].erase("target_layer_ids");
    CHECK(contains(p.draft_refusal(), "[1, 16, 31, 46, 61]"));
}

TEST_CASE("missing taps are refused with the default rule's ids and the option that accepts them") {
    tiny_pair p;
    p.draft_config["dflash_config"].erase("target_layer_ids");
    const std::string message = p.draft_refusal();
    CHECK(contains(message, "config.json: dflash_config.target_layer_ids: missing"));
    CHECK(contains(message, "[1, 3]"));
    CHECK(contains(message, "accept_default_taps"));
    load_options accept;
    accept.accept_default_taps = true;
    CHECK(p.draft_shape(accept).taps == std::vector<dflash::index>{1, 3});
    // The option accepts a default; it does not override what is stated.
    p.draft_config["dflash_config"]["target_layer_ids"] = {2};
    CHECK(p.draft_shape(accept).taps == std::vector<dflash::index>{2});
}

TEST_CASE("the mask token is required and must be a token of the target") {
    tiny_pair p;
    p.draft_config["pad_token_id"] = 0;  // no stand-in
    p.draft_config["dflash_config"].erase("mask_token_id");
    CHECK(contains(p.draft_refusal(), "config.json: dflash_config.mask_token_id: missing"));
    p.draft_config["dflash_config"]["mask_token_id"] = nullptr;
    CHECK(contains(p.draft_refusal(), "dflash_config.mask_token_id: missing"));
    for (const int bad : {10, -1}) {
        p.draft_config["dflash_config"]["mask_token_id"] = bad;
        CHECK(contains(p.draft_refusal(),
                       "dflash_config.mask_token_id: got " + std::to_string(bad) + ", needs an integer in 0 .. 9"));
    }
    for (const int good : {0, 9}) {
        p.draft_config["dflash_config"]["mask_token_id"] = good;
        CHECK(p.draft_shape().mask_token == good);
    }
}

TEST_CASE("the block size stands in dflash_config first, then at top level") {
    tiny_pair p;
    p.draft_config["block_size"] = 7;
    CHECK(p.draft_shape().block_size == 4);
    p.draft_config["dflash_config"].erase("block_size");
    CHECK(p.draft_shape().block_size == 7);
    p.draft_config["block_size"] = 0;
    CHECK(contains(p.draft_refusal(), "config.json: block_size: got 0"));
    p.draft_config.erase("block_size");
    CHECK(contains(p.draft_refusal(), "dflash_config.block_size: missing"));
}

TEST_CASE("a key in dflash_config that is not implemented is refused by name, whatever its value") {
    for (const json& value : {json(1.0), json(false), json(nullptr), json("x")}) {
        tiny_pair p;
        p.draft_config["dflash_config"]["fc_layernorm"] = value;
        CHECK(contains(p.draft_refusal(), "dflash_config: the key \"fc_layernorm\" is not supported"));
    }
    tiny_pair p;
    p.draft_config["dflash_config"] = json::array();
    CHECK(contains(p.draft_refusal(), "dflash_config: got a list of 0, needs an object"));
}

TEST_CASE("a draft must fit its target") {
    tiny_pair p;
    p.draft_config["num_target_layers"] = 8;
    CHECK(contains(p.draft_refusal(), "num_target_layers: got 8, the target has 6"));
    p.draft_config.erase("num_target_layers");
    CHECK(p.draft_shape().layers == 2);
    p.draft_config["hidden_size"] = 16;
    CHECK(contains(p.draft_refusal(), "hidden_size: got 16, the target's is 8"));
    p.draft_config["hidden_size"] = 8;
    p.draft_config["vocab_size"] = 11;
    CHECK(contains(p.draft_refusal(), "vocab_size: got 11, the target's is 10"));
}

TEST_CASE("sliding draft layers are causal unless the configuration says otherwise, full ones never") {
    tiny_pair p;
    p.draft_config["layer_types"] = {"sliding_attention", "full_attention"};
    p.draft_config["sliding_window"] = 4;
    const mask_rule full{false, 0};
    const std::vector<mask_rule> causal = {{true, 4}, full};
    const std::vector<mask_rule> both_ways = {{false, 4}, full};
    CHECK(p.draft_shape().masks == causal);
    p.draft_config["is_causal"] = false;
    CHECK(p.draft_shape().masks == both_ways);
    p.draft_config["dflash_config"]["causal"] = false;
    CHECK(p.draft_shape().masks == both_ways);
    p.draft_config.erase("is_causal");
    CHECK(p.draft_shape().masks == both_ways);
    p.draft_config["is_causal"] = true;
    CHECK(contains(p.draft_refusal(), "is_causal is true, but "));
    // Causal full layers are not what "full" means here, so the statement is not passed over.
    p.draft_config["dflash_config"].erase("causal");
    CHECK(contains(p.draft_refusal(), "is_causal: got true, but layer 1 is a full_attention layer"));
    p.draft_config.erase("is_causal");
    p.draft_config["dflash_config"]["causal"] = true;
    CHECK(contains(p.draft_refusal(), "dflash_config.causal: got true, but layer 1 is a full_attention layer"));
    p.draft_config["layer_types"] = {"sliding_attention", "sliding_attention"};
    CHECK(p.draft_shape().masks == std::vector<mask_rule>(2, mask_rule{true, 4}));
    p.draft_config["is_causal"] = "yes";
    CHECK(contains(p.draft_refusal(), "is_causal: got \"yes\""));
}

TEST_CASE("the keys a sliding and a full draft layer show") {
    tiny_pair p;
    p.draft_config["layer_types"] = {"sliding_attention", "full_attention"};
    p.draft_config["sliding_window"] = 4;
    const auto keys = [](const mask_rule& mask) {
        const dflash::key_range r = mask.keys(11, 14);  // context 0..9, block 10..13
        return std::pair<dflash::index, dflash::index>(r.first, r.last - 1);
    };
    CHECK(keys(p.draft_shape().masks[1]) == std::pair<dflash::index, dflash::index>(0, 13));
    CHECK(keys(p.draft_shape().masks[0]) == std::pair<dflash::index, dflash::index>(8, 11));
    p.draft_config["is_causal"] = false;
    CHECK(keys(p.draft_shape().masks[0]) == std::pair<dflash::index, dflash::index>(8, 13));
}

TEST_CASE("a damaged configuration names its file") {
    tiny_pair p;
    p.write();
    p.folder.write("target/config.json", "{\"hidden_size\": 8,}");
    CHECK(contains(
        message_of<dflash::io_error>([&] { static_cast<void>(dflash::io::read_target_config(p.target_folder())); }),
        "config.json: invalid JSON at byte"));
    p.folder.write("target/config.json", "[]");
    CHECK(contains(
        message_of<config_error>([&] { static_cast<void>(dflash::io::read_target_config(p.target_folder())); }),
        "config.json: got a list of 0, needs an object"));
    std::filesystem::remove(p.target_folder() / "config.json");
    CHECK(contains(
        message_of<dflash::io_error>([&] { static_cast<void>(dflash::io::read_target_config(p.target_folder())); }),
        "config.json: no such file"));
}
