// dflash-generate, dflash-verify and the sampling programs at temperature: the same text both ways, seeds,
// log-probabilities, and what is refused.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string problem = "Add 53 and 666.\n";

arguments with(arguments more) {
    arguments all = {"--prompt", problem, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

nlohmann::json generated(const arguments& more) {
    const outcome result = run(DFLASH_GENERATE, with(more));
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("with any option the output is that of serial decoding") {
    const std::vector<arguments> options = {
        {"--temperature", "1.3", "--seed", "11"},
        {"--temperature", "0.8", "--top-k", "20", "--draft-sampling", "argmax"},
        {"--temperature", "1.5", "--top-p", "0.95", "--min-p", "0.01", "--draft-sampling", "sampled"},
        {"--temperature", "1", "--repetition-penalty", "1.2", "--frequency-penalty", "0.2", "--presence-penalty",
         "0.1"},
        {"--logit-bias", "38:-inf", "--logit-bias", "52:2.5", "--block-size", "5"},
    };
    for (arguments more : options) {
        more.insert(more.end(), {"--compare", "--max-new-tokens", "60"});
        const nlohmann::json said = generated(more);
        CHECK(said.at("identical") == true);
        CHECK(said.at("tokens") == said.at("serial").at("tokens"));
    }
}

TEST_CASE("the seed decides the text, the block size does not") {
    const auto text = [](const char* seed, const char* block) {
        return generated({"--temperature", "2", "--seed", seed, "--block-size", block}).at("tokens");
    };
    const nlohmann::json first = text("18446744073709551615", "16");
    CHECK(text("18446744073709551615", "3") == first);
    CHECK(text("0", "16") != first);
}

TEST_CASE("log-probabilities: one for each token, the same both ways, of the raw law") {
    for (const char* temperature : {"0", "1.4"}) {
        const arguments options = {"--temperature", temperature, "--logprobs", "3", "--logit-bias", "38:1"};
        arguments serial = options;
        serial.emplace_back("--serial");
        const nlohmann::json said = generated(options);
        CHECK(said.at("logprobs") == generated(serial).at("logprobs"));
        REQUIRE(said.at("logprobs").size() == said.at("tokens").size());
        for (std::size_t i = 0; i < said.at("tokens").size(); ++i) {
            const nlohmann::json& entry = said.at("logprobs")[i];
            CHECK(entry.at("token") == said.at("tokens")[i]);
            const auto chosen = entry.at("logprob").get<double>();
            REQUIRE(entry.at("top").size() == 3);
            const auto best = entry.at("top")[0].at("logprob").get<double>();
            CHECK(chosen <= best);
            CHECK(best <= 0);
            CHECK(std::exp(best) + std::exp(entry.at("top")[1].at("logprob").get<double>()) < 1.000001);
        }
    }
    CHECK_FALSE(generated({}).contains("logprobs"));
}

TEST_CASE("rejection and typical acceptance run, and give other tokens than match") {
    const nlohmann::json match = generated({"--temperature", "2.5", "--seed", "4"}).at("tokens");
    const nlohmann::json rejection =
        generated({"--temperature", "2.5", "--seed", "4", "--acceptance", "rejection"}).at("tokens");
    CHECK(rejection != match);
    CHECK(rejection == generated({"--temperature", "2.5", "--seed", "4", "--acceptance", "rejection"}).at("tokens"));
    CHECK(generated({"--temperature", "2.5", "--seed", "4", "--acceptance", "typical"}).at("tokens") != match);
    // At temperature 0 every rule is greedy.
    CHECK(generated({"--acceptance", "rejection"}).at("tokens") == generated({}).at("tokens"));
}

TEST_CASE("what makes no sense is refused") {
    const auto refuses = [](const arguments& more, const char* reason) {
        const outcome result = run(DFLASH_GENERATE, with(more));
        CAPTURE(result.err);
        CHECK(refused(result, "dflash-generate", reason));
    };
    refuses({"--temperature", "-1"}, "temperature: got -1");
    refuses({"--temperature", "nan"}, "temperature: got nan");
    refuses({"--temperature", "1", "--top-p", "0"}, "top_p: got 0");
    refuses({"--temperature", "1", "--min-p", "2"}, "min_p: got 2");
    refuses({"--top-k", "-3"}, "needs a whole number 0 ..");
    refuses({"--top-k", "3"}, "have no effect at --temperature 0");
    refuses({"--seed", "x"}, "--seed: got \"x\"");
    refuses({"--seed", "18446744073709551616"}, "--seed: got \"18446744073709551616\"");
    refuses({"--logit-bias", "5"}, "--logit-bias: got \"5\"");
    refuses({"--logit-bias", "5:x"}, "--logit-bias: got \"5:x\"");
    refuses({"--logit-bias", "5:1", "--logit-bias", "5:2"}, "logit_bias: token 5 is given twice");
    refuses({"--logit-bias", "157:1"}, "logit_bias: token 157 is outside the vocabulary of 157");
    refuses({"--repetition-penalty", "0"}, "repetition_penalty: got 0");
    refuses({"--acceptance", "rejection", "--draft-sampling", "coupled"}, "--draft-sampling coupled");
    refuses({"--acceptance", "typical", "--compare"}, "--compare needs --acceptance match");
    refuses({"--acceptance", "rejection", "--trace", "/dev/null"}, "--trace needs --acceptance match");
    refuses({"--presence-penalty", "1", "--trace", "/dev/null"}, "--trace needs --acceptance match and no penalties");
    refuses({"--serial", "--acceptance", "match"}, "--serial excludes");
    const outcome plain = run(DFLASH_GENERATE, {"--prompt", problem, "--logprobs", "2"});
    CHECK(refused(plain, "dflash-generate", "--json"));
}

TEST_CASE("dflash-verify at temperature") {
    const outcome result = run(DFLASH_VERIFY, {"--temperature", "1.2", "--top-p", "0.9", "--seed", "9", "--block-sizes",
                                               "1,7,16", "--threads", "1", "--max-new-tokens", "40"});
    CHECK(result.status == 0);
    CHECK(contains(result.out, "EQUAL: 3 of 3 settings"));
}

TEST_CASE("dflash-constrained: the text matches and is the serial one") {
    const outcome result =
        run(DFLASH_CONSTRAINED, {"--regex", "(Ones: [0-9]+\\.\\n)+Answer: [0-9]{3}", "--temperature", "1"});
    CHECK(result.status == 0);
    CHECK(contains(result.out, "the same as token by token: yes"));
    CHECK(contains(result.out, "ended by: stop"));
    CHECK(result.out.starts_with("Ones: "));
    CHECK(refused(run(DFLASH_CONSTRAINED, {"--regex", "(a"}), "dflash-constrained", "--regex: "));
}

TEST_CASE("dflash-acceptance: shares that are shares") {
    const outcome result = run(DFLASH_ACCEPTANCE, {"--seeds", "1", "--max-new-tokens", "12", "--temperature", "1"});
    CHECK(result.status == 0);
    const std::size_t row = result.out.find("| worked-problems | 1.0 | ");
    REQUIRE(row != std::string::npos);
    std::vector<double> cells;
    std::string cell;
    for (const char c : result.out.substr(row + 26)) {
        if (c == '|') {
            cells.push_back(std::stod(cell));
            cell.clear();
        } else {
            cell += c;
        }
    }
    REQUIRE(cells.size() == 10);  // slots, five shares, four lengths
    CHECK(cells[0] > 100);
    for (std::size_t i = 1; i < 6; ++i) {
        CHECK(cells[i] > 20);
        CHECK(cells[i] <= 100);
    }
    CHECK(cells[3] <= cells[1]);  // what coupling promises is below the optimum
    CHECK(cells[5] <= cells[1]);  // so is what independent draws reach
    for (std::size_t i = 6; i < 10; ++i) {
        CHECK(cells[i] > 1);
        CHECK(cells[i] <= 16);
    }
    CHECK(refused(run(DFLASH_ACCEPTANCE, {"--prompts", "/no/such/file"}), "dflash-acceptance", "/no/such/file"));
}
