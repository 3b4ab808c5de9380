// Crafted files: safetensors with any header and any bytes, and a tiny target and draft that can be bent in every way.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/io/load.hpp>
#include <dflash/numerics/convert.hpp>
#include <nlohmann/json.hpp>

#include "support/temp_folder.hpp"

namespace io_test {

using dflash::index;
using dflash_test::temp_folder;
using json = nlohmann::json;

/// The message of the Error that f raises; fails the test when f raises none, or another one.
template <class Error, class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    } catch (const std::exception& e) {
        FAIL_CHECK("another error: " << e.what());
        return e.what();
    }
    FAIL_CHECK("no error");
    return {};
}

inline bool contains(const std::string& text, std::string_view part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) {
        MESSAGE("\"" << std::string(part) << "\" is not in: " << text);
    }
    return found;
}

inline std::string little_endian(std::uint64_t value) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &value, 8);
    return out;
}

/// Length, header, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
    return little_endian(header.size()) + header + data;
}

/// A tensor to be written: bytes as they stand in the file.
struct made_tensor {
    std::string name;
    std::string type;
    std::vector<index> shape;
    std::string bytes;
};

inline index elements_of(const std::vector<index>& shape) {
    index n = 1;
    for (const index extent : shape) {
        n *= extent;
    }
    return n;
}

/// value as the type stores it.
inline std::string encoded(const std::string& type, float value) {
    std::string out;
    if (type == "F32") {
        out.resize(4);
        std::memcpy(out.data(), &value, 4);
        return out;
    }
    const std::uint16_t bits =
        type == "BF16" ? dflash::numerics::to_bf16(value).bits : dflash::numerics::to_f16(value).bits;
    out.resize(2);
    std::memcpy(out.data(), &bits, 2);
    return out;
}

inline made_tensor filled(std::string name, const std::string& type, std::vector<index> shape, float value) {
    const std::string one = encoded(type, value);
    std::string bytes;
    for (index i = 0; i < elements_of(shape); ++i) {
        bytes += one;
    }
    return {std::move(name), type, std::move(shape), std::move(bytes)};
}

/// A whole file of these tensors, in this order.
inline std::string safetensors_of(const std::vector<made_tensor>& tensors) {
    json header = json::object();
    std::string data;
    for (const made_tensor& t : tensors) {
        header[t.name] = {
            {"dtype", t.type}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
        data += t.bytes;
    }
    return safetensors_bytes(header.dump(), data);
}

/// A tiny Qwen3 target and a draft for it. Change what a test is about, then load.
/// Tensor number i of a model (in the order of the list) holds the value i + 1 everywhere.
struct tiny_pair {
    temp_folder folder;
    json target_config = json::parse(R"({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 8, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 12, "vocab_size": 10,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": false,
        "hidden_act": "silu"})");
    json draft_config = json::parse(R"({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 10, "vocab_size": 10,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "num_target_layers": 6,
        "dflash_config": {"block_size": 4, "mask_token_id": 9, "target_layer_ids": [1, 4]}})");
    json generation_config;  // null: no such file
    std::vector<made_tensor> target_tensors;
    std::vector<made_tensor> draft_tensors;

    tiny_pair() {
        add(target_tensors, "model.embed_tokens.weight", {10, 8});
        for (int i = 0; i < 6; ++i) {
            add_layer(target_tensors, "model.layers." + std::to_string(i) + ".", 8, 24, 12, 6, 12);
        }
        add(target_tensors, "model.norm.weight", {8});
        add(target_tensors, "lm_head.weight", {10, 8});
        add(draft_tensors, "fc.weight", {8, 16});
        add(draft_tensors, "hidden_norm.weight", {8});
        for (int i = 0; i < 2; ++i) {
            add_layer(draft_tensors, "layers." + std::to_string(i) + ".", 8, 8, 4, 4, 10);
        }
        add(draft_tensors, "norm.weight", {8});
    }

    static void add(std::vector<made_tensor>& to, const std::string& name, std::vector<index> shape) {
        to.push_back(filled(name, "F32", std::move(shape), static_cast<float>(to.size() + 1)));
    }

    static void add_layer(std::vector<made_tensor>& to, const std::string& prefix, index d, index queries, index keys,
                          index head_dim, index inner) {
        add(to, prefix + "input_layernorm.weight", {d});
        add(to, prefix + "self_attn.q_proj.weight", {queries, d});
        add(to, prefix + "self_attn.k_proj.weight", {keys, d});
        add(to, prefix + "self_attn.v_proj.weight", {keys, d});
        add(to, prefix + "self_attn.o_proj.weight", {d, queries});
        add(to, prefix + "self_attn.q_norm.weight", {head_dim});
        add(to, prefix + "self_attn.k_norm.weight", {head_dim});
        add(to, prefix + "post_attention_layernorm.weight", {d});
        add(to, prefix + "mlp.gate_proj.weight", {inner, d});
        add(to, prefix + "mlp.up_proj.weight", {inner, d});
        add(to, prefix + "mlp.down_proj.weight", {d, inner});
    }

    static made_tensor& find(std::vector<made_tensor>& in, const std::string& name) {
        for (made_tensor& t : in) {
            if (t.name == name) {
                return t;
            }
        }
        throw std::runtime_error("the test asks for an unknown tensor " + name);
    }

    static void erase(std::vector<made_tensor>& from, const std::string& name) {
        const made_tensor* at = &find(from, name);
        from.erase(from.begin() + (at - from.data()));
    }

    [[nodiscard]] std::filesystem::path target_folder() const { return folder.path() / "target"; }
    [[nodiscard]] std::filesystem::path draft_folder() const { return folder.path() / "draft"; }

    void write() const {
        folder.write("target/config.json", target_config.dump());
        folder.write("target/model.safetensors", safetensors_of(target_tensors));
        if (!generation_config.is_null()) {
            folder.write("target/generation_config.json", generation_config.dump());
        }
        folder.write("draft/config.json", draft_config.dump());
        folder.write("draft/model.safetensors", safetensors_of(draft_tensors));
    }

    [[nodiscard]] dflash::target_shape target_shape(const dflash::io::load_options& options = {}) const {
        write();
        return dflash::io::read_target_config(target_folder(), options);
    }
    [[nodiscard]] dflash::draft_shape draft_shape(const dflash::io::load_options& options = {}) const {
        const dflash::target_shape target = target_shape();
        return dflash::io::read_draft_config(draft_folder(), target, options);
    }
    [[nodiscard]] dflash::io::target_checkpoint load_target() const {
        write();
        return dflash::io::load_target(target_folder());
    }
    [[nodiscard]] dflash::io::draft_checkpoint load_draft() const {
        const dflash::target_shape target = target_shape();
        return dflash::io::load_draft(draft_folder(), target);
    }

    [[nodiscard]] std::string target_refusal() const {
        return message_of<dflash::config_error>([&] { static_cast<void>(target_shape()); });
    }
    [[nodiscard]] std::string draft_refusal() const {
        return message_of<dflash::config_error>([&] { static_cast<void>(draft_shape()); });
    }
};

}  // namespace io_test
