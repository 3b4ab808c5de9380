// The floating-point environment of the calling thread does not show: not in rotary tables, not in what is sampled, not
// in log-probabilities. It is left as it was.
#include <doctest/doctest.h>

#include <cfenv>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/log_probabilities.hpp>
#include <dflash/decode/rejection_sampling.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/sampling/categorical.hpp>

#include "support/random_model.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace dflash::test {
namespace {

using target = target_transformer<cpu::exact>;
using draft = draft_transformer<cpu::exact>;

/// A rounding mode, and whether subnormals are flushed.
struct mode {
    int rounding;
    bool flush;
};

/// Sets a mode for the length of a scope, and tells whether it still holds.
class hostile_mode {
public:
    explicit hostile_mode(mode wanted) : wanted_(wanted) {
        std::fesetround(wanted.rounding);
#if defined(__SSE__)
        _mm_setcsr(_mm_getcsr() | (wanted.flush ? 0x8040U : 0U));
        set_ = _mm_getcsr();
#endif
    }
    ~hostile_mode() {
#if defined(__SSE__)
        _mm_setcsr(_mm_getcsr() & ~0x8040U);
#endif
        std::fesetround(FE_TONEAREST);
    }
    hostile_mode(const hostile_mode&) = delete;
    hostile_mode& operator=(const hostile_mode&) = delete;

    [[nodiscard]] bool holds() const {
#if defined(__SSE__)
        return (_mm_getcsr() & ~0x3FU) == (set_ & ~0x3FU);  // but for the flags of what has happened
#else
        return std::fegetround() == wanted_.rounding;
#endif
    }

private:
    mode wanted_;
#if defined(__SSE__)
    unsigned set_ = 0;
#endif
};

struct outcome {
    std::vector<token_id> tokens;
    std::vector<scored_token> scores;
    bool mode_held = true;

    friend bool operator==(const outcome&, const outcome&) = default;
};

/// Decodes with models of a seed that have not run before, so that their rotary tables are made on the way.
template <class Rule, class Choice>
outcome decode(std::uint64_t seed, const sampling_options& options, Choice choice, mode wanted) {
    random_pair pair;
    make_random_pair(pair, seed);
    target big(pair.target, pair.target_tensors, pair.draft.taps);
    draft small(pair.draft, pair.draft_tensors);
    dflash_drafter<draft, target, no_observer, Choice> drafter(small, big, {}, std::move(choice));
    outcome out;
    speculative_decoder<target, decltype(drafter), categorical<>, Rule, fixed_block, log_probability_recorder> decoder(
        big, drafter, fixed_block(5), categorical<>(options), {}, log_probability_recorder(&out.scores, 3));
    generation_limits limits;
    limits.max_new_tokens = 24;
    const std::vector<token_id> prompt = {1, 0, 2};
    const hostile_mode hostile(wanted);
    out.tokens = decoder.generate(prompt, limits, noise_key{seed}).tokens;
    out.mode_held = hostile.holds();
    return out;
}

}  // namespace

TEST_CASE("the rounding and flushing of the calling thread do not show in what is decoded") {
    const sampling_options options{.temperature = 0.8F, .top_p = 0.95F, .min_p = 1e-4F};
    const mode usual = {FE_TONEAREST, false};
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const outcome matched = decode<sample_and_match>(seed, options, coupled_drafts<>(options), usual);
        const outcome rejected = decode<rejection_sampling<>>(seed, options, sampled_drafts<>(options), usual);
        REQUIRE(matched.tokens.size() == 24);
        for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
            for (const bool flush : {false, true}) {
                CAPTURE(seed);
                CAPTURE(rounding);
                CAPTURE(flush);
                const mode wanted = {rounding, flush};
                CHECK(decode<sample_and_match>(seed, options, coupled_drafts<>(options), wanted) == matched);
                CHECK(decode<rejection_sampling<>>(seed, options, sampled_drafts<>(options), wanted) == rejected);
            }
        }
    }
}

}  // namespace dflash::test
