// Toy targets with known continuations, and a wrapper that counts, raises and spoils.
//
// last_token_law is the toy T of the literal answers, recurrent_law the toy R; context_model depends on every row of a
// contiguous cache, has tied logits, and reads NaN where it reads a row that it should not.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <dflash/cache/contiguous.hpp>
#include <dflash/concepts/model.hpp>

namespace dflash::test {

/// T: next = (3t + p + 1) mod 11 for the last token t at position p.
struct last_token_law {
    static constexpr index vocab = 11;
    struct state {
        token_id token = 0;
        index position = -1;
    };
    static state feed(state s, token_id token) { return {token, s.position + 1}; }
    static token_id next(state s) { return static_cast<token_id>((3 * s.token + s.position + 1) % vocab); }
};

/// R: feeding t makes s = (7s + t + 3) mod 101; next = s mod 11. No truncation gives an older s back.
struct recurrent_law {
    static constexpr index vocab = 11;
    struct state {
        index s = 0;
    };
    static state feed(state s, token_id token) { return {(7 * s.s + token + 3) % 101}; }
    static token_id next(state s) { return static_cast<token_id>(s.s % vocab); }
};

/// Remembers the state after every position, so that crop() restores a snapshot.
template <class Law>
class snapshot_cache {
public:
    explicit snapshot_cache(index capacity) : capacity_(capacity) {
        states_.reserve(static_cast<std::size_t>(capacity));
    }
    [[nodiscard]] index length() const { return static_cast<index>(states_.size()); }
    [[nodiscard]] index capacity() const { return capacity_; }
    void crop(index n) {
        DFLASH_EXPECTS(n >= 0 && n <= length(), "snapshot_cache: crop to ", n, " of ", length());
        states_.resize(static_cast<std::size_t>(n));
    }
    [[nodiscard]] typename Law::state newest() const {
        return states_.empty() ? typename Law::state{} : states_.back();
    }
    void push(typename Law::state s) { states_.push_back(s); }

private:
    index capacity_;
    std::vector<typename Law::state> states_;
};

inline void check_room(index m, index length, index capacity) {
    if (m < 1 || length + m > capacity) {
        raise<config_error>("toy: ", m, " tokens at ", length, " do not fit ", capacity);
    }
}

/// A target with a law of its own. Features of a token: (token, position, next).
template <class Law, determinism Guarantee = determinism::cross_isa>
class toy_model {
public:
    using space = host_space;
    using cache_type = snapshot_cache<Law>;
    static constexpr determinism guarantee = Guarantee;

    explicit toy_model(index max_positions = 100000) : max_positions_(max_positions) {}
    [[nodiscard]] index vocab_size() const { return Law::vocab; }
    [[nodiscard]] index max_positions() const { return max_positions_; }
    [[nodiscard]] index feature_size() const { return 3; }
    [[nodiscard]] cache_type make_cache(index n) const { return cache_type(n); }

    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) const {
        const index m = size_of(tokens);
        check_room(m, cache.length(), (std::min)(cache.capacity(), max_positions_));
        for (index i = 0; i < m; ++i) {
            const token_id token = tokens[static_cast<std::size_t>(i)];
            cache.push(Law::feed(cache.newest(), token));
            const token_id next = Law::next(cache.newest());
            const index row = i - (m - out.logits.rows());
            if (row >= 0) {
                std::ranges::fill(out.logits.row(row), 0.0F);
                out.logits(row, next) = 1.0F;
            }
            if (!out.features.empty()) {
                out.features(i, 0) = static_cast<float>(token);
                out.features(i, 1) = static_cast<float>(cache.length() - 1);
                out.features(i, 2) = static_cast<float>(next);
            }
        }
    }

private:
    index max_positions_;
};

/// A contiguous cache whose never-written and rolled-back rows hold quiet NaN, so that reading one is seen.
class poison_cache {
public:
    using layer_type = contiguous_cache<float>::layer_type;

    poison_cache(index layers, index kv_heads, index head_dim, index capacity)
        : rows_(layers, kv_heads, head_dim, capacity) {
        poison(0, capacity);
    }
    [[nodiscard]] index length() const { return rows_.length(); }
    [[nodiscard]] index capacity() const { return rows_.capacity(); }
    [[nodiscard]] index layers() const { return rows_.layers(); }
    [[nodiscard]] index kv_heads() const { return rows_.kv_heads(); }
    [[nodiscard]] index head_dim() const { return rows_.head_dim(); }
    void crop(index n) {
        rows_.crop(n);
        poison(n, written_);
        written_ = n;
    }
    void write(index layer, index first, matrix_view<const float> keys, matrix_view<const float> values) {
        rows_.write(layer, first, keys, values);
        written_ = (std::max)(written_, first + keys.rows());
    }
    void extend(index length) { rows_.extend(length); }
    [[nodiscard]] layer_type layer(index layer, index length) const { return rows_.layer(layer, length); }
    void reserve(index capacity) {
        const index before = rows_.capacity();
        rows_.reserve(capacity);
        poison(written_, capacity > before ? rows_.capacity() : written_);
    }

private:
    void poison(index first, index last) {
        const index width = rows_.kv_heads() * rows_.head_dim();
        buffer<float> nan(width);
        std::fill_n(nan.data(), width, std::numeric_limits<float>::quiet_NaN());
        for (index layer = 0; layer < rows_.layers(); ++layer) {
            for (index p = first; p < last; ++p) {
                rows_.write(layer, p, nan.matrix(1, width), nan.matrix(1, width));
            }
        }
    }

