// config.json and generation_config.json: what a target and a draft are, as Hugging Face folders say it.
//
// Targets are Qwen3ForCausalLM and LlamaForCausalLM, drafts DFlashDraftModel. What only the checkpoint can know is
// never guessed (see the exceptions below), and a key that would change the mathematics is refused by name.
//
// Read as absent means: head_dim hidden_size / num_attention_heads; num_key_value_heads of a Llama
// num_attention_heads; rope_theta 10000; tie_word_embeddings, attention_bias, use_sliding_window false; hidden_act
// silu; layer_types the rule of use_sliding_window and max_window_layers; eos_token_id no stop token. null is absent.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/io/file.hpp>
#include <dflash/io/json.hpp>
#include <dflash/io/rope_config.hpp>
#include <dflash/io/text.hpp>
#include <dflash/model/shape.hpp>
#include <dflash/model/taps.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// What the one who loads a checkpoint decides.
struct load_options {
    /// A draft that does not say which target layers it reads is refused, unless this accepts the default rule.
    bool accept_default_taps = false;

    /// The longest sequence, prompt included; 0: what the configuration says. A target cannot go beyond its own limit.
    index context_limit = 0;
};

namespace detail {

inline constexpr index largest_size = (index{1} << 31) - 1;

// Bounds what is allocated per layer before a single tensor has been seen.
inline constexpr index largest_layer_count = 65536;

/// Keys that change the mathematics in a way that is not implemented. Absent, null, false and the neutral number pass.
inline void refuse_unsupported(const json_fields& config) {
    struct entry {
        std::string_view key;
        double neutral;  // NaN: none
    };
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    constexpr entry entries[] = {
        {"quantization_config", none},
        {"compression_config", none},
        {"num_experts", 0},
        {"num_local_experts", 0},
        {"n_routed_experts", 0},
        {"num_experts_per_tok", 0},
        {"moe_intermediate_size", 0},
        {"mlp_bias", none},
        {"qkv_bias", none},
        {"add_cross_attention", none},
        {"attn_logit_softcapping", 0},
        {"final_logit_softcapping", 0},
        {"logit_scale", 1},
        {"logits_scaling", 1},
        {"output_multiplier", 1},
        {"input_embedding_scale", 1},
        {"embedding_multiplier", 1},
        {"residual_multiplier", 1},
        {"attention_multiplier", none},
        {"query_pre_attn_scalar", none},
        {"clip_qkv", none},
        {"attention_chunk_size", 0},
        {"no_rope_layers", none},
        {"no_rope_layer_interval", 0},
        {"rope_interleaved", none},
        {"conv_kernel_size", none},
        {"conv_group_size", none},
        {"selector_rank", none},
        {"selector_top_k", none},
        {"draft_vocab_size", none},
    };
    for (const entry& e : entries) {
        const json_value* value = config.find(e.key);
        if (value == nullptr || (value->as_bool() != nullptr && !*value->as_bool()) ||
            value->as_number() == e.neutral) {
            continue;
        }
        config.refuse(e.key, value->text(), "to be absent: what it asks for is not supported");
    }
}

/// The architecture and the model type, either of which may be left out, must be one of the pairs given.
/// Returns which. Errors: config_error.
struct known_architecture {
    std::string_view name;
    std::string_view model_type;
};

inline std::size_t read_architecture(const json_fields& config, std::span<const known_architecture> known) {
    const std::optional<std::vector<std::string>> names = config.optional_string_list("architectures");
    const std::string* type = config.optional_string("model_type");
    std::string needs;
    for (const known_architecture& k : known) {
        needs += (needs.empty() ? "" : " or ") + std::string(k.name);
    }
    if (!names && type == nullptr) {
        config.missing("architectures", needs);
    }
    for (std::size_t i = 0; i < known.size(); ++i) {
        const bool name_fits = !names || (names->size() == 1 && names->front() == known[i].name);
        const bool type_fits = type == nullptr || *type == known[i].model_type;
        if (name_fits && type_fits) {
            return i;
        }
        if (names && name_fits) {
            config.refuse("model_type", in_quotes(*type),
                          in_quotes(known[i].model_type) + ", as architectures says " + std::string(known[i].name));
        }
    }
    if (names) {
        config.refuse("architectures",
                      names->size() == 1 ? in_quotes(names->front()) : std::to_string(names->size()) + " names", needs);
    }
    config.refuse("model_type", in_quotes(*type), "the type of " + needs);
}

/// Which layers slide, by layer_types or, without it, by use_sliding_window and max_window_layers.
inline std::vector<bool> read_sliding_layers(const json_fields& config, index layers) {
    std::vector<bool> slides(static_cast<std::size_t>(layers), false);
    if (const std::optional<std::vector<std::string>> types = config.optional_string_list("layer_types")) {
        if (types->size() != slides.size()) {
            raise<config_error>(config.name("layer_types"), ": has ", types->size(), " entries, num_hidden_layers is ",
                                layers);
        }
        for (std::size_t i = 0; i < slides.size(); ++i) {
            const std::string& type = (*types)[i];
            if (type != "full_attention" && type != "sliding_attention") {
                config.refuse("layer_types[" + std::to_string(i) + "]", in_quotes(type),
                              "full_attention or sliding_attention");
            }
            slides[i] = type == "sliding_attention";
        }
    } else if (config.optional_bool("use_sliding_window").value_or(false)) {
        const index first = config.require_index("max_window_layers", 0, largest_size);
        for (index i = first; i < layers; ++i) {
            slides[static_cast<std::size_t>(i)] = true;
        }
    }
    return slides;
}

/// One rule per layer: `full` for the full layers, the configured window for the sliding ones.
inline std::vector<mask_rule> make_masks(const json_fields& config, const std::vector<bool>& slides, mask_rule full,
                                         bool sliding_causal) {
    mask_rule sliding{sliding_causal, 0};
    if (std::find(slides.begin(), slides.end(), true) != slides.end()) {
        sliding.window = config.require_index("sliding_window", 1, largest_size);
    }
    std::vector<mask_rule> masks;
    masks.reserve(slides.size());
    for (const bool slide : slides) {
        masks.push_back(slide ? sliding : full);
    }
    return masks;
}

/// What targets and drafts have in common, but for the masks.
inline void read_transformer(const json_fields& config, transformer_shape& shape, bool kv_heads_may_be_absent) {
    refuse_unsupported(config);
    shape.hidden_size = config.require_index("hidden_size", 1, largest_size);
    shape.layers = config.require_index("num_hidden_layers", 1, largest_layer_count);
    shape.heads = config.require_index("num_attention_heads", 1, largest_size);
    const std::optional<index> kv_heads = config.optional_index("num_key_value_heads", 1, largest_size);
    if (!kv_heads && !kv_heads_may_be_absent) {
        config.missing("num_key_value_heads", "an integer that divides num_attention_heads");
    }
    shape.kv_heads = kv_heads.value_or(shape.heads);
    if (shape.heads % shape.kv_heads != 0) {
        raise<config_error>(config.name("num_key_value_heads"), ": got ", shape.kv_heads,
                            ", does not divide num_attention_heads ", shape.heads);
    }
    const std::optional<index> head_dim = config.optional_index("head_dim", 1, largest_size);
    if (!head_dim && shape.hidden_size % shape.heads != 0) {
        raise<config_error>(config.name("head_dim"), ": missing, and hidden_size ", shape.hidden_size,
                            " is not a multiple of num_attention_heads ", shape.heads);
    }
    shape.head_dim = head_dim.value_or(shape.hidden_size / shape.heads);
    if (shape.head_dim % 2 != 0) {
        raise<config_error>(config.name("head_dim"), ": got ", shape.head_dim,
                            ", needs an even number: rotary embedding turns pairs");
    }
    shape.intermediate_size = config.require_index("intermediate_size", 1, largest_size);
    shape.vocab_size = config.require_index("vocab_size", 1, largest_size);
    const double eps = config.require_number("rms_norm_eps");
    if (!(eps >= 0.0) || eps > 1.0) {
        config.refuse("rms_norm_eps", number_text(eps), "a number in 0 .. 1");
    }
    shape.rms_norm_eps = static_cast<float>(eps);
    shape.attention_bias = config.optional_bool("attention_bias").value_or(false);
    if (const std::string* activation = config.optional_string("hidden_act")) {
        if (*activation != "silu") {
            config.refuse("hidden_act", in_quotes(*activation), "\"silu\"");
        }
    }
    shape.rope = read_rope(config);
}

/// The smaller of max_position_embeddings and the caller's limit. Errors: config_error when neither is there, or the
/// limit is the larger one although the model may not be the shorter one.
inline index read_context(const json_fields& config, const load_options& options, bool may_be_shorter) {
    if (options.context_limit < 0) {
        raise<config_error>("context_limit: got ", options.context_limit, ", needs at least 0");
    }
    const std::optional<index> own = config.optional_index("max_position_embeddings", 1, largest_size);
    if (!own && options.context_limit == 0) {
        config.missing("max_position_embeddings", "an integer of at least 1, or load_options::context_limit");
    }
    if (!own || options.context_limit == 0) {
        return own.value_or(options.context_limit);
    }
    if (!may_be_shorter && options.context_limit > *own) {
        raise<config_error>(config.name("max_position_embeddings"), " is ", *own, ", less than the context_limit of ",
                            options.context_limit);
    }
    return (std::min)(*own, options.context_limit);
}

/// Adds the stop tokens that a configuration names: none, a number, or a list.
inline void read_eos(const json_fields& config, index vocab_size, std::vector<token_id>& into) {
    const json_value* value = config.find("eos_token_id");
    if (value == nullptr) {
        return;
    }
    std::vector<index> ids;
    if (value->as_list() != nullptr) {
        ids = *config.optional_index_list("eos_token_id", 0, vocab_size - 1);
    } else {
        ids.push_back(config.require_index("eos_token_id", 0, vocab_size - 1));
    }
    for (const index id : ids) {
        into.push_back(static_cast<token_id>(id));
    }
}

}  // namespace detail

