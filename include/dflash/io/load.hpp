// A checkpoint folder as shapes and weights: every tensor found, of the shape the configuration says, and none left
// over.
//
// Weights are views of the mapped files; `owner` in them keeps the files open. Nothing is copied or converted. A
// tensor nobody asked for is refused by name, since dropping it would change the model.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/io/checkpoint.hpp>
#include <dflash/io/config.hpp>
#include <dflash/io/safetensors.hpp>
#include <dflash/io/text.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/model/weights.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// A target, read and checked.
struct target_checkpoint {
    target_shape shape;
    target_weights weights;
};

/// A draft, read and checked against its target.
struct draft_checkpoint {
    draft_shape shape;
    draft_weights weights;
};

namespace detail {

/// Hands out the tensors of a checkpoint by name and remembers which are left.
class tensor_picker {
public:
    explicit tensor_picker(const checkpoint& source) : source_(source), taken_(source.tensors().size(), false) {}

    /// The tensor as a weight. Errors: io_error when it is missing, of another shape, or of a type weights cannot have.
    [[nodiscard]] tensor_view take(const std::string& name, const std::vector<index>& shape) {
        const checkpoint::entry* entry = source_.find(name);
        if (entry == nullptr) {
            raise<io_error>(source_.folder(), ": tensor ", in_quotes(name), " of shape ", list_text(shape),
                            " is missing");
        }
        if (entry->tensor->shape != shape) {
            raise<io_error>(entry->file->path(), ": tensor ", in_quotes(name), " has shape ",
                            list_text(entry->tensor->shape), ", the configuration says ", list_text(shape));
        }
        taken_[static_cast<std::size_t>(entry - source_.tensors().data())] = true;
        return as_weight(entry->file->path(), *entry->tensor);
    }

    /// Refuses what was not taken. Errors: io_error.
    void finish() const {
        for (std::size_t i = 0; i < taken_.size(); ++i) {
            const checkpoint::entry& entry = source_.tensors()[i];
            if (!taken_[i] && !is_harmless(entry.tensor->name)) {
                raise<io_error>(entry.file->path(), ": tensor ", in_quotes(entry.tensor->name),
                                " is not part of the model that the configuration describes");
            }
        }
    }

private:
    // Old files carry the rotary frequencies, which follow from the configuration.
    static bool is_harmless(std::string_view name) noexcept {
        return name == "rotary_emb.inv_freq" || name.ends_with(".rotary_emb.inv_freq");
    }

    const checkpoint& source_;
    std::vector<bool> taken_;
};

/// Gives the memory of packed tensors back, so that loading needs little more of it than the packed weights do.
class releaser final : public packed_observer {
public:
    explicit releaser(const checkpoint& source) : release_(source.releaser()) {}

    void packed(const tensor_view& tensor) const override {
        release_({tensor.data, static_cast<std::size_t>(tensor.rows * tensor.cols * size_of(tensor.type))});
    }

private:
    std::function<void(std::span<const std::byte>)> release_;
};

inline layer_weights take_layer(tensor_picker& tensors, const std::string& prefix, const transformer_shape& shape) {
    const index d = shape.hidden_size;
    const index queries = shape.heads * shape.head_dim;
    const index keys = shape.kv_heads * shape.head_dim;
    const index inner = shape.intermediate_size;
    layer_weights layer;
    layer.input_norm = tensors.take(prefix + "input_layernorm.weight", {d});
    layer.q = tensors.take(prefix + "self_attn.q_proj.weight", {queries, d});
    layer.k = tensors.take(prefix + "self_attn.k_proj.weight", {keys, d});
    layer.v = tensors.take(prefix + "self_attn.v_proj.weight", {keys, d});
    layer.o = tensors.take(prefix + "self_attn.o_proj.weight", {d, queries});
    if (shape.attention_bias) {
        layer.q_bias = tensors.take(prefix + "self_attn.q_proj.bias", {queries});
        layer.k_bias = tensors.take(prefix + "self_attn.k_proj.bias", {keys});
        layer.v_bias = tensors.take(prefix + "self_attn.v_proj.bias", {keys});
        layer.o_bias = tensors.take(prefix + "self_attn.o_proj.bias", {d});
    }
    if (shape.qk_norm) {
        layer.q_norm = tensors.take(prefix + "self_attn.q_norm.weight", {shape.head_dim});
        layer.k_norm = tensors.take(prefix + "self_attn.k_norm.weight", {shape.head_dim});
    }
    layer.post_norm = tensors.take(prefix + "post_attention_layernorm.weight", {d});
    layer.gate = tensors.take(prefix + "mlp.gate_proj.weight", {inner, d});
    layer.up = tensors.take(prefix + "mlp.up_proj.weight", {inner, d});
    layer.down = tensors.take(prefix + "mlp.down_proj.weight", {d, inner});
    return layer;
}

inline std::vector<layer_weights> take_layers(tensor_picker& tensors, const std::string& prefix,
                                              const transformer_shape& shape) {
    std::vector<layer_weights> layers;  // grows with the tensors found, not with the number in the configuration
    for (index i = 0; i < shape.layers; ++i) {
        layers.push_back(take_layer(tensors, prefix + std::to_string(i) + ".", shape));
    }
    return layers;
}

/// The head of a target: its own, or none when tied. A tied file may repeat the embedding bit for bit.
inline tensor_view take_head(tensor_picker& tensors, const checkpoint& source, const target_shape& shape,
                             const tensor_view& embedding) {
    const std::string name = "lm_head.weight";
    const checkpoint::entry* entry = source.find(name);
    if (shape.tied_head && entry == nullptr) {
        return {};
    }
    if (entry == nullptr) {
        raise<io_error>(source.folder(), ": tensor \"lm_head.weight\" is missing, and tie_word_embeddings is not true");
    }
    const tensor_view head = tensors.take(name, {shape.vocab_size, shape.hidden_size});
    if (!shape.tied_head) {
        return head;
    }
    const std::size_t bytes = entry->tensor->bytes.size();
    if (head.type != embedding.type || std::memcmp(head.data, embedding.data, bytes) != 0) {
        raise<io_error>(entry->file->path(), ": tie_word_embeddings is true, but \"lm_head.weight\" (",
                        name_of(head.type), ") differs from \"model.embed_tokens.weight\" (", name_of(embedding.type),
                        ")");
    }
    return {};
}

}  // namespace detail

