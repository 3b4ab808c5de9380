// dflash-generate does what its options say: against the right answers of the shipped pair and the small checkpoints.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <dflash/io/safetensors.hpp>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"

using namespace dflash_test;
using nlohmann::json;

namespace {

const std::string program = DFLASH_GENERATE;

json parsed(const outcome& result) {
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.err.empty());
    REQUIRE(result.out.find('\n') == result.out.size() - 1);
    return json::parse(result.out);
}

std::string joined_ids(const json& ids) {
    std::string text;
    for (const json& id : ids) {
        text += (text.empty() ? "" : ",");
        text += std::to_string(id.get<int>());
    }
    return text;
}

json golden(const std::string& name) {
    return json::parse(read_file(std::filesystem::path(DFLASH_TEST_DATA) / name));
}

arguments golden_pair(const std::string& folder) {
    const std::string base = std::string(DFLASH_TEST_DATA) + "/checkpoints/" + folder;
    return {"--target", base + "/target", "--draft", base + "/draft", "--threads", "1", "--json"};
}

arguments plus(arguments all, const arguments& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

/// max |a - b| / max |b|
double relative_error(const std::vector<double>& got, const json& rows) {
    double error = 0;
    double largest = 0;
    std::size_t i = 0;
    for (const json& row : rows) {
        for (const json& value : row) {
            REQUIRE(i < got.size());
            error = (std::max)(error, std::abs(got[i] - value.get<double>()));
            largest = (std::max)(largest, std::abs(value.get<double>()));
            ++i;
        }
    }
    REQUIRE(i == got.size());
    REQUIRE(largest > 0);
    return error / largest;
}

const arguments question = {"--prompt", "Add 53 and 666.\n", "--threads", "1"};

}  // namespace

TEST_CASE("by default the shipped pair solves problems, with the right tokens, text and acceptance lengths") {
    const json problems = golden("models/worked-problems/problems.json");
    for (const std::size_t number : {0U, 7U, 16U, 22U, 31U, 44U}) {
        const json& problem = problems.at(number);
        INFO(problem.at("prompt").get<std::string>());
        for (const json& run_of : problem.at("runs")) {
            const json got = parsed(run(program, {"--prompt", problem.at("prompt"), "--threads", "1", "--json",
                                                  "--block-size", std::to_string(run_of.at("block_size").get<int>())}));
            CHECK(got.at("prompt_tokens") == problem.at("prompt_ids"));
            CHECK(got.at("tokens") == problem.at("tokens"));
            CHECK(got.at("text") == problem.at("text"));
            CHECK(got.at("acceptance_lengths") == run_of.at("acceptance_lengths"));
            CHECK(got.at("finish_reason") == "stop");
        }
    }
}

TEST_CASE("the object of --json holds what it should, and its numbers fit together") {
    const json got = parsed(run(program, plus(question, {"--json"})));
    double sum = 0;
    for (const json& length : got.at("acceptance_lengths")) {
        sum += length.get<double>();
    }
    CHECK(sum + 1 == static_cast<double>(got.at("tokens").size()));
    const auto rounds = static_cast<double>(got.at("acceptance_lengths").size());
    CHECK(got.at("mean_acceptance_length").get<double>() == doctest::Approx(sum / rounds));
    double seconds = 0;
    for (const char* part : {"prefill", "draft", "verify", "sample"}) {
        CHECK(got.at("seconds").at(part).get<double>() > 0);
        seconds += got.at("seconds").at(part).get<double>();
    }
    CHECK(got.at("seconds").at("total").get<double>() >= seconds);
    CHECK_FALSE(got.contains("serial"));
}

TEST_CASE("a prompt comes as text, as a file, from standard input, or as ids, and is the same") {
    const temp_folder folder;
    const std::string file = folder.write("prompt.txt", "Add 53 and 666.\n").string();
    const json expected = parsed(run(program, plus(question, {"--json"})));
    for (const outcome& other :
         {run(program, {"--prompt-file", file, "--threads", "1", "--json"}),
          run(program, {"--prompt-file", "-", "--threads", "1", "--json"}, "Add 53 and 666.\n"),
          run(program, {"--tokens", "124,4,116, 114,21,4,117,117,117,110,3", "--threads", "1", "--json"})}) {
        const json got = parsed(other);
        CHECK(got.at("prompt_tokens") == expected.at("prompt_tokens"));
        CHECK(got.at("tokens") == expected.at("tokens"));
    }
}

TEST_CASE("words that are not in the vocabulary are noticed, on standard error") {
    const outcome result = run(program, {"--prompt", "Add my 53 and 666.\n", "--threads", "1", "--json"});
    CHECK(result.status == 0);
    CHECK(json::parse(result.out).at("prompt_tokens").at(1) == 0);
    CHECK(contains(result.err, "dflash-generate: note: "));
    CHECK(result.err.find('\n') == result.err.size() - 1);
}

