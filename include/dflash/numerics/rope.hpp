// Rotary position embedding: the inverse frequencies and their scaling, the cos/sin tables, and the rotation.
//
// Tables are computed once in f64 with the library's own functions and rounded to f32, or injected by the caller.
// Scalings other than none, linear, llama3 and yarn do not exist here; a reader of checkpoints must refuse them.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include <dflash/identity.hpp>
#include <dflash/numerics/fp_environment.hpp>
#include <dflash/numerics/math64.hpp>

DFLASH_BEGIN_NAMESPACE

namespace numerics {

/// How inverse frequencies are changed for contexts longer than the trained one.
enum class rope_scaling_kind : std::uint8_t { none, linear, llama3, yarn };

/// The rotary settings of a checkpoint, named as Hugging Face configs name them. Fields a kind does not list are
/// ignored by it.
struct rope_parameters {
    double theta = 10000.0;                            ///< rope_theta, > 1
    rope_scaling_kind kind = rope_scaling_kind::none;  ///< rope_type
    double factor = 1.0;                               ///< linear, llama3, yarn; > 0
    double low_freq_factor = 1.0;                      ///< llama3
    double high_freq_factor = 4.0;                     ///< llama3; > low_freq_factor
    double original_max_position = 0.0;                ///< llama3, yarn; > 0
    double attention_factor = 0.0;                     ///< yarn; 0: derived from factor and the two mscales
    double beta_fast = 32.0;                           ///< yarn
    double beta_slow = 1.0;                            ///< yarn
    double mscale = 0.0;                               ///< yarn; 0: absent
    double mscale_all_dim = 0.0;                       ///< yarn; 0: absent
    bool truncate = true;                              ///< yarn: round the ramp's ends to whole dimensions
    friend bool operator==(const rope_parameters&, const rope_parameters&) = default;
};

namespace detail {

inline double clamp01(double x) {
    return x < 0.0 ? 0.0 : (x > 1.0 ? 1.0 : x);
}

inline double natural_log(double x) {
    return log2(x) * math64_constants::ln2;
}

inline void check_rope(const rope_parameters& p, index head_dim) {
    if (head_dim <= 0 || head_dim % 2 != 0) {
        raise<config_error>("head_dim: got ", head_dim, ", needs an even number of at least 2");
    }
    if (!(p.theta > 1.0)) {
        raise<config_error>("rope theta: got ", p.theta, ", needs more than 1");
    }
    if (p.kind == rope_scaling_kind::none) {
        return;
    }
    if (!(p.factor > 0.0)) {
        raise<config_error>("rope factor: got ", p.factor, ", needs more than 0");
    }
    if (p.kind == rope_scaling_kind::linear) {
        return;
    }
    if (!(p.original_max_position > 0.0)) {
        raise<config_error>("rope original_max_position: got ", p.original_max_position, ", needs more than 0");
    }
    if (p.kind == rope_scaling_kind::llama3) {
        if (!(p.low_freq_factor > 0.0) || !(p.high_freq_factor > p.low_freq_factor)) {
            raise<config_error>("rope high_freq_factor: got ", p.high_freq_factor, ", needs more than low_freq_factor ",
                                p.low_freq_factor, ", which needs more than 0");
        }
        return;
    }
    if (!(p.beta_slow > 0.0) || !(p.beta_fast >= p.beta_slow)) {
        raise<config_error>("rope beta_fast: got ", p.beta_fast, ", needs at least beta_slow ", p.beta_slow,
                            ", which needs more than 0");
    }
    if (!(p.attention_factor >= 0.0)) {
        raise<config_error>("rope attention_factor: got ", p.attention_factor, ", needs at least 0");
    }
}

/// Low frequencies divided by the factor, high ones kept, those between blended linearly in old_context / wavelength.
inline double llama3_frequency(const rope_parameters& p, double frequency) {
    const double wavelength = math64_constants::two_pi / frequency;
    if (wavelength < p.original_max_position / p.high_freq_factor) {
        return frequency;
    }
    if (wavelength > p.original_max_position / p.low_freq_factor) {
        return frequency / p.factor;
    }
    const double smooth =
        (p.original_max_position / wavelength - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
    return fma(1.0 - smooth, frequency / p.factor, smooth * frequency);
}

/// The dimension pairs between which yarn blends from kept to divided frequencies.
struct yarn_ramp {
    double low;
    double high;

    yarn_ramp(const rope_parameters& p, index head_dim) {
        low = dimension(p, head_dim, p.beta_fast);
        high = dimension(p, head_dim, p.beta_slow);
        if (p.truncate) {
            low = std::floor(low);
            high = std::ceil(high);
        }
        low = low < 0.0 ? 0.0 : low;
        const auto last = static_cast<double>(head_dim - 1);
        high = high > last ? last : high;
        if (low == high) {
            high = high + 0.001;  // the published guard against an empty ramp
        }
    }

    /// The (fractional) dimension pair that turns `rotations` times within the trained context.
    static double dimension(const rope_parameters& p, index head_dim, double rotations) {
        const double turns = log2(p.original_max_position / (rotations * math64_constants::two_pi));
        return (static_cast<double>(head_dim) * turns) / (2.0 * log2(p.theta));
    }

    [[nodiscard]] double at(index pair) const { return clamp01((static_cast<double>(pair) - low) / (high - low)); }
};

/// 0.1 mscale ln(factor) + 1, or 1 when nothing is stretched.
inline double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : fma(0.1 * mscale, natural_log(factor), 1.0);
}

}  // namespace detail

/// The factor on cos and sin: yarn's attention factor (given, or derived from factor, mscale and mscale_all_dim), else
/// 1. Rounded to f32.
[[nodiscard]] inline float rope_attention_factor(const rope_parameters& p) {
    if (p.kind != rope_scaling_kind::yarn) {
        return 1.0F;
    }
    if (p.attention_factor != 0.0) {
        return static_cast<float>(p.attention_factor);
    }
    if (p.mscale != 0.0 && p.mscale_all_dim != 0.0) {
        return static_cast<float>(detail::yarn_mscale(p.factor, p.mscale) /
                                  detail::yarn_mscale(p.factor, p.mscale_all_dim));
    }
    return static_cast<float>(detail::yarn_mscale(p.factor, 1.0));
}

/// theta^(-2i / head_dim) for i < head_dim / 2, scaled as asked, in f64 and rounded to f32 once.
/// Errors: config_error for an odd head_dim or parameters the kind cannot work with. Shape: inv_freq (e/2).
inline void rope_inverse_frequencies(const rope_parameters& p, index head_dim, float* inv_freq) {
    detail::check_rope(p, head_dim);
    const double log2_theta = log2(p.theta);
    for (index i = 0; i < head_dim / 2; ++i) {
        // The product is divided last: a quotient cannot be fused into what exp2 does with it.
        const double exponent = (static_cast<double>(-2 * i) * log2_theta) / static_cast<double>(head_dim);
        double frequency = exp2(exponent);
        switch (p.kind) {
            case rope_scaling_kind::none: break;
            case rope_scaling_kind::linear: frequency = frequency / p.factor; break;
            case rope_scaling_kind::llama3: frequency = detail::llama3_frequency(p, frequency); break;
            case rope_scaling_kind::yarn: {
                const double divided = detail::yarn_ramp(p, head_dim).at(i);
                frequency = fma(frequency / p.factor, divided, frequency * (1.0 - divided));
                break;
            }
        }
        inv_freq[i] = static_cast<float>(frequency);
    }
}

/// cos and sin for every position below a limit.
class rope_table {
public:
    rope_table() = default;