/// Loads a target (Qwen3ForCausalLM or LlamaForCausalLM). Errors: io_error, config_error.
[[nodiscard]] inline target_checkpoint load_target(const std::filesystem::path& folder,
                                                   const load_options& options = {}) {
    target_checkpoint loaded;
    loaded.shape = read_target_config(folder, options);
    const target_shape& shape = loaded.shape;
    const checkpoint source(folder);
    detail::tensor_picker tensors(source);
    target_weights& weights = loaded.weights;
    weights.embedding = tensors.take("model.embed_tokens.weight", {shape.vocab_size, shape.hidden_size});
    weights.layers = detail::take_layers(tensors, "model.layers.", shape);
    weights.norm = tensors.take("model.norm.weight", {shape.hidden_size});
    weights.head = detail::take_head(tensors, source, shape, weights.embedding);
    tensors.finish();
    weights.owner = source.owner();
    weights.on_packed = std::make_shared<detail::releaser>(source);
    return loaded;
}

/// Loads a draft (DFlashDraftModel) for a target. Errors: io_error, config_error.
[[nodiscard]] inline draft_checkpoint load_draft(const std::filesystem::path& folder, const target_shape& target,
                                                 const load_options& options = {}) {
    draft_checkpoint loaded;
    loaded.shape = read_draft_config(folder, target, options);
    const draft_shape& shape = loaded.shape;
    const checkpoint source(folder);
    for (const std::string_view own :
         {"lm_head.weight", "embed_tokens.weight", "model.lm_head.weight", "model.embed_tokens.weight"}) {
        if (const checkpoint::entry* entry = source.find(own)) {
            raise<io_error>(entry->file->path(), ": the draft has a tensor ", in_quotes(own), " of shape ",
                            list_text(entry->tensor->shape),
                            "; drafts with an embedding or a head of their own are not supported");
        }
    }
    detail::tensor_picker tensors(source);
    draft_weights& weights = loaded.weights;
    const index d = shape.hidden_size;
    weights.fc = tensors.take("fc.weight", {d, static_cast<index>(shape.taps.size()) * d});
    weights.hidden_norm = tensors.take("hidden_norm.weight", {d});
    weights.layers = detail::take_layers(tensors, "layers.", shape);
    weights.norm = tensors.take("norm.weight", {d});
    tensors.finish();
    weights.owner = source.owner();
    weights.on_packed = std::make_shared<detail::releaser>(source);
    return loaded;
}

/// A target and its draft.
struct pair_checkpoint {
    target_checkpoint target;
    draft_checkpoint draft;
};

/// Loads a target and the draft that goes with it. Errors: io_error, config_error.
[[nodiscard]] inline pair_checkpoint load_pair(const std::filesystem::path& target_folder,
                                               const std::filesystem::path& draft_folder,
                                               const load_options& options = {}) {
    pair_checkpoint loaded;
    loaded.target = load_target(target_folder, options);
    loaded.draft = load_draft(draft_folder, loaded.target.shape, options);
    return loaded;
}

}  // namespace io

DFLASH_END_NAMESPACE
