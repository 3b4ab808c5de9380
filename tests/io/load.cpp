#include <dflash/io/load.hpp>

#include "io/crafted.hpp"

using namespace io_test;
using dflash::io_error;
using dflash::layer_weights;
using dflash::tensor_view;
using dflash::io::draft_checkpoint;
using dflash::io::load_draft;
using dflash::io::load_target;
using dflash::io::target_checkpoint;

namespace {

std::string target_refused(const tiny_pair& p) {
    return message_of<io_error>([&] { static_cast<void>(p.load_target()); });
}

std::string draft_refused(const tiny_pair& p) {
    return message_of<io_error>([&] { static_cast<void>(p.load_draft()); });
}

/// The first value of an F32 view.
float first(const tensor_view& view) {
    REQUIRE(view.data != nullptr);
    REQUIRE(view.type == dflash::dtype::f32);
    float value = 0;
    std::memcpy(&value, view.data, sizeof(value));
    return value;
}

/// The place of a tensor in its list, which is what it is filled with.
float number_of(std::vector<made_tensor>& in, const std::string& name) {
    return static_cast<float>(&tiny_pair::find(in, name) - in.data() + 1);
}

void check_layer(const layer_weights& layer, std::vector<made_tensor>& in, const std::string& prefix) {
    const std::vector<std::pair<const char*, const tensor_view*>> roles = {
        {"input_layernorm.weight", &layer.input_norm}, {"self_attn.q_proj.weight", &layer.q},
        {"self_attn.k_proj.weight", &layer.k},         {"self_attn.v_proj.weight", &layer.v},
        {"self_attn.o_proj.weight", &layer.o},         {"self_attn.q_norm.weight", &layer.q_norm},
        {"self_attn.k_norm.weight", &layer.k_norm},    {"post_attention_layernorm.weight", &layer.post_norm},
        {"mlp.gate_proj.weight", &layer.gate},         {"mlp.up_proj.weight", &layer.up},
        {"mlp.down_proj.weight", &layer.down}};
    for (const auto& role : roles) {
        CAPTURE(role.first);
        CHECK(first(*role.second) == number_of(in, prefix + role.first));
    }
    CHECK(layer.q_bias.empty());
    CHECK(layer.o_bias.empty());
}

}  // namespace

TEST_CASE("every tensor gets its role") {
    tiny_pair p;
    const target_checkpoint t = p.load_target();
    CHECK(first(t.weights.embedding) == number_of(p.target_tensors, "model.embed_tokens.weight"));
    CHECK(first(t.weights.norm) == number_of(p.target_tensors, "model.norm.weight"));
    CHECK(first(t.weights.head) == number_of(p.target_tensors, "lm_head.weight"));
    REQUIRE(t.weights.layers.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) {
        check_layer(t.weights.layers[i], p.target_tensors, "model.layers." + std::to_string(i) + ".");
    }
    CHECK(t.weights.layers[0].q.rows == 24);
    CHECK(t.weights.layers[0].q.cols == 8);
    CHECK(t.weights.layers[0].o.rows == 8);
    CHECK(t.weights.layers[0].o.cols == 24);
    CHECK(t.weights.norm.rows == 1);
    CHECK(t.weights.norm.cols == 8);
    const draft_checkpoint d = p.load_draft();
    CHECK(first(d.weights.fc) == number_of(p.draft_tensors, "fc.weight"));
    CHECK(first(d.weights.hidden_norm) == number_of(p.draft_tensors, "hidden_norm.weight"));
    CHECK(first(d.weights.norm) == number_of(p.draft_tensors, "norm.weight"));
    REQUIRE(d.weights.layers.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        check_layer(d.weights.layers[i], p.draft_tensors, "layers." + std::to_string(i) + ".");
    }
    CHECK(d.weights.fc.cols == 16);
}

TEST_CASE("the weights outlive everything but their owner") {
    tiny_pair p;
    dflash::target_weights weights = p.load_target().weights;
    CHECK(first(weights.layers[5].down) == number_of(p.target_tensors, "model.layers.5.mlp.down_proj.weight"));
    CHECK(weights.owner.use_count() == 1);
}

TEST_CASE("saying that tensors are packed changes none, also when their owner is gone") {
    tiny_pair p;
    dflash::target_weights weights = p.load_target().weights;
    REQUIRE(weights.on_packed);
    weights.on_packed->packed(weights.embedding);
    weights.on_packed->packed(weights.layers[5].down);
    CHECK(first(weights.layers[5].down) == number_of(p.target_tensors, "model.layers.5.mlp.down_proj.weight"));
    CHECK(first(weights.embedding) == number_of(p.target_tensors, "model.embed_tokens.weight"));
    CHECK(p.load_draft().weights.on_packed);
    weights.owner.reset();
    weights.on_packed->packed(weights.embedding);  // nothing is left to give back
}