/// Reads config.json and, when it is there, generation_config.json of a target. The stop tokens are those of both,
/// ascending. Errors: io_error for files that are no JSON, config_error for what they say.
[[nodiscard]] inline target_shape read_target_config(const std::filesystem::path& folder,
                                                     const load_options& options = {}) {
    const std::filesystem::path file = folder / "config.json";
    const json_value root = read_json(file);
    const json_fields config(file.string(), root);
    constexpr detail::known_architecture known[] = {{"Qwen3ForCausalLM", "qwen3"}, {"LlamaForCausalLM", "llama"}};
    const bool llama = detail::read_architecture(config, known) == 1;

    target_shape shape;
    detail::read_transformer(config, shape, llama);
    shape.max_positions = detail::read_context(config, options, false);
    shape.qk_norm = !llama;
    shape.tied_head = config.optional_bool("tie_word_embeddings").value_or(false);
    const std::vector<bool> slides = detail::read_sliding_layers(config, shape.layers);
    if (llama && std::find(slides.begin(), slides.end(), true) != slides.end()) {
        raise<config_error>(config.name(config.has("layer_types") ? "layer_types" : "use_sliding_window"),
                            ": asks for sliding layers, which LlamaForCausalLM does not have");
    }
    shape.masks = detail::make_masks(config, slides, mask_rule{true, 0}, true);

    detail::read_eos(config, shape.vocab_size, shape.eos_tokens);
    const std::filesystem::path generation_file = folder / "generation_config.json";
    if (file_exists(generation_file)) {
        const json_value generation = read_json(generation_file);
        detail::read_eos(json_fields(generation_file.string(), generation), shape.vocab_size, shape.eos_tokens);
    }
    std::sort(shape.eos_tokens.begin(), shape.eos_tokens.end());
    shape.eos_tokens.erase(std::unique(shape.eos_tokens.begin(), shape.eos_tokens.end()), shape.eos_tokens.end());
    shape.check();
    return shape;
}

