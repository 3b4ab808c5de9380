// The numbers that describe a transformer: what a config.json says, checked, without the tensors.
//
// Counts are those of the architecture (Qwen3, Llama 3, DFlash draft). check() refuses what cannot work, with the
// field and both numbers; what the library does not implement is refused where the configuration is read.
#pragma once

#include <string>
#include <vector>

#include <dflash/concepts/attention.hpp>
#include <dflash/numerics/rope.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// A stack of decoder layers.
struct transformer_shape {
    index hidden_size = 0;  // d
    index layers = 0;
    index heads = 0;     // h
    index kv_heads = 0;  // g, divides h
    index head_dim = 0;  // e, even
    index intermediate_size = 0;
    index vocab_size = 0;     // v
    index max_positions = 0;  // the longest sequence, prompt included
    float rms_norm_eps = 1e-6F;
    bool qk_norm = true;          // Qwen3 and DFlash: RMSNorm on each head's q and k before RoPE
    bool attention_bias = false;  // on q, k, v and o
    numerics::rope_parameters rope;
    std::vector<mask_rule> masks;  // one per layer

    /// Refuses numbers that cannot work. Errors: config_error.
    void check(const char* what) const {
        positive(what, "hidden_size", hidden_size);
        positive(what, "num_hidden_layers", layers);
        positive(what, "num_attention_heads", heads);
        positive(what, "num_key_value_heads", kv_heads);
        positive(what, "head_dim", head_dim);
        positive(what, "intermediate_size", intermediate_size);
        positive(what, "vocab_size", vocab_size);
        positive(what, "max_position_embeddings", max_positions);
        if (heads % kv_heads != 0) {
            raise<config_error>(what, ": num_attention_heads ", heads, " is not a multiple of num_key_value_heads ",
                                kv_heads);
        }
        if (head_dim % 2 != 0) {
            raise<config_error>(what, ": head_dim ", head_dim, " is odd; rotary embedding needs pairs");
        }
        if (!(rms_norm_eps >= 0.0F) || rms_norm_eps > 1.0F) {
            raise<config_error>(what, ": rms_norm_eps ", rms_norm_eps, " is outside 0 .. 1");
        }
        if (static_cast<index>(masks.size()) != layers) {
            raise<config_error>(what, ": layer_types has ", masks.size(), " entries, num_hidden_layers is ", layers);
        }
        for (const mask_rule& mask : masks) {
            if (mask.window < 0) {
                raise<config_error>(what, ": sliding_window ", mask.window, " is negative");
            }
        }
    }

private:
    static void positive(const char* what, const char* field, index value) {
        constexpr index limit = index{1} << 31;
        if (value < 1 || value >= limit) {
            raise<config_error>(what, ": ", field, " is ", value, ", needs 1 .. ", limit - 1);
        }
    }
};

/// A target: a causal language model with its embedding and head.
struct target_shape : transformer_shape {
    bool tied_head = false;            // the head is the embedding
    std::vector<token_id> eos_tokens;  // from config.json and generation_config.json; may be empty

    void check() const { transformer_shape::check("target"); }
};

/// A DFlash draft. Its vocab_size is the target's: it has no embedding and no head of its own.
struct draft_shape : transformer_shape {
    index block_size = 0;      // B, counts the anchor
    token_id mask_token = -1;  // fills the slots after the anchor; may be an ordinary token
    std::vector<index> taps;   // target layer ids, 0-based, in the order the features are concatenated

    void check() const {
        transformer_shape::check("draft");
        if (block_size < 1) {
            raise<config_error>("draft: block_size is ", block_size, ", needs at least 1");
        }
        if (taps.empty()) {
            raise<config_error>("draft: target_layer_ids is empty, needs at least 1 layer");
        }
    }
};

/// Refuses a draft that does not fit the target. Errors: config_error with the field and both numbers.
inline void check_pair(const target_shape& target, const draft_shape& draft) {
    target.check();
    draft.check();
    if (draft.hidden_size != target.hidden_size) {
        raise<config_error>("draft: hidden_size is ", draft.hidden_size, ", the target's is ", target.hidden_size,
                            "; the draft uses the target's embedding and head");
    }
    if (draft.vocab_size != target.vocab_size) {
        raise<config_error>("draft: vocab_size is ", draft.vocab_size, ", the target's is ", target.vocab_size);
    }
    if (draft.mask_token < 0 || draft.mask_token >= target.vocab_size) {
        raise<config_error>("draft: mask_token_id is ", draft.mask_token, ", needs 0 .. ", target.vocab_size - 1,
                            " (the target's embedding rows)");
    }
    for (const index tap : draft.taps) {
        if (tap < 0 || tap >= target.layers) {
            raise<config_error>("draft: target_layer_ids holds ", tap, ", the target has layers 0 .. ",
                                target.layers - 1);
        }
    }
}

DFLASH_END_NAMESPACE