TEST_CASE("every tensor is needed, by name") {
    const std::vector<std::string> target_names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                                                   "model.layers.5.self_attn.k_proj.weight",
                                                   "model.layers.0.self_attn.q_norm.weight"};
    for (const std::string& name : target_names) {
        tiny_pair p;
        tiny_pair::erase(p.target_tensors, name);
        const std::string message = target_refused(p);
        CHECK(contains(message, "tensor \"" + name + "\""));
        CHECK(contains(message, "missing"));
    }
    for (const char* name : {"fc.weight", "hidden_norm.weight", "norm.weight", "layers.1.mlp.up_proj.weight"}) {
        tiny_pair p;
        tiny_pair::erase(p.draft_tensors, name);
        CHECK(contains(draft_refused(p), std::string("tensor \"") + name + "\" of shape ["));
    }
}

TEST_CASE("a tensor of another shape is refused with both shapes") {
    tiny_pair p;
    tiny_pair::find(p.target_tensors, "model.layers.2.self_attn.q_proj.weight") =
        filled("model.layers.2.self_attn.q_proj.weight", "F32", {8, 8}, 1.0F);
    CHECK(contains(target_refused(p),
                   "model.safetensors: tensor \"model.layers.2.self_attn.q_proj.weight\" has shape "
                   "[8, 8], the configuration says [24, 8]"));
    tiny_pair vector;
    tiny_pair::find(vector.target_tensors, "model.norm.weight") = filled("model.norm.weight", "F32", {1, 8}, 1.0F);
    CHECK(contains(target_refused(vector), "has shape [1, 8], the configuration says [8]"));
    tiny_pair turned;
    tiny_pair::find(turned.target_tensors, "model.layers.0.mlp.down_proj.weight") =
        filled("model.layers.0.mlp.down_proj.weight", "F32", {12, 8}, 1.0F);
    CHECK(contains(target_refused(turned), "has shape [12, 8], the configuration says [8, 12]"));
    // The number of taps and the width of fc: both numbers.
    tiny_pair taps;
    taps.draft_config["dflash_config"]["target_layer_ids"] = {1, 2, 3};
    CHECK(contains(draft_refused(taps), "tensor \"fc.weight\" has shape [8, 16], the configuration says [8, 24]"));
}

TEST_CASE("five taps and a projection of four are refused with both numbers") {
    tiny_pair p;
    p.target_config["hidden_size"] = 32;
    p.draft_config["hidden_size"] = 32;
    p.draft_config["dflash_config"]["target_layer_ids"] = {0, 1, 2, 3, 4};
    tiny_pair::find(p.draft_tensors, "fc.weight") = filled("fc.weight", "F32", {32, 128}, 1.0F);
    CHECK(contains(draft_refused(p), "has shape [32, 128], the configuration says [32, 160]"));
}

TEST_CASE("the published 4B sizes give the published shapes") {
    // Only the projections' headers matter: the first one that is checked against a wrong shape names the right one.
    tiny_pair p;
    p.target_config["hidden_size"] = 2560;
    p.target_config["num_attention_heads"] = 32;
    p.target_config["num_key_value_heads"] = 8;
    p.target_config["head_dim"] = 128;
    p.target_config["vocab_size"] = 4;
    const auto says = [&](const std::string& name, const std::vector<dflash::index>& shape) {
        const auto replace = [&](const std::string& n, const std::vector<dflash::index>& s) {
            tiny_pair::find(p.target_tensors, n) = {n, "F32", s,
                                                    std::string(static_cast<std::size_t>(elements_of(s)) * 4, '\0')};
        };
        const std::string full = "model.layers.0." + name;
        CHECK(contains(target_refused(p), "\"" + full + "\" has shape " +
                                              dflash::io::list_text(tiny_pair::find(p.target_tensors, full).shape) +
                                              ", the configuration says " + dflash::io::list_text(shape)));
        replace(full, shape);
    };
    tiny_pair::find(p.target_tensors, "model.embed_tokens.weight") =
        filled("model.embed_tokens.weight", "BF16", {4, 2560}, 1.0F);
    says("input_layernorm.weight", {2560});
    says("self_attn.q_proj.weight", {4096, 2560});
    says("self_attn.k_proj.weight", {1024, 2560});
    says("self_attn.v_proj.weight", {1024, 2560});
    says("self_attn.o_proj.weight", {2560, 4096});
    says("self_attn.q_norm.weight", {128});
}

