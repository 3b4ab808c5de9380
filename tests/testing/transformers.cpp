// The kits on the library's own transformers and drafter: small random pairs, on the exact backend, also on poisoned
// caches.
#include <doctest/doctest.h>

#include <dflash/cpu/exact.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>
#include <dflash/testing/conformance.hpp>
#include <support/random_model.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

TEST_CASE("targets, caches and the drafter keep their axioms") {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        CAPTURE(seed);
        random_pair pair;
        make_random_pair(pair, seed);
        const testing::conformance_options options{.seed = seed, .cases = 3, .longest = 20};
        target_transformer<cpu::exact> target(pair.target, pair.target_tensors, pair.draft.taps);
        const testing::report model = testing::check_model_conformance(target, options);
        CHECK_MESSAGE(model.passed(), model.text());

        target_transformer<cpu::exact, cpu::exact, poison_cache> poisoned(pair.target, pair.target_tensors,
                                                                          pair.draft.taps);
        const testing::report clean = testing::check_model_conformance(poisoned, options);
        CHECK_MESSAGE(clean.passed(), clean.text());

        draft_transformer<cpu::exact> draft(pair.draft, pair.draft_tensors);
        dflash_drafter drafter(draft, target);
        const testing::report drafts = testing::check_drafter_conformance(drafter, target, options);
        CHECK_MESSAGE(drafts.passed(), drafts.text());
    }
}

}  // namespace dflash::test
