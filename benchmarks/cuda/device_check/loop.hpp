// The whole loop on the device: logits and tokens of random pairs and of pairs in folders equal the CPU's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <dflash/cuda/sampling.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "host_decode.hpp"
#include "inputs.hpp"
#include "support/random_model.hpp"

namespace device_check {

/// The folders of a target and its draft.
struct pair_folders {
    std::string target;
    std::string draft;
};

class device_pair {
    using target_type = dflash::target_transformer<cuda::exact>;
    using draft_type = dflash::draft_transformer<cuda::exact>;
    using drafter_type = dflash::dflash_drafter<draft_type, target_type, dflash::no_observer, cuda::draft_choice>;
    using sampler = dflash::categorical<>;

public:
    explicit device_pair(const pair_views& pair)
        : target_(pair.target, pair.target_tensors, pair.draft.taps, ops_),
          draft_(pair.draft, pair.draft_tensors, ops_) {}

    /// Adds whether tokens and acceptance lengths are the CPU's: without graphs, with them, and serially.
    void compare(const run_request& request, const run_result& right, tally& all) {
        const dflash::sampling_options law{.temperature = request.temperature};
        drafter_type drafter(draft_, target_, {},
                             request.coupled ? cuda::draft_choice(ops_, law) : cuda::draft_choice(ops_));
        dflash::speculative_decoder<target_type, drafter_type, sampler, cuda::sample_and_match> decoder(
            target_, drafter, dflash::fixed_block(draft_.shape().block_size), sampler(law),
            cuda::sample_and_match(ops_));
        const dflash::noise_key key{request.seed};
        for (int again = 0; again < 2; ++again) {
            const dflash::generation_result got = decoder.generate(request.prompt, request.limits, key);
            add(got.tokens, right.tokens, all);
            all.add(got.stats.acceptance_lengths == right.acceptance_lengths);
        }
        dflash::serial_decoder<target_type, sampler, cuda::sample_and_match> serial(target_, sampler(law),
                                                                                    cuda::sample_and_match(ops_));
        add(serial.generate(request.prompt, request.limits, key).tokens, right.tokens, all);
    }

    /// Logits of every token, by forwards of `group` tokens whose graphs are replayed.
    [[nodiscard]] std::vector<float> logits(const std::vector<token_id>& tokens, index group) {
        const auto m = static_cast<index>(tokens.size());
        const index vocab = target_.vocab_size();
        auto cache = target_.make_cache(m);
        dflash::buffer<token_id, cuda::pinned_space> pinned(group);
        dflash::buffer<float, device_space> rows(group * vocab);
        std::vector<float> out(static_cast<std::size_t>(m * vocab), numerics::not_a_number);
        for (index first = 0; first < m; first += group) {
            const index count = (std::min)(group, m - first);
            std::copy_n(tokens.data() + first, count, pinned.data());
            target_.forward({pinned.data(), static_cast<std::size_t>(count)}, cache, {rows.matrix(count, vocab), {}});
            cuda::runtime::copy(out.data() + first * vocab, rows.data(),
                                static_cast<std::size_t>(count * vocab) * sizeof(float), ops_.context().stream());
            ops_.wait();
        }
        return out;
    }

private:
    static void add(const std::vector<token_id>& got, const std::vector<token_id>& right, tally& all) {
        all.add(got.size() == right.size());
        for (std::size_t i = 0; i < (std::min)(got.size(), right.size()); ++i) {
            all.add(got[i] == right[i]);
        }
    }

    cuda::exact ops_;
    target_type target_;
    draft_type draft_;
};

inline std::vector<token_id> random_tokens(noise& random, index count, index vocab) {
    std::vector<token_id> tokens;
    for (index i = 0; i < count; ++i) {
        tokens.push_back(static_cast<token_id>(random.below(vocab)));
    }
    return tokens;
}

/// Greedy, coupled and drawn without coupling.
inline std::vector<run_request> requests_for(noise& random, index vocab, index prompt, index tokens) {
    std::vector<run_request> requests;
    for (int kind = 0; kind < 3; ++kind) {
        run_request request;
        request.prompt = random_tokens(random, prompt, vocab);
        request.limits.max_new_tokens = tokens;
        request.limits.prefill_chunk = 1 + random.below(40);
        request.seed = random.word();
        request.temperature = kind == 0 ? 0.0F : 0.9F;
        request.coupled = kind == 1;
        requests.push_back(std::move(request));
    }
    return requests;
}

inline void check_pair(report& out, const std::string& name, const pair_views& pair, std::uint64_t seed, index prompt,
                       index tokens) {
    out.attempt(name, [&] {
        noise random(seed);
        device_pair device(pair);
        const std::vector<token_id> text = random_tokens(random, prompt + 9, pair.target.vocab_size);
        const std::vector<float> right = logits_on_host(pair, text);
        const auto size = static_cast<index>(right.size());
        index different = 0;
        for (const index group : {1, 7}) {
            different += differing(device.logits(text, group).data(), right.data(), size);
        }
        out.equality(name + ", logits", 2 * size, different);
        tally all;
        index drafted_rounds = 0;
        index accepted = 0;
        const std::vector<run_request> requests = requests_for(random, pair.target.vocab_size, prompt, tokens);
        const std::vector<run_result> results = decode_on_host(pair, requests);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            device.compare(requests[i], results[i], all);
            for (const index length : results[i].acceptance_lengths) {
                accepted += length - 1;
                ++drafted_rounds;
            }
        }
        out.equality(name + ", tokens", all.compared, all.differing);
        out.figures(name + ", rounds", {{"rounds", static_cast<double>(drafted_rounds)},
                                        {"accepted_drafts", static_cast<double>(accepted)}});
    });
}

/// Pairs in folders come first: their drafts are right often enough to be accepted.
inline void check_loop(report& out, bool quick, const std::vector<pair_folders>& folders) {
    for (const pair_folders& folder : folders) {
        out.attempt(folder.target, [&] {
            const pair_views pair = read_pair(folder.target, folder.draft);
            check_pair(out, folder.target, pair, 1, quick ? 3 : 12, quick ? 4 : 120);
        });
    }
    for (std::uint64_t seed = 1; seed <= (quick ? 2U : 24U); ++seed) {
        dflash::test::random_pair made;
        dflash::test::make_random_pair(made, seed);
        const pair_views pair{made.target, made.target_tensors, made.draft, made.draft_tensors};
        const index prompt = quick ? 3 : seed % 4 == 0 ? 250 : 20;
        check_pair(out, "random pair " + std::to_string(seed), pair, seed, prompt, quick ? 8 : 60);
    }
}

}  // namespace device_check
