// The rotary settings of a config.json.
//
// rope_theta stands at top level, in rope_parameters (new) or in rope_scaling; every place that states it must agree,
// and so must rope_parameters and rope_scaling where both are given. A key that is not part of the stated type is
// refused, since it would change the mathematics. Only when no place states rope_theta is it 10000.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include <dflash/io/json.hpp>
#include <dflash/io/text.hpp>
#include <dflash/numerics/rope.hpp>

DFLASH_BEGIN_NAMESPACE

namespace io {

/// rope_theta of a configuration that does not state it: the published models' first value.
inline constexpr double default_rope_theta = 10000.0;

namespace detail {

inline double positive_number(const json_fields& fields, std::string_view key, double value) {
    if (!(value > 0.0)) {
        fields.refuse(key, number_text(value), "more than 0");
    }
    return value;
}

inline double require_positive(const json_fields& fields, std::string_view key) {
    return positive_number(fields, key, fields.require_number(key));
}

inline double optional_positive(const json_fields& fields, std::string_view key, double otherwise) {
    const std::optional<double> value = fields.optional_number(key);
    return value ? positive_number(fields, key, *value) : otherwise;
}

/// partial_rotary_factor may be stated, but only as 1: every dimension is rotated.
inline void check_rotary_part(const json_fields& fields) {
    const std::optional<double> part = fields.optional_number("partial_rotary_factor");
    if (part && *part != 1.0) {
        fields.refuse("partial_rotary_factor", number_text(*part), "1 (other values are not supported)");
    }
}

/// One object that describes a scaling: rope_parameters or rope_scaling. theta is left alone.
inline numerics::rope_parameters read_rope_scaling(const json_fields& fields) {
    using numerics::rope_scaling_kind;
    const std::string* type = fields.optional_string("rope_type");
    const std::string* old_type = fields.optional_string("type");
    if (type != nullptr && old_type != nullptr && *type != *old_type) {
        raise<config_error>(fields.name("rope_type"), " is ", in_quotes(*type), ", type is ", in_quotes(*old_type));
    }
    type = type != nullptr ? type : old_type;
    check_rotary_part(fields);
    numerics::rope_parameters rope;
    if (type == nullptr || *type == "default") {
        // Without a type there is nothing to say about a scaling, so that none of its keys may be there.
        fields.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor"},
                          "rope_type \"default\" has no such key");
        return rope;
    }
    if (*type == "linear") {
        fields.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor"},
                          "rope_type \"linear\" has no such key");
        rope.kind = rope_scaling_kind::linear;
        rope.factor = require_positive(fields, "factor");
        return rope;
    }
    if (*type == "llama3") {
        fields.allow_only({"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor",
                           "high_freq_factor", "original_max_position_embeddings"},
                          "rope_type \"llama3\" has no such key");
        rope.kind = rope_scaling_kind::llama3;
        rope.factor = require_positive(fields, "factor");
        rope.low_freq_factor = require_positive(fields, "low_freq_factor");
        rope.high_freq_factor = require_positive(fields, "high_freq_factor");
        rope.original_max_position = require_positive(fields, "original_max_position_embeddings");
        if (!(rope.high_freq_factor > rope.low_freq_factor)) {
            fields.refuse("high_freq_factor", number_text(rope.high_freq_factor),
                          "more than low_freq_factor " + number_text(rope.low_freq_factor));
        }
        return rope;
    }
    if (*type == "yarn") {
        fields.allow_only(
            {"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "attention_factor", "beta_fast",
             "beta_slow", "mscale", "mscale_all_dim", "truncate", "original_max_position_embeddings"},
            "rope_type \"yarn\" has no such key");
        rope.kind = rope_scaling_kind::yarn;
        // Readers disagree on a factor or an original length that is left out, so both are needed.
        rope.factor = require_positive(fields, "factor");
        rope.original_max_position = require_positive(fields, "original_max_position_embeddings");
        rope.attention_factor = optional_positive(fields, "attention_factor", 0.0);
        rope.beta_fast = optional_positive(fields, "beta_fast", 32.0);
        rope.beta_slow = optional_positive(fields, "beta_slow", 1.0);
        // A scale of 0 means absent there too.
        rope.mscale = fields.optional_number("mscale").value_or(0.0);
        rope.mscale_all_dim = fields.optional_number("mscale_all_dim").value_or(0.0);
        rope.truncate = fields.optional_bool("truncate").value_or(true);
        if (rope.beta_fast < rope.beta_slow) {
            fields.refuse("beta_fast", number_text(rope.beta_fast),
                          "at least beta_slow " + number_text(rope.beta_slow));
        }
        return rope;
    }
    fields.refuse("rope_type", in_quotes(*type), "default, linear, llama3 or yarn");
}

/// The one theta that all places state. Errors: config_error with both numbers when two differ.
inline double read_rope_theta(const json_fields& config, const std::optional<json_fields>& parameters,
                              const std::optional<json_fields>& scaling) {
    const json_fields* found_in = nullptr;
    double theta = default_rope_theta;
    for (const json_fields* place : {parameters ? &*parameters : nullptr, &config, scaling ? &*scaling : nullptr}) {
        const std::optional<double> value = place == nullptr ? std::nullopt : place->optional_number("rope_theta");
        if (!value) {
            continue;
        }
        if (!(*value > 1.0)) {
            place->refuse("rope_theta", number_text(*value), "more than 1");
        }
        if (found_in != nullptr && *value != theta) {
            raise<config_error>(found_in->name("rope_theta"), " is ", number_text(theta), ", but ",
                                place->name("rope_theta"), " is ", number_text(*value));
        }
        found_in = place;
        theta = *value;
    }
    return theta;
}

}  // namespace detail

/// Reads the rotary settings. Errors: config_error.
[[nodiscard]] inline numerics::rope_parameters read_rope(const json_fields& config) {
    detail::check_rotary_part(config);
    const std::optional<json_fields> parameters = config.optional_object("rope_parameters");
    const std::optional<json_fields> scaling = config.optional_object("rope_scaling");
    numerics::rope_parameters rope;
    if (parameters) {
        rope = detail::read_rope_scaling(*parameters);
    }
    if (scaling) {
        const numerics::rope_parameters other = detail::read_rope_scaling(*scaling);
        if (parameters && rope != other) {
            raise<config_error>(config.name("rope_parameters"), " and rope_scaling describe different scalings");
        }
        rope = other;
    }
    rope.theta = detail::read_rope_theta(config, parameters, scaling);
    return rope;
}

}  // namespace io

DFLASH_END_NAMESPACE