    /// Rows for positions 0 .. positions - 1: angle = pos * inv_freq in f32, cos and sin of it in f64, rounded to f32,
    /// then times the attention factor in f32. Errors: config_error as rope_inverse_frequencies, or positions < 0.
    rope_table(const rope_parameters& p, index head_dim, index positions) : half_(head_dim / 2), positions_(positions) {
        detail::check_rope(p, head_dim);
        if (positions < 0) {
            raise<config_error>("rope positions: got ", positions, ", needs at least 0");
        }
        const fp_environment environment;
        std::vector<float> inv_freq(static_cast<std::size_t>(half_));
        rope_inverse_frequencies(p, head_dim, inv_freq.data());
        const float factor = rope_attention_factor(p);
        const auto size = static_cast<std::size_t>(positions * half_);
        cos_.resize(size);
        sin_.resize(size);
        for (index pos = 0; pos < positions; ++pos) {
            for (index i = 0; i < half_; ++i) {
                const float angle = static_cast<float>(pos) * inv_freq[static_cast<std::size_t>(i)];
                const sine_cosine both = sincos(static_cast<double>(angle));
                const auto at = static_cast<std::size_t>(pos * half_ + i);
                cos_[at] = static_cast<float>(both.cos) * factor;
                sin_[at] = static_cast<float>(both.sin) * factor;
            }
        }
    }

