// A target and a drafter whose laws are a hash of everything before: small vocabularies, any context dependence.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/drafter.hpp>
#include <dflash/sampling/drafting.hpp>
#include <dflash/testing/report.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

/// The hash of a sequence after one more token.
inline std::uint64_t hash_after(std::uint64_t hash, token_id token) {
    return testing::dice(hash * 31 + static_cast<std::uint64_t>(token) + 1).roll();
}

inline std::uint64_t hash_of(std::span<const token_id> tokens, std::uint64_t seed) {
    std::uint64_t hash = seed;
    for (const token_id token : tokens) {
        hash = hash_after(hash, token);
    }
    return hash;
}

/// Logits from a hash: spread out, sometimes tied, sometimes one token far ahead or far behind.
inline void logits_from(std::uint64_t hash, std::span<float> row) {
    testing::dice die(hash);
    const index kind = die.below(6);
    for (float& x : row) {
        x = kind == 0 ? 0.5F * static_cast<float>(die.below(3)) : 3.0F * die.fraction() - 1.5F;
    }
    if (kind == 1) {
        row[static_cast<std::size_t>(die.below(size_of(row)))] = 5.0F;
    }
    if (kind == 2) {
        row[static_cast<std::size_t>(die.below(size_of(row)))] = -60.0F;
    }
}

/// A target_model whose law after a prefix is a hash of all of it, or of its last token alone.
class table_target {
public:
    using space = host_space;
    static constexpr determinism guarantee = determinism::cross_isa;

    class cache_type {
    public:
        explicit cache_type(index capacity) : capacity_(capacity) {}
        [[nodiscard]] index length() const { return static_cast<index>(hashes.size()); }
        [[nodiscard]] index capacity() const { return capacity_; }
        void crop(index n) { hashes.resize(static_cast<std::size_t>(n)); }
        std::vector<std::uint64_t> hashes;

    private:
        index capacity_;
    };

    table_target(index vocab, std::uint64_t seed, index max_positions = 1000, bool last_only = false)
        : vocab_(vocab), seed_(seed), max_positions_(max_positions), last_only_(last_only) {}
    [[nodiscard]] index vocab_size() const { return vocab_; }
    [[nodiscard]] index max_positions() const { return max_positions_; }
    [[nodiscard]] index feature_size() const { return 0; }
    [[nodiscard]] std::uint64_t seed() const { return seed_; }
    [[nodiscard]] cache_type make_cache(index n) const { return cache_type(n); }

    void forward(std::span<const token_id> tokens, cache_type& cache, const forward_output<>& out) const {
        const index m = size_of(tokens);
        check_room(m, cache.length(), (std::min)(cache.capacity(), max_positions_));
        for (index i = 0; i < m; ++i) {
            const bool from_seed = cache.hashes.empty() || last_only_;
            cache.hashes.push_back(
                hash_after(from_seed ? seed_ : cache.hashes.back(), tokens[static_cast<std::size_t>(i)]));
            const index row = i - (m - out.logits.rows());
            if (row >= 0) {
                logits_from(cache.hashes.back(), out.logits.row(row));
            }
        }
    }

    /// The law after a prefix.
    [[nodiscard]] std::vector<float> logits(std::span<const token_id> prefix) const {
        std::vector<float> row(static_cast<std::size_t>(vocab_));
        logits_from(hash_of(last_only_ ? prefix.last(1) : prefix, seed_), row);
        return row;
    }

private:
    index vocab_;
    std::uint64_t seed_;
    index max_positions_;
    bool last_only_;
};

/// How a table_drafter's law relates to the target's.
enum class kinship {
    twin,      ///< the target's own law after the true prefix (the drafts before included)
    slot,      ///< block diffusion: a law of the committed prefix and the slot, blended with the target's
    stranger,  ///< unrelated
};

/// A drafter whose law is a table, too; `Choice` draws from it. With `chained` a slot's law depends on the drafts
/// before.
template <class Choice>
class table_drafter {
public:
    table_drafter(const table_target& target, kinship kin, bool chained, Choice choice)
        : target_(&target), kin_(kin), chained_(chained), choice_(std::move(choice)) {}

    [[nodiscard]] index feature_size() const { return 0; }
    [[nodiscard]] index context_length() const { return length_; }
    [[nodiscard]] index max_positions() const { return target_->max_positions(); }
    void reserve(index) {}
    void commit(std::span<const token_id> tokens, matrix_view<const float>) { length_ += size_of(tokens); }
    void crop(index n) { length_ = n; }
    void reset() { length_ = 0; }

    void propose(const draft_request& request, draft_output<>& out) {
        const index slots = request.block - 1;
        const index vocab = target_->vocab_size();
        std::vector<token_id> prefix(request.committed.begin(), request.committed.end());
        logits_.assign(static_cast<std::size_t>(slots * vocab), 0.0F);
        const matrix_view<float> rows(logits_.data(), slots, vocab);
        if (!chained_) {
            for (index i = 0; i < slots; ++i) {
                fill(prefix, i, rows.row(i));
            }
            choice_.choose(rows, size_of(request.committed), request.noise, out);
            return;
        }
        weights_.assign(logits_.size(), 0.0F);
        bool drawn = false;
        for (index i = 0; i < slots; ++i) {
            fill(prefix, i, rows.row(i));
            draft_output<> one{.tokens = out.tokens.subspan(static_cast<std::size_t>(i)), .count = 0, .law = {}};
            choice_.choose(rows.rows(i, 1), size_of(request.committed) + i, request.noise, one);
            prefix.push_back(out.tokens[static_cast<std::size_t>(i)]);
            drawn = one.law.rows() > 0;
            if (drawn) {
                detail::visit_law(one.law, 0,
                                  [&](token_id t, float w) { weights_[static_cast<std::size_t>(i * vocab + t)] = w; });
            }
        }
        out.count = slots;
        if (drawn) {
            out.law = matrix_view<const float>(weights_.data(), slots, vocab);
        }
    }

private:
    void fill(std::span<const token_id> prefix, index slot, std::span<float> row) const {
        const std::vector<float> own = target_->logits(prefix);
        if (kin_ == kinship::twin) {
            std::copy(own.begin(), own.end(), row.begin());
            return;
        }
        const std::uint64_t strange = hash_of(prefix, target_->seed() + 77) + static_cast<std::uint64_t>(slot);
        logits_from(testing::dice(strange).roll(), row);
        if (kin_ == kinship::slot) {
            for (std::size_t t = 0; t < row.size(); ++t) {
                row[t] = 0.5F * row[t] + 0.5F * own[t];
            }
        }
    }

    const table_target* target_;
    kinship kin_;
    bool chained_;
    Choice choice_;
    index length_ = 0;
    std::vector<float> logits_;
    std::vector<float> weights_;
};

}  // namespace dflash::test
