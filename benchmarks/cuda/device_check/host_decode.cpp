#include "host_decode.hpp"

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

namespace device_check {

using namespace dflash;

namespace {

using target_type = target_transformer<cpu::exact>;
using draft_type = draft_transformer<cpu::exact>;

template <class Choice>
run_result decode(target_type& target, draft_type& draft, const run_request& request, Choice choice) {
    dflash_drafter<draft_type, target_type, no_observer, Choice> drafter(draft, target, {}, std::move(choice));
    speculative_decoder<target_type, decltype(drafter), categorical<>> decoder(
        target, drafter, fixed_block(draft.shape().block_size), categorical<>({.temperature = request.temperature}));
    const generation_result got = decoder.generate(request.prompt, request.limits, noise_key{request.seed});
    return {got.tokens, got.stats.acceptance_lengths};
}

}  // namespace

pair_views read_pair(const std::string& target, const std::string& draft) {
    io::pair_checkpoint loaded = io::load_pair(target, draft);
    return {std::move(loaded.target.shape), std::move(loaded.target.weights), std::move(loaded.draft.shape),
            std::move(loaded.draft.weights)};
}

std::vector<run_result> decode_on_host(const pair_views& pair, const std::vector<run_request>& requests) {
    target_type target(pair.target, pair.target_tensors, pair.draft.taps);
    draft_type draft(pair.draft, pair.draft_tensors);
    std::vector<run_result> results;
    for (const run_request& request : requests) {
        results.push_back(request.coupled
                              ? decode(target, draft, request, coupled_drafts<>({.temperature = request.temperature}))
                              : decode(target, draft, request, argmax_drafts{}));
    }
    return results;
}

std::vector<float> logits_on_host(const pair_views& pair, const std::vector<token_id>& tokens) {
    target_type target(pair.target, pair.target_tensors);
    const auto m = static_cast<dflash::index>(tokens.size());
    auto cache = target.make_cache(m);
    buffer<float> logits(m * pair.target.vocab_size);
    target.forward(tokens, cache, {logits.matrix(m, pair.target.vocab_size), {}});
    return {logits.data(), logits.data() + logits.size()};
}

}  // namespace device_check