    /// Injected tables. Errors: config_error when head_dim is odd or a table is not positions * head_dim / 2 long.
    /// Shapes: cos, sin (positions, e/2).
    rope_table(std::vector<float> cos, std::vector<float> sin, index head_dim, index positions)
        : cos_(std::move(cos)), sin_(std::move(sin)), half_(head_dim / 2), positions_(positions) {
        if (head_dim <= 0 || head_dim % 2 != 0) {
            raise<config_error>("head_dim: got ", head_dim, ", needs an even number of at least 2");
        }
        if (positions < 0) {
            raise<config_error>("rope positions: got ", positions, ", needs at least 0");
        }
        const auto needed = static_cast<std::size_t>(positions * half_);
        if (cos_.size() != needed) {
            raise<config_error>("rope cos table: got ", cos_.size(), " numbers, needs ", needed);
        }
        if (sin_.size() != needed) {
            raise<config_error>("rope sin table: got ", sin_.size(), " numbers, needs ", needed);
        }
    }

    /// Tables with the same number hold the same rows: for backends that keep copies of their own. Not 0.
    [[nodiscard]] std::uint64_t identity() const noexcept { return identity_; }
    /// The row of one position. Shape: (e/2).
    [[nodiscard]] const float* cos(index position) const { return cos_.data() + offset(position); }
    /// The row of one position. Shape: (e/2).
    [[nodiscard]] const float* sin(index position) const { return sin_.data() + offset(position); }
    /// Rows of the table.
    [[nodiscard]] index positions() const noexcept { return positions_; }
    /// head_dim / 2.
    [[nodiscard]] index half() const noexcept { return half_; }

private:
    [[nodiscard]] index offset(index position) const {
        DFLASH_EXPECTS(position >= 0 && position < positions_, "rope_table: position ", position, " is outside ",
                       positions_);
        return position * half_;
    }

    std::uint64_t identity_ = next_identity();
    std::vector<float> cos_;  // (positions, e/2)
    std::vector<float> sin_;  // (positions, e/2)
    index half_ = 0;
    index positions_ = 0;
};

namespace detail {

DFLASH_HD inline void rotate_pair(float& a, float& b, float cos, float sin) {
    const float x1 = a;
    const float x2 = b;
    a = fma(x1, cos, -(x2 * sin));
    b = fma(x2, cos, x1 * sin);
}

}  // namespace detail

/// Rotates the pairs (x[i], x[i + e/2]) in place. Shapes: x (e), cos, sin (e/2).
DFLASH_HD inline void rope_half(float* x, const float* cos, const float* sin, index head_dim) {
    const index half = head_dim / 2;
    for (index i = 0; i < half; ++i) {
        detail::rotate_pair(x[i], x[i + half], cos[i], sin[i]);
    }
}

/// Rotates the pairs (x[2i], x[2i + 1]) in place. Shapes: x (e), cos, sin (e/2).
DFLASH_HD inline void rope_interleaved(float* x, const float* cos, const float* sin, index head_dim) {
    for (index i = 0; i < head_dim / 2; ++i) {
        detail::rotate_pair(x[2 * i], x[2 * i + 1], cos[i], sin[i]);
    }
}

}  // namespace numerics

DFLASH_END_NAMESPACE
