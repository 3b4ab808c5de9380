// Conformance of a target model and of its cache: the axioms of concepts/model.hpp and concepts/cache.hpp, tried out.
//
// Bits are compared where the model promises bits: below determinism::batch_invariant only the book-keeping is
// checked. Models in another memory space pass a `read` that copies a view to the host.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <dflash/buffer.hpp>
#include <dflash/concepts/model.hpp>
#include <dflash/testing/report.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

/// Copies a host view, row after row.
struct read_host {
    void operator()(matrix_view<const float> from, std::span<float> to) const {
        for (index r = 0; r < from.rows(); ++r) {
            std::copy_n(from.row(r).data(), from.cols(), to.data() + r * from.cols());
        }
    }
};

namespace internal {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
        return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    });
}

/// What one or more forwards wrote.
struct rows_of {
    std::vector<float> logits;    // (r, v)
    std::vector<float> features;  // (m, k*d)
};

/// Runs forwards into memory of its own and reads the results back.
template <class Model, class Read>
class forward_runner {
public:
    using space = typename Model::space;
    using cache = typename Model::cache_type;

    forward_runner(Model& model, Read read, index longest)
        : model_(model),
          read_(read),
          vocab_(model.vocab_size()),
          logits_(longest * vocab_),
          features_(longest * width()) {}

    /// The width of a feature row, 0 when the model has none.
    [[nodiscard]] index width() const {
        if constexpr (requires(const Model& m) { m.feature_size(); }) {
            return model_.feature_size();
        } else {
            return 0;
        }
    }
    [[nodiscard]] index vocab() const noexcept { return vocab_; }

    /// One forward; logits of the last r tokens, features of all when wanted.
    rows_of run(std::span<const token_id> tokens, cache& state, index r, bool features = true) {
        const index m = size_of(tokens);
        const matrix_view<float, space> law = logits_.matrix(r, vocab_);
        const matrix_view<float, space> taps =
            features && width() > 0 ? features_.matrix(m, width()) : matrix_view<float, space>();
        model_.forward(tokens, state, {law, taps});
        rows_of out;
        out.logits.resize(static_cast<std::size_t>(r * vocab_));
        out.features.resize(static_cast<std::size_t>(taps.rows() * taps.cols()));
        read_(law, std::span<float>(out.logits));
        read_(taps, std::span<float>(out.features));
        return out;
    }

    /// Every token in a forward of its own: what everything else is compared with.
    rows_of one_by_one(std::span<const token_id> tokens, cache& state) {
        rows_of out;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const rows_of row = run(tokens.subspan(i, 1), state, 1);
            out.logits.insert(out.logits.end(), row.logits.begin(), row.logits.end());
            out.features.insert(out.features.end(), row.features.begin(), row.features.end());
        }
        return out;
    }

    [[nodiscard]] std::span<const float> law(const rows_of& rows, index first, index count) const {
        return std::span<const float>(rows.logits)
            .subspan(static_cast<std::size_t>(first * vocab_), static_cast<std::size_t>(count * vocab_));
    }
    [[nodiscard]] std::span<const float> taps(const rows_of& rows, index first, index count) const {
        return std::span<const float>(rows.features)
            .subspan(static_cast<std::size_t>(first * width()), static_cast<std::size_t>(count * width()));
    }

private:
    Model& model_;
    Read read_;
    index vocab_;
    buffer<float, space> logits_;
    buffer<float, space> features_;
};

