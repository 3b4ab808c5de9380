// dflash-generate --trace: the rounds of a run as a file that agrees with what the program says of the run.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"

using namespace dflash_test;
using nlohmann::json;

namespace {

const std::string program = DFLASH_GENERATE;

struct traced_run {
    json said;   // by --json
    json trace;  // by --trace
};

traced_run traced(arguments given) {
    const temp_folder folder;
    const std::string file = (folder.path() / "run.json").string();
    given.insert(given.end(), {"--threads", "1", "--json", "--trace", file});
    const outcome result = run(program, given);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return {json::parse(result.out), json::parse(read_file(file))};
}

json committed(const json& trace) {
    json out = json::array();
    for (const json& round : trace.at("rounds")) {
        out.insert(out.end(), round.at("committed").begin(), round.at("committed").end());
    }
    return out;
}

json lengths(const json& trace) {
    json out = json::array();
    for (std::size_t r = 1; r < trace.at("rounds").size(); ++r) {
        out.push_back(trace.at("rounds")[r].at("committed").size());
    }
    return out;
}

}  // namespace

TEST_CASE("--trace writes the tokens, rounds, caches and numbers of the run") {
    const traced_run run_of = traced({"--prompt", "Add 53 and 666.\n"});
    const json& trace = run_of.trace;
    CHECK(trace.at("format") == "dflash-trace 1");
    CHECK(trace.at("target") == "worked-problems/target");
    CHECK(trace.at("draft") == "worked-problems/draft");
    CHECK(trace.at("block_size") == 16);
    CHECK(trace.at("prompt") == run_of.said.at("prompt_tokens"));
    CHECK(committed(trace) == run_of.said.at("tokens"));
    CHECK(lengths(trace) == run_of.said.at("acceptance_lengths"));
    CHECK(trace.at("statistics").at("mean_acceptance_length") == run_of.said.at("mean_acceptance_length"));
    CHECK(trace.at("statistics").at("finish_reason") == "stop");
    CHECK(trace.at("statistics").at("seconds") == run_of.said.at("seconds"));
    CHECK(trace.at("pieces").at("38") == json({{"text", " columns"}}));
    CHECK(trace.at("pieces").at("1") == json({{"text", "<eot>"}, {"special", true}}));

    const json& rounds = trace.at("rounds");
    std::size_t held = trace.at("prompt").size();
    for (std::size_t r = 0; r < rounds.size(); ++r) {
        CAPTURE(r);
        const json& round = rounds[r];
        const std::size_t fresh = r == 0 ? held : round.at("committed").size();
        held += r == 0 ? 0 : fresh;
        CHECK(round.at("target_rows") == held);
        CHECK(round.at("draft_rows") == held);
        CHECK(round.at("fresh_rows") == fresh);
        CHECK(round.at("start") == (r == 0 ? 0 : held - fresh));
        const json anchor = r == 0 ? json(nullptr) : rounds[r - 1].at("committed").back();
        CHECK(round.at("anchor") == anchor);
        CHECK(round.at("posterior").size() == round.at("accepted").get<std::size_t>() + 1);
        CHECK(round.at("drafts").size() == (r == 0 ? 0 : 15));
    }
    // Round 4 ends with a correction; the target says in round 5 what stands behind the end of the text, too.
    CHECK(rounds[4].at("accepted") == 13);
    CHECK(rounds[4].at("posterior")[13] != rounds[4].at("drafts")[13]);
    CHECK(rounds[5].at("posterior").size() == rounds[5].at("committed").size() + 1);
}

TEST_CASE("--trace without a tokenizer, without rounds, without drafts") {
    const std::string base = std::string(DFLASH_TEST_DATA) + "/checkpoints/sliding-draft";
    const traced_run bare = traced(
        {"--target", base + "/target", "--draft", base + "/draft", "--tokens", "1,2,3", "--max-new-tokens", "9"});
    CHECK(bare.trace.at("pieces") == json::object());
    CHECK(bare.trace.at("target") == "sliding-draft/target");
    CHECK(committed(bare.trace) == bare.said.at("tokens"));

    const traced_run none = traced({"--prompt", "Add 1", "--max-new-tokens", "0"});
    CHECK(none.trace.at("rounds") == json::array());
    CHECK(none.trace.at("statistics").at("tokens") == 0);

    const traced_run plain = traced({"--prompt", "Add 1", "--max-new-tokens", "4", "--block-size", "1"});
    CHECK(plain.trace.at("block_size") == 1);
    CHECK(plain.trace.at("rounds").size() == 4);
    CHECK(plain.trace.at("rounds")[3].at("drafts") == json::array());
}

TEST_CASE("a token that is no whole number of characters is written as bytes") {
    const std::string pair = std::string(DFLASH_ROOT) + "/examples/models/prose-and-code";
    const traced_run run_of = traced({"--target", pair + "/target", "--draft", pair + "/draft", "--prompt",
                                      "\xE2\x82\xAC", "--max-new-tokens", "1"});
    std::string bytes;
    for (const json& id : run_of.trace.at("prompt")) {
        const json& piece = run_of.trace.at("pieces").at(std::to_string(id.get<int>()));
        CHECK_FALSE(piece.contains("text"));
        bytes += piece.at("bytes").get<std::string>();
    }
    CHECK(bytes == "e282ac");
}

TEST_CASE("--compare traces the run that is shown") {
    const traced_run run_of = traced({"--prompt", "Add 1", "--max-new-tokens", "5", "--compare"});
    CHECK(committed(run_of.trace) == run_of.said.at("tokens"));
    CHECK(run_of.trace.at("rounds").size() == run_of.said.at("acceptance_lengths").size() + 1);
}