TEST_CASE("small checkpoints without a tokenizer: right tokens for their ids, and no text") {
    for (const char* folder : {"qwen3-untied", "qwen3-tied-bf16", "llama3-rope", "sliding-draft"}) {
        const json expected = golden(std::string("checkpoints/") + folder + "/expected.json");
        for (const json& run_of : expected.at("runs")) {
            CAPTURE(folder);
            arguments given =
                plus(golden_pair(folder), {"--tokens", joined_ids(run_of.at("prompt")), "--max-new-tokens",
                                           std::to_string(run_of.at("max_new_tokens").get<int>()), "--block-size",
                                           std::to_string(run_of.at("block_size").get<int>())});
            if (!run_of.at("stop").is_null()) {
                for (const json& token : run_of.at("stop")) {
                    given = plus(given, {"--stop-token", std::to_string(token.get<int>())});
                }
            }
            const json got = parsed(run(program, given));
            CHECK(got.at("tokens") == run_of.at("tokens"));
            CHECK_FALSE(got.contains("text"));
            const json serial = parsed(run(program, plus(given, {"--serial"})));
            CHECK(serial.at("tokens") == run_of.at("tokens"));
        }
    }
}

TEST_CASE("--dump writes the tensors of the first round") {
    const temp_folder folder;
    const std::string file = (folder.path() / "round.safetensors").string();
    for (const char* name : {"qwen3-untied", "qwen3-tied-bf16", "llama3-rope", "sliding-draft"}) {
        CAPTURE(name);
        const json expected = golden(std::string("checkpoints/") + name + "/expected.json").at("runs").at(0);
        parsed(run(program,
                   plus(golden_pair(name), {"--tokens", joined_ids(expected.at("prompt")), "--block-size",
                                            std::to_string(expected.at("block_size").get<int>()), "--dump", file})));
        const dflash::io::safetensors_file dump{std::filesystem::path(file)};
        CHECK(dump.tensors().size() == 3);
        for (const char* tensor : {"context_features", "draft_logits", "verify_logits"}) {
            CAPTURE(tensor);
            const json& rows = expected.at("first_round").at(tensor);
            const dflash::io::stored_tensor& stored = dump.at(tensor);
            CHECK(stored.type == "F32");
            CHECK(stored.shape == std::vector<dflash::index>{static_cast<dflash::index>(rows.size()),
                                                             static_cast<dflash::index>(rows.at(0).size())});
            CHECK(relative_error(dflash::io::read_f64(stored), rows) < 1e-4);
        }
    }
}

TEST_CASE("a target without a draft decodes serially") {
    const std::string target = std::string(DFLASH_TEST_DATA) + "/checkpoints/qwen3-untied/target";
    const json got = parsed(run(program, {"--target", target, "--serial", "--tokens", "1,2,3", "--max-new-tokens", "5",
                                          "--threads", "1", "--json"}));
    CHECK(got.at("tokens") == json({5, 2, 2, 2, 2}));
    CHECK(got.at("acceptance_lengths") == json({1, 1, 1, 1}));
    CHECK(got.at("seconds").at("draft") == 0.0);
}

TEST_CASE("--max-new-tokens ends the text, at 0 before the first token") {
    for (const std::size_t most : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
        const json got =
            parsed(run(program, plus(question, {"--json", "--compare", "--max-new-tokens", std::to_string(most)})));
        CHECK(got.at("tokens").size() == most);
        CHECK(got.at("finish_reason") == "length");
        CHECK(got.at("identical") == true);
    }
    CHECK(run(program, plus(question, {"--max-new-tokens", "0"})).status == 0);
}

TEST_CASE("--stop-token may be repeated, adds to the end token of the model, and --ignore-eos leaves that out") {
    const json got = parsed(run(program, plus(question, {"--json", "--stop-token", "145", "--stop-token", "83"})));
    CHECK(got.at("tokens") == json({124, 96, 38, 52, 96, 83}));
    CHECK(got.at("finish_reason") == "stop");
    const json on = parsed(run(program, plus(question, {"--json", "--ignore-eos", "--max-new-tokens", "90"})));
    CHECK(on.at("tokens").size() == 90);
    CHECK(on.at("finish_reason") == "length");
}

TEST_CASE("--compare decodes both ways and finds them equal") {
    const json got = parsed(run(program, plus(question, {"--json", "--compare"})));
    CHECK(got.at("identical") == true);
    CHECK(got.at("serial").at("tokens") == got.at("tokens"));
    CHECK(got.at("serial").at("seconds").at("draft") == 0.0);
    const double ratio =
        got.at("serial").at("seconds").at("total").get<double>() / got.at("seconds").at("total").get<double>();
    CHECK(got.at("speed_ratio").get<double>() == doctest::Approx(ratio));
}

TEST_CASE("threads do not change the tokens") {
    const json one = parsed(run(program, plus(question, {"--json"})));
    const json two = parsed(run(program, {"--prompt", "Add 53 and 666.\n", "--threads", "2", "--json"}));
    CHECK(one.at("tokens") == two.at("tokens"));
    CHECK(one.at("acceptance_lengths") == two.at("acceptance_lengths"));
}
