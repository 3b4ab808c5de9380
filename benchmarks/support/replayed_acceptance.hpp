// An acceptance rule that ignores the target's opinion and accepts as many drafts as a list says.
//
// With random weights no draft would stand, though drafting and verifying cost what they cost. Replaying the lengths of
// another run gives whole runs with real costs. The text means nothing; the rule is not lossless and says so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <dflash/concepts/acceptance.hpp>
#include <dflash/numerics/argmax.hpp>

namespace dflash::bench {

/// Where a list of acceptance lengths (tokens a round commits, the target's own token included) has been read to.
struct acceptance_script {
    std::vector<index> lengths;
    std::size_t next = 0;
};

class replayed_acceptance {
public:
    static constexpr bool lossless = false;

    /// The list is gone through in circles; it must outlive the rule and not be empty.
    explicit replayed_acceptance(acceptance_script& script) : script_(&script) {}

    template <token_sampler Sampler>
    [[nodiscard]] verdict accept(const accept_call<>& call, const Sampler& sampler) const {
        index accepted = 0;
        if (!call.drafts.empty()) {
            const index length = script_->lengths[script_->next++ % script_->lengths.size()];
            accepted = (std::min)(length - 1, size_of(call.drafts));
        }
        // The rows are looked at as the default rule does, so that this costs the same.
        verdict out = {.accepted = accepted};
        for (index i = 0; i <= accepted; ++i) {
            const std::span<const float> row = call.logits.row(i);
            if (!numerics::all_finite(row.data(), size_of(row))) {
                return {.accepted = i, .next = no_token, .bad_row = i};
            }
            out.next = sampler.pick(row, call.position + i);
        }
        return out;
    }

private:
    acceptance_script* script_;
};

}  // namespace dflash::bench
