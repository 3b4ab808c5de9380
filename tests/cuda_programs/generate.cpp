// dflash-generate --backend cuda in the simulator: the CPU's text with the models that come with the project; what the
// backend does not do is refused by name; builds without it, and machines without a device, say so.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string plain = DFLASH_GENERATE;
const std::string simulated = DFLASH_GENERATE_SIMULATED;

arguments with(arguments given, const arguments& more) {
    given.insert(given.end(), more.begin(), more.end());
    return given;
}

/// The object of a run without what depends on the clock.
nlohmann::json result_of(const std::string& program, const arguments& given) {
    const outcome ran = run(program, given);
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    nlohmann::json object = nlohmann::json::parse(ran.out);
    object.erase("seconds");
    return object;
}

}  // namespace

TEST_CASE("the CPU's tokens, text and statistics: greedy and sampled, speculative and serial") {
    const arguments prompt = {"--prompt", "Add 1", "--json", "--max-new-tokens", "5"};
    for (const arguments& how : {arguments{}, arguments{"--temperature", "1", "--seed", "7", "--block-size", "4"},
                                 arguments{"--temperature", "1", "--draft-sampling", "argmax", "--block-size", "3"},
                                 arguments{"--serial"}, arguments{"--activation", "bf16", "--block-size", "4"}}) {
        const nlohmann::json right = result_of(plain, with(prompt, how));
        const nlohmann::json got = result_of(simulated, with(with(prompt, how), {"--backend", "cuda"}));
        CHECK(right == got);
        CHECK(right.at("tokens").size() == 5);
    }
}

TEST_CASE("--compare compares speculative and serial decoding on the device") {
    const outcome ran = run(simulated, {"--backend", "cuda", "--prompt", "Add 1", "--json", "--max-new-tokens", "3",
                                        "--block-size", "3", "--compare"});
    REQUIRE(ran.status == 0);
    CHECK(nlohmann::json::parse(ran.out).at("identical") == true);
}

TEST_CASE("what the device does not do is refused by name") {
    const arguments start = {"--backend", "cuda", "--prompt", "Add 1"};
    const std::pair<arguments, std::string> refusals[] = {
        {{"--temperature", "1", "--top-k", "3"}, "top_k: got 3"},
        {{"--temperature", "1", "--top-p", "0.5"}, "top_p: got 0.5"},
        {{"--temperature", "1", "--min-p", "0.5"}, "min_p: got 0.5"},
        {{"--logit-bias", "1:2"}, "logit_bias: got 1 entries"},
        {{"--repetition-penalty", "1.5"}, "--repetition-penalty"},
        {{"--acceptance", "typical"}, "--acceptance"},
        {{"--draft-sampling", "sampled"}, "--draft-sampling sampled"},
        {{"--adaptive"}, "--adaptive"},
        {{"--threads", "2"}, "--threads"},
        {{"--json", "--logprobs", "1"}, "--logprobs"},
        {{"--json", "--dump", "x"}, "--dump"},
        {{"--json", "--trace", "x"}, "--trace"},
    };
    for (const std::pair<arguments, std::string>& refusal : refusals) {
        const std::string& reason = refusal.second;
        CAPTURE(reason);
        CHECK(refused(run(simulated, with(start, refusal.first)), "dflash-generate", reason));
    }
    CHECK(refused(run(simulated, {"--backend", "cuda", "--demo"}), "dflash-generate", "--demo excludes"));
}

TEST_CASE("without a device: one line and status 3") {
    const outcome ran =
        run_line("DFLASH_SIMULATED_DEVICES=0 " + command_line(simulated, {"--backend", "cuda", "--prompt", "Add 1"}));
    CHECK(ran.status == 3);
    CHECK(ran.out.empty());
    CHECK(ran.err == "dflash-generate: error: cuda: no device was found\n");
}

TEST_CASE("a build without the backend says how to get it") {
    const outcome ran = run(plain, {"--backend", "cuda", "--prompt", "Add 1"});
    if (DFLASH_GENERATE_HAS_CUDA) {
        CHECK((ran.status == 0 || ran.status == 3));
    } else {
        CHECK(refused(ran, "dflash-generate", "this build has no CUDA backend; configure with cmake --preset cuda"));
    }
}

TEST_CASE("cpu is another name of exact") {
    CHECK(result_of(plain, {"--backend", "cpu", "--prompt", "Add 1", "--json", "--max-new-tokens", "3"}) ==
          result_of(plain, {"--prompt", "Add 1", "--json", "--max-new-tokens", "3"}));
}