TEST_CASE("a tensor nobody asked for is refused by name, rotary frequencies pass") {
    for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "model.layers.6.mlp.up_proj.weight", "extra",
                             "model.rotary_emb.inv_freq.extra", "rotary_emb.inv_freq_scale"}) {
        tiny_pair p;
        p.target_tensors.push_back(filled(name, "F32", {2}, 1.0F));
        CHECK(contains(target_refused(p), std::string("tensor \"") + name + "\" is not part of the model"));
        tiny_pair q;
        q.draft_tensors.push_back(filled(name, "F32", {2}, 1.0F));
        CHECK(contains(draft_refused(q), std::string("tensor \"") + name + "\" is not part of the model"));
    }
    tiny_pair p;
    p.target_tensors.push_back(filled("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {3}, 1.0F));
    p.target_tensors.push_back(filled("model.rotary_emb.inv_freq", "F32", {3}, 1.0F));
    p.draft_tensors.push_back(filled("rotary_emb.inv_freq", "F32", {3}, 1.0F));
    CHECK(p.load_target().weights.layers.size() == 6);
    CHECK(p.load_draft().weights.layers.size() == 2);
}

TEST_CASE("biases are needed with attention_bias and refused without") {
    tiny_pair p;
    p.target_config["attention_bias"] = true;
    CHECK(contains(target_refused(p), "\"model.layers.0.self_attn.q_proj.bias\" of shape [24] is missing"));
    for (int i = 0; i < 6; ++i) {
        const std::string prefix = "model.layers." + std::to_string(i) + ".self_attn.";
        p.target_tensors.push_back(filled(prefix + "q_proj.bias", "F32", {24}, 100.0F));
        p.target_tensors.push_back(filled(prefix + "k_proj.bias", "F32", {12}, 101.0F));
        p.target_tensors.push_back(filled(prefix + "v_proj.bias", "F32", {12}, 102.0F));
        p.target_tensors.push_back(filled(prefix + "o_proj.bias", "F32", {8}, 103.0F));
    }
    const target_checkpoint t = p.load_target();
    CHECK(first(t.weights.layers[3].q_bias) == 100.0F);
    CHECK(first(t.weights.layers[3].k_bias) == 101.0F);
    CHECK(first(t.weights.layers[3].v_bias) == 102.0F);
    CHECK(first(t.weights.layers[3].o_bias) == 103.0F);
    p.target_config["attention_bias"] = false;
    CHECK(contains(target_refused(p), "_proj.bias\" is not part of the model"));
}

TEST_CASE("a Llama has no q and k norms") {
    tiny_pair p;
    p.target_config["architectures"] = {"LlamaForCausalLM"};
    p.target_config["model_type"] = "llama";
    CHECK(contains(target_refused(p), "_norm.weight\" is not part of the model"));
    for (int i = 0; i < 6; ++i) {
        tiny_pair::erase(p.target_tensors, "model.layers." + std::to_string(i) + ".self_attn.q_norm.weight");
        tiny_pair::erase(p.target_tensors, "model.layers." + std::to_string(i) + ".self_attn.k_norm.weight");
    }
    CHECK(p.load_target().weights.layers[0].q_norm.empty());
}

TEST_CASE("the head is what the flag and the file say together") {
    SUBCASE("untied: the file's") {
        tiny_pair p;
        CHECK(first(p.load_target().weights.head) == number_of(p.target_tensors, "lm_head.weight"));
    }
    SUBCASE("untied without a head: an error, never zeros") {
        tiny_pair p;
        tiny_pair::erase(p.target_tensors, "lm_head.weight");
        CHECK(contains(target_refused(p), "\"lm_head.weight\" is missing, and tie_word_embeddings is not true"));
        p.target_config.erase("tie_word_embeddings");
        CHECK(contains(target_refused(p), "\"lm_head.weight\" is missing"));
    }
    SUBCASE("tied without a head: the embedding") {
        tiny_pair p;
        p.target_config["tie_word_embeddings"] = true;
        tiny_pair::erase(p.target_tensors, "lm_head.weight");
        const target_checkpoint t = p.load_target();
        CHECK(t.shape.tied_head);
        CHECK(t.weights.head.empty());
    }
    SUBCASE("tied with an equal head: the embedding") {
        tiny_pair p;
        p.target_config["tie_word_embeddings"] = true;
        tiny_pair::find(p.target_tensors, "lm_head.weight").bytes =
            tiny_pair::find(p.target_tensors, "model.embed_tokens.weight").bytes;
        CHECK(p.load_target().weights.head.empty());
        // One bit in the last byte.
        tiny_pair::find(p.target_tensors, "lm_head.weight").bytes.back() ^= 1;
        const std::string message = target_refused(p);
        CHECK(contains(message, "tie_word_embeddings is true"));
        CHECK(contains(message, "\"lm_head.weight\""));
        CHECK(contains(message, "\"model.embed_tokens.weight\""));
    }
    SUBCASE("tied with a head of another type or shape") {
        tiny_pair p;
        p.target_config["tie_word_embeddings"] = true;
        tiny_pair::find(p.target_tensors, "lm_head.weight") = filled("lm_head.weight", "BF16", {10, 8}, 1.0F);
        CHECK(contains(target_refused(p), "(BF16) differs from \"model.embed_tokens.weight\" (F32)"));
        tiny_pair::find(p.target_tensors, "lm_head.weight") = filled("lm_head.weight", "F32", {11, 8}, 1.0F);
        CHECK(contains(target_refused(p), "has shape [11, 8], the configuration says [10, 8]"));
    }
}

TEST_CASE("a pair is its target and the draft read against it") {
    tiny_pair p;
    p.write();
    const dflash::io::pair_checkpoint pair = dflash::io::load_pair(p.target_folder(), p.draft_folder(), {false, 20});
    CHECK(first(pair.target.weights.norm) == number_of(p.target_tensors, "model.norm.weight"));
    CHECK(first(pair.draft.weights.norm) == number_of(p.draft_tensors, "norm.weight"));
    CHECK(pair.target.shape.max_positions == 20);
    CHECK(pair.draft.shape.max_positions == 20);
    p.draft_config["num_target_layers"] = 8;
    p.write();
    CHECK_THROWS_AS(static_cast<void>(dflash::io::load_pair(p.target_folder(), p.draft_folder())),
                    dflash::config_error);
}

TEST_CASE("a draft with a head or an embedding of its own is refused by name") {
    for (const char* name : {"lm_head.weight", "embed_tokens.weight", "model.embed_tokens.weight"}) {
        tiny_pair p;
        p.draft_tensors.push_back(filled(name, "F32", {7, 8}, 1.0F));  // of another height
        const std::string message = draft_refused(p);
        CHECK(contains(message, std::string("a tensor \"") + name + "\" of shape [7, 8]"));
        CHECK(contains(message, "of their own are not supported"));
    }
}

TEST_CASE("every tensor may have its own type, if it is one for weights") {
    tiny_pair p;
    const std::vector<std::string> types = {"F32", "BF16", "F16"};
    for (std::size_t i = 0; i < p.target_tensors.size(); ++i) {
        made_tensor& t = p.target_tensors[i];
        t = filled(t.name, types[i % 3], t.shape, 1.0F);
    }
    const target_checkpoint t = p.load_target();
    CHECK(t.weights.embedding.type == dflash::dtype::f32);
    CHECK(t.weights.layers[0].input_norm.type == dflash::dtype::bf16);
    CHECK(t.weights.layers[0].q.type == dflash::dtype::f16);
    tiny_pair::find(p.target_tensors, "model.norm.weight") = {"model.norm.weight", "F64", {8}, std::string(64, '\0')};
    CHECK(contains(target_refused(p), "tensor \"model.norm.weight\": dtype F64 is not supported for weights"));
    tiny_pair::find(p.target_tensors, "model.norm.weight") = {"model.norm.weight", "I8", {8}, std::string(8, '\0')};
    CHECK(contains(target_refused(p), "dtype I8 is not supported"));
}

TEST_CASE("a sharded target loads, an index that lies does not") {
    tiny_pair p;
    p.write();
    std::filesystem::remove(p.target_folder() / "model.safetensors");
    json map = json::object();
    std::vector<made_tensor> shards[2];
    for (std::size_t i = 0; i < p.target_tensors.size(); ++i) {
        shards[i % 2].push_back(p.target_tensors[i]);
        map[p.target_tensors[i].name] = i % 2 == 0 ? "model-1-of-2.safetensors" : "model-2-of-2.safetensors";
    }
    p.folder.write("target/model-1-of-2.safetensors", safetensors_of(shards[0]));
    p.folder.write("target/model-2-of-2.safetensors", safetensors_of(shards[1]));
    p.folder.write("target/model.safetensors.index.json", json({{"weight_map", map}}).dump());
    const target_checkpoint t = load_target(p.target_folder());
    for (std::size_t i = 0; i < 6; ++i) {
        check_layer(t.weights.layers[i], p.target_tensors, "model.layers." + std::to_string(i) + ".");
    }
    map["model.norm.weight"] = "../target/model-1-of-2.safetensors";
    p.folder.write("target/model.safetensors.index.json", json({{"weight_map", map}}).dump());
    CHECK(contains(message_of<io_error>([&] { static_cast<void>(load_target(p.target_folder())); }),
                   "is not the plain name of a .safetensors file"));
}

TEST_CASE("the shipped checkpoints load with the shapes their configurations give") {
    std::size_t pairs = 0;
    for (const std::string root : {DFLASH_TEST_DATA "/checkpoints", DFLASH_MODELS}) {
        for (const auto& entry : std::filesystem::directory_iterator(root)) {
            if (!std::filesystem::exists(entry.path() / "target")) {
                continue;
            }
            CAPTURE(entry.path().string());
            ++pairs;
            const target_checkpoint t = load_target(entry.path() / "target");
            const draft_checkpoint d = load_draft(entry.path() / "draft", t.shape);
            dflash::check_pair(t.shape, d.shape);
            const json target = json::parse(dflash::io::read_text(entry.path() / "target" / "config.json", 100000));
            const json draft = json::parse(dflash::io::read_text(entry.path() / "draft" / "config.json", 100000));
            CHECK(t.shape.layers == target["num_hidden_layers"].get<dflash::index>());
            CHECK(t.weights.layers.size() == target["num_hidden_layers"].get<std::size_t>());
            CHECK(t.shape.tied_head == target["tie_word_embeddings"].get<bool>());
            CHECK(t.weights.head.empty() == t.shape.tied_head);
            CHECK(t.weights.embedding.rows == target["vocab_size"].get<dflash::index>());
            CHECK(t.weights.layers.back().q.rows ==
                  target["num_attention_heads"].get<dflash::index>() * target["head_dim"].get<dflash::index>());
            CHECK(t.shape.rope.theta == target["rope_theta"].get<double>());
            CHECK(t.shape.qk_norm == (target["model_type"] == "qwen3"));
            CHECK(d.shape.taps == draft["dflash_config"]["target_layer_ids"].get<std::vector<dflash::index>>());
            CHECK(d.shape.mask_token == draft["dflash_config"]["mask_token_id"].get<dflash::token_id>());
            CHECK(d.shape.block_size == draft["block_size"].get<dflash::index>());
            CHECK(d.weights.fc.rows == draft["hidden_size"].get<dflash::index>());
            CHECK(d.weights.fc.cols ==
                  draft["hidden_size"].get<dflash::index>() * static_cast<dflash::index>(d.shape.taps.size()));
        }
    }
    CHECK(pairs >= 6);
}

TEST_CASE("the shipped llama3 and sliding checkpoints carry their particular settings") {
    const std::string root = DFLASH_TEST_DATA "/checkpoints/";
    const target_checkpoint llama = load_target(root + "llama3-rope/target");
    CHECK(llama.shape.rope.kind == dflash::numerics::rope_scaling_kind::llama3);
    CHECK(llama.shape.rope.factor == 8.0);
    CHECK(llama.shape.rope.original_max_position == 64.0);
    const target_checkpoint target = load_target(root + "sliding-draft/target");
    const draft_checkpoint sliding = load_draft(root + "sliding-draft/draft", target.shape);
    CHECK(sliding.shape.masks == std::vector<dflash::mask_rule>{{true, 6}, {false, 0}, {true, 6}});
    const target_checkpoint prose = load_target(std::string(DFLASH_MODELS) + "/prose-and-code/target");
    CHECK(prose.shape.eos_tokens == std::vector<dflash::token_id>{2044});
    CHECK(prose.weights.embedding.type == dflash::dtype::bf16);
}

TEST_CASE("the shipped recordings in F64 can be read") {
    const dflash::io::safetensors_file file(DFLASH_TEST_DATA "/models/prose-and-code/case0.safetensors");
    const dflash::io::stored_tensor& logits = file.at("prompt_last_logits");
    CHECK(read_f64(logits).size() == 2048);
    CHECK(logits.shape == std::vector<dflash::index>{2048});
}