namespace detail {

/// Where a draft's own key stands: in dflash_config first, then at top level; null when nowhere.
inline const json_fields* draft_place(const json_fields& config, const std::optional<json_fields>& draft_config,
                                      std::string_view key) {
    if (draft_config && draft_config->has(key)) {
        return &*draft_config;
    }
    return config.has(key) ? &config : nullptr;
}

/// The taps, or the default rule's where the caller accepts them.
inline std::vector<index> read_taps(const json_fields& config, const json_fields* place, const target_shape& target,
                                    index draft_layers, const load_options& options) {
    if (place != nullptr) {
        std::vector<index> taps = *place->optional_index_list("target_layer_ids", 0, target.layers - 1);
        if (taps.empty()) {
            place->refuse("target_layer_ids", "an empty list", "at least one target layer");
        }
        return taps;
    }
    std::vector<index> taps = default_taps(target.layers, draft_layers);
    if (!options.accept_default_taps) {
        raise<config_error>(config.name("dflash_config.target_layer_ids"),
                            ": missing; only the training knows which layers it was. The default rule would choose ",
                            list_text(taps), ": set load_options::accept_default_taps to accept them");
    }
    return taps;
}

/// Are the sliding layers causal? They are unless is_causal or dflash_config.causal says otherwise. A full layer sees
/// the whole block both ways; a configuration that says it is causal is refused rather than read as if it did not.
inline bool read_draft_causality(const json_fields& config, const std::optional<json_fields>& draft_config,
                                 const std::vector<bool>& slides) {
    std::optional<bool> stated = config.optional_bool("is_causal");
    const std::optional<bool> inner = draft_config ? draft_config->optional_bool("causal") : std::nullopt;
    if (stated && inner && *stated != *inner) {
        raise<config_error>(config.name("is_causal"), " is ", *stated, ", but ", draft_config->name("causal"), " is ",
                            *inner);
    }
    stated = stated ? stated : inner;
    const auto full = std::find(slides.begin(), slides.end(), false);
    if (stated.value_or(false) && full != slides.end()) {
        raise<config_error>(config.has("is_causal") ? config.name("is_causal") : draft_config->name("causal"),
                            ": got true, but layer ", full - slides.begin(),
                            " is a full_attention layer, which attends both ways; causal ones are not supported");
    }
    return stated.value_or(true);
}

}  // namespace detail

