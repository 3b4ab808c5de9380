// Conformance of a block policy: the axioms of concepts/block_policy.hpp.
#pragma once

#include <algorithm>

#include <dflash/concepts/block_policy.hpp>
#include <dflash/testing/report.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

/// Lengths stay inside 1 .. min(limit, max_block()), whatever acceptance is reported.
template <block_policy Policy>
[[nodiscard]] report check_block_policy_conformance(Policy& policy, conformance_options options = {}) {
    return internal::collect("block_policy", [&](report& found) {
        const index most = policy.max_block();
        found.expect(most >= 1, "block_policy", 3, "max_block() is ", most, ", needs at least 1");
        dice die(options.seed);
        for (index c = 0; c < options.cases * options.longest; ++c) {
            const index limit = 1 + die.below(options.longest);
            const index block = policy.next(limit);
            found.expect(block >= 1 && block <= limit, "block_policy", 1, "next(", limit, ") gave ", block);
            found.expect(block <= policy.max_block() && policy.max_block() == most, "block_policy", 3, "next(", limit,
                         ") gave ", block, ", max_block() is ", policy.max_block(), ", was ", most);
            const index drafted = die.below((std::max)(index{1}, block));
            const index accepted = die.below(drafted + 1);
            policy.record({.block = drafted + 1,
                           .drafted = drafted,
                           .accepted = accepted,
                           .committed = accepted + 1,
                           .draft_seconds = static_cast<double>(die.fraction()),
                           .verify_seconds = static_cast<double>(die.fraction())});
        }
    });
}

}  // namespace testing

DFLASH_END_NAMESPACE
