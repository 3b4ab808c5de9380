// One contender of the whole-step comparison: something that can run the target of a work.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/standard_work.hpp"

namespace dflash::bench {

/// One sequence of one model. Times are taken by the caller.
class step_engine {
public:
    step_engine() = default;
    step_engine(const step_engine&) = delete;
    step_engine& operator=(const step_engine&) = delete;
    virtual ~step_engine() = default;

    /// Starts a sequence of `context` positions filled with `rows`, with room for `room` more. Errors: backend_error.
    virtual void open(index context, index room, const cached_rows& rows) = 0;
    /// Appends the tokens and computes the logits of the last `logit_rows` of them.
    virtual void forward(std::span<const token_id> tokens, index logit_rows) = 0;
    /// Forgets every position from n on.
    virtual void crop(index n) = 0;
    /// The logits of the last forward: (logit_rows, v).
    virtual std::span<const float> logits() = 0;
    /// Seconds that the last forward spent in attention; negative: unknown.
    [[nodiscard]] virtual double attention_seconds() const { return -1; }
};

/// A contender by name, made for one work at a time.
struct contender {
    std::string name;
    index kv_bytes = 4;      ///< of one element of its cache
    bool bf16_dots = false;  ///< multiplies bfloat16 pairs where weights are bfloat16: another peak to be compared with
    std::function<std::unique_ptr<step_engine>(const work&, int threads)> make;
};

/// Ours first, then the peers that this build has, in the order of `peers` (see find_step_peers). A line for each peer
/// that is not there goes to `missing`. Errors: config_error for a peer nobody knows.
[[nodiscard]] std::vector<contender> step_contenders(dtype type, const std::vector<std::string>& peers,
                                                     std::vector<std::string>& missing);

}  // namespace dflash::bench