/// Reads config.json of a draft for this target. block_size, mask_token_id and target_layer_ids stand in dflash_config
/// or, second choice, at top level. Errors: io_error for a file that is no JSON, config_error for what it says or when
/// the draft does not fit the target.
[[nodiscard]] inline draft_shape read_draft_config(const std::filesystem::path& folder, const target_shape& target,
                                                   const load_options& options = {}) {
    const std::filesystem::path file = folder / "config.json";
    const json_value root = read_json(file);
    const json_fields config(file.string(), root);
    constexpr detail::known_architecture known[] = {{"DFlashDraftModel", "qwen3"}};
    static_cast<void>(detail::read_architecture(config, known));
    const std::optional<json_fields> draft_config = config.optional_object("dflash_config");
    if (draft_config) {
        draft_config->allow_only({"block_size", "mask_token_id", "target_layer_ids", "causal"},
                                 "it could change the mathematics of the draft");
    }

    draft_shape shape;
    detail::read_transformer(config, shape, false);
    shape.max_positions = detail::read_context(config, options, true);
    if (shape.hidden_size != target.hidden_size) {
        raise<config_error>(config.name("hidden_size"), ": got ", shape.hidden_size, ", the target's is ",
                            target.hidden_size);
    }
    if (shape.vocab_size != target.vocab_size) {
        raise<config_error>(config.name("vocab_size"), ": got ", shape.vocab_size, ", the target's is ",
                            target.vocab_size);
    }
    const std::optional<index> target_layers = config.optional_index("num_target_layers", 1, detail::largest_size);
    if (target_layers && *target_layers != target.layers) {
        raise<config_error>(config.name("num_target_layers"), ": got ", *target_layers, ", the target has ",
                            target.layers);
    }

    const json_fields* place = detail::draft_place(config, draft_config, "block_size");
    if (place == nullptr) {
        config.missing("dflash_config.block_size", "an integer of at least 1 (here or at top level)");
    }
    shape.block_size = place->require_index("block_size", 1, detail::largest_size);

    place = detail::draft_place(config, draft_config, "mask_token_id");
    if (place == nullptr) {
        config.missing("dflash_config.mask_token_id", "the token the draft was trained with; none can stand in for it");
    }
    shape.mask_token = static_cast<token_id>(place->require_index("mask_token_id", 0, target.vocab_size - 1));

    place = detail::draft_place(config, draft_config, "target_layer_ids");
    shape.taps = detail::read_taps(config, place, target, shape.layers, options);

    const std::vector<bool> slides = detail::read_sliding_layers(config, shape.layers);
    const bool sliding_causal = detail::read_draft_causality(config, draft_config, slides);
    shape.masks = detail::make_masks(config, slides, mask_rule{false, 0}, sliding_causal);
    check_pair(target, shape);
    return shape;
}

}  // namespace io

DFLASH_END_NAMESPACE