    contiguous_cache<float> rows_;
    index written_ = 0;
};

/// A target whose next token depends on every cached row. Its logits are small integers with many ties.
class context_model {
public:
    using space = host_space;
    using cache_type = poison_cache;
    static constexpr determinism guarantee = determinism::cross_isa;
    static constexpr index vocab = 13;

    explicit context_model(index max_positions = 100000) : max_positions_(max_positions) {}
    [[nodiscard]] index vocab_size() const { return vocab; }
    [[nodiscard]] index max_positions() const { return max_positions_; }
    [[nodiscard]] index feature_size() const { return 2; }
    [[nodiscard]] cache_type make_cache(index n) const { return {1, 2, 1, n}; }

    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) const {
        const index m = size_of(tokens);
        const index position = cache.length();
        check_room(m, position, (std::min)(cache.capacity(), max_positions_));
        for (index i = 0; i < m; ++i) {
            const auto token = static_cast<float>(tokens[static_cast<std::size_t>(i)]);
            const float key[2] = {token + 1.0F, static_cast<float>(position + i)};
            const float value[2] = {2.0F * token, 1.0F};
            cache.write(0, position + i, {key, 1, 2}, {value, 1, 2});
        }
        for (index i = 0; i < m; ++i) {
            const float sum = digest(cache.layer(0, position + i + 1));
            const index row = i - (m - out.logits.rows());
            for (index k = 0; k < vocab && row >= 0; ++k) {
                const bool usable = sum == sum;
                out.logits(row, k) = usable ? static_cast<float>((static_cast<index>(sum) * (k + 3) + k) % 5) : sum;
            }
            if (!out.features.empty()) {
                out.features(i, 0) = static_cast<float>(tokens[static_cast<std::size_t>(i)]);
                out.features(i, 1) = sum;
            }
        }
        cache.extend(position + m);
    }

private:
    /// A hash of all rows; NaN if any of them is.
    static float digest(const contiguous_layer<float>& rows) {
        index hash = 7;
        for (index p = 0; p < rows.length(); ++p) {
            for (index h = 0; h < rows.kv_heads(); ++h) {
                const float key = rows.key(h, p, 0);
                const float value = rows.value(h, p, 0);
                if (key != key || value != value) {
                    return key + value;
                }
                hash = (31 * hash + 5 * static_cast<index>(key) + static_cast<index>(value)) % 1009;
            }
        }
        return static_cast<float>(hash);
    }

    index max_positions_;
};

/// What the wrapper below throws; no error of the library.
struct injected_error : std::runtime_error {
    injected_error() : std::runtime_error("injected") {}
};

/// Counters of what a target was asked, and the faults it is to show.
struct probe {
    index forwards = 0;
    index rows = 0;           ///< tokens of all forwards
    index logit_rows = 0;     ///< rows of logits of all forwards
    index widest = 0;         ///< tokens of the longest forward
    index highest = -1;       ///< highest position ever forwarded
    index raise_at = -1;      ///< the forward, counted from 0, that raises
    bool raise_late = false;  ///< after the rows were appended, against axiom 4, instead of before
    std::vector<index> bad;   ///< positions whose law is not finite
    float bad_value = std::numeric_limits<float>::quiet_NaN();
};

/// A target that behaves as its probe says.
template <class Model>
class instrumented {
public:
    using space = typename Model::space;
    using cache_type = typename Model::cache_type;
    static constexpr determinism guarantee = Model::guarantee;

    instrumented(Model model, probe& seen) : model_(std::move(model)), probe_(&seen) {}
    instrumented(const instrumented&) = delete;
    instrumented& operator=(const instrumented&) = delete;

    [[nodiscard]] index vocab_size() const { return model_.vocab_size(); }
    [[nodiscard]] index max_positions() const { return model_.max_positions(); }
    [[nodiscard]] index feature_size() const { return model_.feature_size(); }
    [[nodiscard]] cache_type make_cache(index n) const { return model_.make_cache(n); }

    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) {
        probe& seen = *probe_;
        const bool raises = seen.forwards++ == seen.raise_at;
        if (raises && !seen.raise_late) {
            throw injected_error();
        }
        model_.forward(tokens, cache, out);
        if (raises) {
            throw injected_error();
        }
        seen.rows += size_of(tokens);
        seen.logit_rows += out.logits.rows();
        seen.widest = (std::max)(seen.widest, size_of(tokens));
        seen.highest = (std::max)(seen.highest, cache.length() - 1);
        for (index i = 0; i < out.logits.rows(); ++i) {
            const index position = cache.length() - out.logits.rows() + i + 1;
            if (std::find(seen.bad.begin(), seen.bad.end(), position) != seen.bad.end()) {
                out.logits(i, position % vocab_size()) = seen.bad_value;
            }
        }
    }

private:
    Model model_;
    probe* probe_;
};

using model_t = toy_model<last_token_law>;
using model_r = toy_model<recurrent_law>;

}  // namespace dflash::test
