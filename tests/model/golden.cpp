// The golden checkpoints: tokens, acceptance lengths and first-round tensors of the reference method, in both backends.
#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/cpu/reference.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/io/load.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

namespace dflash::test {
namespace {

template <class Ops>
void run_folder(const std::string& name) {
    const std::string folder = std::string(DFLASH_TEST_DATA) + "/checkpoints/" + name;
    const nlohmann::json expected = read_json(folder + "/expected.json");
    const io::pair_checkpoint loaded = io::load_pair(folder + "/target", folder + "/draft");
    CHECK(loaded.draft.shape.taps == expected.at("layer_ids").get<std::vector<index>>());
    CHECK(loaded.draft.shape.mask_token == expected.at("mask_token_id").get<token_id>());

    constexpr bool scalar_is_float = std::is_same_v<typename Ops::scalar, float>;
    using target = target_transformer<Ops>;
    using draft = draft_transformer<Ops, Ops, typename Ops::cache_type, keep_all>;
    using drafter_type = dflash_drafter<draft, target, keep_all>;
    for (const nlohmann::json& run : expected.at("runs")) {
        keep_all::store seen;
        target model(loaded.target.shape, loaded.target.weights, loaded.draft.shape.taps);
        draft small(loaded.draft.shape, loaded.draft.weights, {}, {}, keep_all(seen));
        drafter_type drafter(small, model, keep_all(seen));
        const auto block = run.at("block_size").get<index>();
        const auto prompt = run.at("prompt").get<std::vector<token_id>>();
        generation_limits limits;
        limits.max_new_tokens = run.at("max_new_tokens").get<index>();
        if (!run.at("stop").is_null()) {
            limits.stop_tokens = run.at("stop").is_array() ? run.at("stop").get<std::vector<token_id>>()
                                                           : std::vector{run.at("stop").get<token_id>()};
        }
        speculative_decoder<target, drafter_type, greedy, sample_and_match, fixed_block, keep_all, allow_numeric_drift>
            decoder(model, drafter, fixed_block(block), {}, {}, keep_all(seen));
        const generation_result result = decoder.generate(prompt, limits);
        INFO(name << ", block " << block << ", prompt of " << prompt.size());
        CHECK(result.tokens == run.at("tokens").get<std::vector<token_id>>());
        CHECK(serial_decoder<target>(model).generate(prompt, limits).tokens == result.tokens);
        CHECK(same_lengths(result.stats.acceptance_lengths, run.at("acceptance_lengths").get<std::vector<index>>(),
                           block, limits.max_new_tokens));
        if (limits.max_new_tokens > block && run.contains("first_round") && !run.at("first_round").is_null()) {
            const nlohmann::json& first = run.at("first_round");
            using matrix = std::vector<std::vector<double>>;
            if constexpr (scalar_is_float) {
                CHECK(relative_error(find_seen(seen.tensors, "context", -1, 0).rows,
                                     first.at("context_features").get<matrix>()) < 1e-4);
            }
            CHECK(relative_error(find_seen(seen.tensors, "draft_logits", -1, 0).rows,
                                 first.at("draft_logits").get<matrix>()) < 1e-4);
            CHECK(relative_error(seen.verify_logits.at(0), first.at("verify_logits").get<matrix>()) < 1e-4);
        }
    }
    CHECK(expected.at("runs").size() > 0);
}

TEST_CASE_TEMPLATE("golden checkpoints", Ops, cpu::exact, cpu::reference<double>, cpu::reference<float>) {
    for (const char* name : {"qwen3-untied", "qwen3-tied-bf16", "llama3-rope", "sliding-draft"}) {
        run_folder<Ops>(name);
    }
}

}  // namespace
}  // namespace dflash::test