inline std::span<const token_id> part(const std::vector<token_id>& tokens, index first, index count) {
    return std::span<const token_id>(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

/// embed() and head() row by row and together. The rows of embed serve as hidden rows: any rows will do.
template <class Model, class Runner, class Read>
void check_lending(Model& model, const Runner& runner, Read read, dice& die, report& found) {
    using space = typename Model::space;
    constexpr bool bits = Model::guarantee >= determinism::batch_invariant;
    const index d = model.hidden_size();
    const index v = runner.vocab();
    const index rows = 1 + die.below(17);
    const std::vector<token_id> ids = die.tokens(rows, v);
    buffer<float, space> hidden(rows * d);
    buffer<float, space> logits(rows * v);
    buffer<float, space> one(d + v);
    const auto read_back = [&](matrix_view<const float, space> from) {
        std::vector<float> to(static_cast<std::size_t>(from.rows() * from.cols()));
        read(from, std::span<float>(to));
        return to;
    };
    model.embed(ids, hidden.matrix(rows, d));
    model.head(hidden.matrix(rows, d), logits.matrix(rows, v));
    const std::vector<float> all_hidden = read_back(hidden.matrix(rows, d));
    const std::vector<float> all_logits = read_back(logits.matrix(rows, v));
    for (index r = 0; r < rows && bits; ++r) {
        model.embed(part(ids, r, 1), one.matrix(1, d));
        const std::vector<float> row = read_back(one.matrix(1, d));
        found.expect(same_bits(row, std::span<const float>(all_hidden)
                                        .subspan(static_cast<std::size_t>(r * d), static_cast<std::size_t>(d))),
                     "feature_target", 7, "embed() of ", rows, " ids gives another row ", r, " than of one id");
        model.head(hidden.matrix(rows, d).rows(r, 1), one.matrix(1, v));
        const std::vector<float> law = read_back(one.matrix(1, v));
        found.expect(same_bits(law, std::span<const float>(all_logits)
                                        .subspan(static_cast<std::size_t>(r * v), static_cast<std::size_t>(v))),
                     "feature_target", 7, "head() of ", rows, " rows gives another row ", r, " than of one row");
    }
}

}  // namespace internal

/// The axioms of kv_cache, tried on the caches this model makes.
template <target_model Model, class Read = read_host>
[[nodiscard]] report check_cache_conformance(Model& model, conformance_options options = {}, Read read = {}) {
    return internal::collect("kv_cache", [&](report& found) {
        constexpr bool bits = Model::guarantee >= determinism::batch_invariant;
        const index longest = (std::min<index>)(options.longest, model.max_positions());
        internal::forward_runner<Model, Read> runner(model, read, 2 * longest + 1);
        for (index c = 0; c < options.cases; ++c) {
            dice die(options.seed + static_cast<std::uint64_t>(c));
            const index n = longest - die.below((std::max)(index{1}, longest / 2));
            const std::vector<token_id> tokens = die.tokens(n, runner.vocab());

            typename Model::cache_type fresh = model.make_cache(n);
            found.expect(fresh.length() == 0, "kv_cache", 1, "a new cache has length ", fresh.length(), ", needs 0");
            found.expect(fresh.capacity() >= n, "kv_cache", 4, "make_cache(", n, ") gave room for ", fresh.capacity());
            const internal::rows_of expected = runner.one_by_one(tokens, fresh);
            found.expect(fresh.length() == n, "kv_cache", 1, n, " forwards of one token made length ", fresh.length());

            // Keep some, append other tokens, forget them, then go on as if nothing had happened; all lengths of
            // blocks.
            typename Model::cache_type cache = model.make_cache(n);
            typename Model::cache_type clean = model.make_cache(n);
            index kept = 0;
            while (kept < n) {
                const index guess = 1 + die.below(n - kept);
                runner.run(die.tokens(guess, runner.vocab()), cache, guess);
                found.expect(cache.length() == kept + guess, "kv_cache", 1, "a forward of ", guess,
                             " tokens at length ", kept, " made length ", cache.length());
                if (die.below(2) == 0 && guess > 1) {
                    cache.crop(kept + guess / 2);
                }
                cache.crop(kept);
                found.expect(cache.length() == kept, "kv_cache", 2, "crop(", kept, ") made length ", cache.length());
                const index step = 1 + die.below(n - kept);
                const internal::rows_of got = runner.run(internal::part(tokens, kept, step), cache, step);
                const internal::rows_of same = runner.run(internal::part(tokens, kept, step), clean, step);
                if (bits) {
                    found.expect(internal::same_bits(got.logits, same.logits) &&
                                     internal::same_bits(got.features, same.features),
                                 "kv_cache", 3, "after ", guess, " tokens were appended at ", kept,
                                 " and cropped away, the next ", step,
                                 " rows differ from those of a cache that never saw them");
                }
                kept += step;
            }

            // A crop deep into the past, and crop to where it is.
            const index deep = die.below(n);
            cache.crop(n);
            found.expect(cache.length() == n, "kv_cache", 2, "crop(length()) made length ", cache.length(), " of ", n);
            cache.crop(deep);
            const internal::rows_of again = runner.run(internal::part(tokens, deep, n - deep), cache, n - deep);
            if (bits) {
                found.expect(internal::same_bits(again.logits, runner.law(expected, deep, n - deep)), "kv_cache", 2,
                             "crop(", deep, ") of ", n, " positions did not keep positions 0 .. ", deep - 1,
                             " bit for bit");
            }

            // No room: raised before anything changed. A cache that rounds its capacity up far is left alone.
            const index over = fresh.capacity() - deep + 1;
            if (DFLASH_HAS_EXCEPTIONS && over <= 2 * longest + 1) {
                cache.crop(deep);
                const std::vector<token_id> many = die.tokens(over, runner.vocab());
                found.expect(internal::raises([&] { runner.run(many, cache, 1); }), "kv_cache", 4, "a forward of ",
                             over, " tokens at length ", deep, " was let through, the capacity is ", cache.capacity());
                if (found.expect(cache.length() == deep, "kv_cache", 4, "a forward that had no room left length ",
                                 cache.length(), ", was ", deep)) {
                    const internal::rows_of rest = runner.run(internal::part(tokens, deep, n - deep), cache, n - deep);
                    found.expect(!bits || internal::same_bits(rest.logits, runner.law(expected, deep, n - deep)),
                                 "kv_cache", 4, "a forward that had no room changed what the cache holds");
                }
            }
            found.expect(fresh.length() == n, "kv_cache", 1, "work on another cache made length ", fresh.length(),
                         " of ", n);
        }
    });
}

/// The axioms of target_model (and of feature_target where it is one), and of the caches it makes.
template <target_model Model, class Read = read_host>
[[nodiscard]] report check_model_conformance(Model& model, conformance_options options = {}, Read read = {}) {
    return internal::collect("target_model", [&](report& found) {
        constexpr bool bits = Model::guarantee >= determinism::batch_invariant;
        const index vocab = model.vocab_size();
        const index positions = model.max_positions();
        if (!found.expect(vocab >= 1 && positions >= 1, "target_model", 5, "vocab_size() is ", vocab,
                          " and max_positions() is ", positions, "; both need at least 1")) {
            return;
        }
        found.absorb(check_cache_conformance(model, options, read));
        const index longest = (std::min)(options.longest, positions);
        internal::forward_runner<Model, Read> runner(model, read, longest + 1);
        for (index c = 0; c < options.cases; ++c) {
            dice die(options.seed + static_cast<std::uint64_t>(c));
            const index n = c == 0 ? 1 : 1 + die.below(longest);
            const std::vector<token_id> tokens = die.tokens(n, vocab);
            typename Model::cache_type serial = model.make_cache(n);
            const internal::rows_of expected = runner.one_by_one(tokens, serial);

            // The whole sequence in one forward, then cut in random places, with fewer rows of logits than tokens.
            for (index way = 0; way < 4; ++way) {
                typename Model::cache_type cache = model.make_cache(n);
                for (index at = 0; at < n;) {
                    const index m = way == 0 ? n : 1 + die.below(n - at);
                    const index r = way < 2 ? m : die.below(m + 1);
                    const bool features = way < 3 || die.below(2) == 0;
                    const internal::rows_of got = runner.run(internal::part(tokens, at, m), cache, r, features);
                    if (!found.expect(cache.length() == at + m, "target_model", 1, "a forward of ", m, " tokens at ",
                                      at, " made the cache ", cache.length(), " long")) {
                        return;
                    }
                    if (bits) {
                        found.expect(internal::same_bits(got.logits, runner.law(expected, at + m - r, r)),
                                     "target_model", r == m ? 3 : 2, "a forward of ", m, " tokens at position ", at,
                                     " with ", r, " rows of logits differs from forwards of one token each");
                        found.expect(!features || internal::same_bits(got.features, runner.taps(expected, at, m)),
                                     "target_model", 6, "the features of a forward of ", m, " tokens at position ", at,
                                     " differ from those of forwards of one token each");
                    }
                    at += m;
                }
            }

            // Other tokens to the right change nothing on the left.
            if (bits && n > 1) {
                const index left = 1 + die.below(n - 1);
                std::vector<token_id> other = tokens;
                for (index i = left; i < n; ++i) {
                    other[static_cast<std::size_t>(i)] = die.token(vocab);
                }
                typename Model::cache_type cache = model.make_cache(n);
                const internal::rows_of got = runner.run(other, cache, n);
                found.expect(internal::same_bits(runner.law(got, 0, left), runner.law(expected, 0, left)) &&
                                 internal::same_bits(runner.taps(got, 0, left), runner.taps(expected, 0, left)),
                             "target_model", 2, "of ", n, " rows the first ", left,
                             " changed with the tokens to their right");
            }

            // Two sequences in turn on one model.
            if (bits && n > 1) {
                typename Model::cache_type one = model.make_cache(n);
                typename Model::cache_type two = model.make_cache(n);
                const std::vector<token_id> other = die.tokens(n, vocab);
                bool same = true;
                for (index i = 0; i < n; ++i) {
                    const internal::rows_of row = runner.run(internal::part(tokens, i, 1), one, 1);
                    same = same && internal::same_bits(row.logits, runner.law(expected, i, 1));
                    runner.run(internal::part(other, i, 1), two, 1);
                }
                found.expect(same, "target_model", 2, "a second sequence on the same model changed the first");
            }

            if constexpr (feature_target<Model>) {
                internal::check_lending(model, runner, read, die, found);
            }
        }

        if (DFLASH_HAS_EXCEPTIONS) {
            dice die(options.seed);
            const std::vector<token_id> tokens = die.tokens(longest, vocab);
            typename Model::cache_type cache = model.make_cache(longest);
            const index over = cache.capacity() + 1;
            if (over <= longest + 1) {
                runner.run(internal::part(tokens, 0, 1), cache, 1);
                const std::vector<token_id> many = die.tokens(over, vocab);
                const bool raised = internal::raises([&] { runner.run(many, cache, 1); });
                found.expect(raised && cache.length() == 1, "target_model", 4,
                             "a forward that has no room must raise and leave the cache as it was; it ",
                             raised ? "raised" : "did not raise", ", length ", cache.length(), ", was 1");
            }
        }
        found.expect(model.vocab_size() == vocab && model.max_positions() == positions, "target_model", 5,
                     "vocab_size() or max_positions() changed: ", model.vocab_size(), ", ", model.max_positions(),
                     ", were ", vocab, ", ", positions);
    });
}

}  // namespace testing

DFLASH_END_NAMESPACE
