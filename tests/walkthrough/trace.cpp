// Traces: one that dflash-generate wrote is read, one that contradicts itself is refused by the name of the field.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"
#include "walkthrough/html.hpp"
#include "walkthrough/trace_file.hpp"

namespace dflash::test {
namespace {

using namespace dflash_test;
using nlohmann::ordered_json;

const std::string program = DFLASH_WALKTHROUGH;

/// Two rounds behind a prompt of three: one with a correction, one whose end cuts what was accepted.
ordered_json small_trace() {
    return ordered_json::parse(R"({
        "format": "dflash-trace 1", "target": "a", "draft": "b", "block_size": 4, "prompt": [1, 2, 3],
        "rounds": [
            {"start": 0, "anchor": null, "drafts": [], "posterior": [4], "accepted": 0, "committed": [4],
             "target_rows": 3, "draft_rows": 3, "fresh_rows": 3},
            {"start": 3, "anchor": 4, "drafts": [5, 6, 7], "posterior": [5, 6, 8], "accepted": 2, "committed": [5, 6, 8],
             "target_rows": 6, "draft_rows": 6, "fresh_rows": 3},
            {"start": 6, "anchor": 8, "drafts": [9, 0, 9], "posterior": [9, 0, 9, 5], "accepted": 3, "committed": [9, 0],
             "target_rows": 8, "draft_rows": 8, "fresh_rows": 2}],
        "pieces": {},
        "statistics": {"tokens": 6, "rounds": 2, "mean_acceptance_length": 2.5, "slot_drafted": [2, 2, 2],
                       "slot_accepted": [2, 2, 0], "finish_reason": "stop",
                       "seconds": {"prefill": 0.1, "draft": 0.2, "verify": 0.3, "sample": 0, "total": 0.7}}})");
}

struct damage {
    std::string name;
    std::function<void(ordered_json&)> done;
    std::string reason;
};

std::string refusal_of(const std::string& text) {
    try {
        static_cast<void>(walkthrough::parse_trace("run.json", text));
    } catch (const io_error& refusal) {
        return refusal.what();
    }
    return "not refused";
}

}  // namespace

TEST_CASE("a trace in agreement with itself is read as it is") {
    const ordered_json trace = small_trace();
    CHECK(walkthrough::parse_trace("run.json", trace.dump()) == trace);
    ordered_json empty = trace;  // --max-new-tokens 0
    empty["rounds"] = ordered_json::array();
    empty["statistics"] = {{"tokens", 0},
                           {"rounds", 0},
                           {"mean_acceptance_length", 0},
                           {"slot_drafted", ordered_json::array()},
                           {"slot_accepted", ordered_json::array()},
                           {"finish_reason", "length"},
                           {"seconds", trace["statistics"]["seconds"]}};
    CHECK_NOTHROW(static_cast<void>(walkthrough::parse_trace("run.json", empty.dump())));
    ordered_json behind = trace;  // the draft's context ended before the text
    behind["rounds"][2]["draft_rows"] = 6;
    behind["rounds"][2]["fresh_rows"] = 0;
    CHECK_NOTHROW(static_cast<void>(walkthrough::parse_trace("run.json", behind.dump())));
}

TEST_CASE("a trace that contradicts itself is refused, and the field is named") {
    const auto in_round = [](std::size_t r, const char* key, ordered_json value) {
        return [=](ordered_json& trace) { trace["rounds"][r][key] = value; };
    };
    const auto in_statistics = [](const char* key, ordered_json value) {
        return [=](ordered_json& trace) { trace["statistics"][key] = value; };
    };
    const auto at_top = [](const char* key, ordered_json value) {
        return [=](ordered_json& trace) { trace[key] = value; };
    };
    std::vector<damage> all = {
        {"format", at_top("format", "dflash-trace 2"), "format: is \"dflash-trace 2\", needs \"dflash-trace 1\""},
        {"format", at_top("format", 1), "format: is 1, needs a string"},
        {"target", at_top("target", nullptr), "target: is null, needs a string"},
        {"draft", at_top("draft", 3), "draft: is 3, needs a string"},
        {"block size", at_top("block_size", 0), "block_size: is 0, needs a whole number 1 .."},
        {"block size", at_top("block_size", 3), "rounds[1].drafts: has 3 tokens, a block of 3 has room for 2"},
        {"prompt", at_top("prompt", ordered_json::array()), "prompt: is empty"},
        {"prompt", at_top("prompt", {1, "x", 3}), "prompt[1]: is \"x\", needs a whole number"},
        {"prompt", at_top("prompt", {1, 2.5, 3}), "prompt[1]: is 2.5"},
        {"prompt", at_top("prompt", {1, -2, 3}), "prompt[1]: is -2"},
        {"prompt", at_top("prompt", {1, 99999999999999999999.0, 3}), "prompt[1]: is 1e+20"},
        {"prompt", at_top("prompt", {1, 18446744073709551615U, 3}), "prompt[1]: is 18446744073709551615"},
        {"prompt", at_top("prompt", {1, 2}), "rounds[0].target_rows: is 3, needs 2"},
        {"rounds", at_top("rounds", 2), "rounds: is 2, needs an array"},
        {"rounds", at_top("rounds", {1}), "rounds[0]: is 1, needs an object"},
        {"prefill", in_round(0, "start", 1), "rounds[0].start: is 1, needs 0"},
        {"prefill", in_round(0, "anchor", 1), "rounds[0].anchor: needs null"},
        {"prefill", in_round(0, "drafts", {1}), "rounds[0].drafts: needs none"},
        {"start", in_round(1, "start", 4), "rounds[1].start: is 4, needs 3"},
        {"start", in_round(2, "start", 7), "rounds[2].start: is 7, needs 6"},
        {"anchor", in_round(1, "anchor", 5), "rounds[1].anchor: is 5, needs 4"},
        {"anchor", in_round(2, "anchor", nullptr), "rounds[2].anchor: is null, needs a whole number"},
        {"accepted", in_round(1, "accepted", 4), "rounds[1].accepted: is 4, there are 3 drafts"},
        {"accepted", in_round(1, "accepted", -1), "rounds[1].accepted: is -1"},
        {"accepted", in_round(1, "accepted", "2"), "rounds[1].accepted: is \"2\""},
        {"accepted", in_round(1, "accepted", 1), "rounds[1].posterior: has 3 tokens, needs 2"},
        {"match", in_round(1, "drafts", {5, 7, 7}),
         "rounds[1].accepted: is 2, but draft 1 is 7 and the posterior says 6"},
        {"match", in_round(1, "drafts", {5, 6, 8}),
         "rounds[1].accepted: is 2, but draft 2 is 8 and the posterior says 8"},
        {"committed", in_round(1, "committed", {5, 6, 7}),
         "rounds[1].committed: needs the first tokens of the posterior"},
        {"committed", in_round(1, "committed", {5, 6, 8, 9}), "rounds[1].committed: needs the first tokens"},
        {"committed", in_round(1, "committed", {5, 6}), "rounds[1].committed: has 2 of 3 tokens, and only the last"},
        {"committed", in_round(2, "committed", ordered_json::array()), "rounds[2].committed: needs"},
        {"rows", in_round(1, "target_rows", 7), "rounds[1].target_rows: is 7, needs 6"},
        {"rows", in_round(1, "draft_rows", 7), "rounds[1].draft_rows: is 7, needs 3 .. 6"},
        {"rows", in_round(1, "draft_rows", 2), "rounds[1].draft_rows: is 2, needs 3 .. 6"},
        {"rows", in_round(1, "fresh_rows", 4), "rounds[1].fresh_rows: is 4, needs 3"},
        {"pieces", at_top("pieces", ordered_json::array()), "pieces: needs an object"},
        {"pieces", at_top("pieces", {{"1", {{"text", "x"}}}}), "pieces: has none for token 2"},
        {"pieces", at_top("pieces", {{"1", "x"}}), "pieces.1: needs an object"},
        {"pieces", at_top("pieces", {{"1", {{"text", 1}}}}), "pieces.1.text: is 1, needs a string"},
        {"pieces", at_top("pieces", {{"1", {{"special", 1}}}}), "pieces.1.special: needs true or false"},
        {"tokens", in_statistics("tokens", 7), "statistics.tokens: is 7, needs 6"},
        {"rounds", in_statistics("rounds", 3), "statistics.rounds: is 3, needs 2"},
        {"mean", in_statistics("mean_acceptance_length", 3), "statistics.mean_acceptance_length: is 3.0, needs 2.5"},
        {"slots", in_statistics("slot_drafted", {2, 2}), "statistics.slot_drafted: is [2,2], needs [2,2,2]"},
        {"slots", in_statistics("slot_accepted", {2, 2, 1}), "statistics.slot_accepted: is [2,2,1], needs [2,2,0]"},
        {"reason", in_statistics("finish_reason", "bored"), "statistics.finish_reason: is \"bored\""},
        {"seconds", in_statistics("seconds", 1), "statistics.seconds: is 1, needs an object"},
        {"seconds", in_statistics("seconds", {{"prefill", -1}}), "statistics.seconds.prefill: is -1"},
        {"seconds", [](ordered_json& t) { t["statistics"]["seconds"]["tea"] = "x"; },
         "statistics.seconds.tea: is \"x\""},
    };
    for (const char* key : {"format", "target", "draft", "block_size", "prompt", "rounds", "pieces", "statistics"}) {
        all.push_back({key, [key](ordered_json& t) { t.erase(key); }, std::string(key) + ": is missing"});
    }
    for (const auto& entry : small_trace()["rounds"][1].items()) {
        all.push_back({entry.key(), [key = entry.key()](ordered_json& t) { t["rounds"][1].erase(key); },
                       "rounds[1]." + entry.key() + ": is missing"});
    }
    for (const auto& entry : small_trace()["statistics"].items()) {
        all.push_back({entry.key(), [key = entry.key()](ordered_json& t) { t["statistics"].erase(key); },
                       "statistics." + entry.key() + ": is missing"});
    }
    for (const damage& one : all) {
        ordered_json trace = small_trace();
        one.done(trace);
        INFO(one.name, ", expected: ", one.reason);
        const std::string refusal = refusal_of(trace.dump());
        CHECK_MESSAGE(refusal.starts_with("run.json: " + one.reason), refusal);
    }
}

TEST_CASE("what is no JSON object is refused") {
    const std::string whole = small_trace().dump();
    for (const std::string& text : {std::string(), std::string("{"), whole.substr(0, whole.size() / 2), whole + "}",
                                    std::string("{\"format\": \"\xFF\"}")}) {
        CHECK(contains(refusal_of(text), "run.json: is no JSON: "));
    }
    CHECK(refusal_of("[1]").starts_with("run.json: the trace: is [1], needs an object"));
    CHECK(refusal_of("null").starts_with("run.json: the trace: is null"));
}

TEST_CASE("the data of a page cannot end the element that holds them") {
    const std::string html = walkthrough::page_around("A title", {{"format", "</script><!-- <b>"}});
    const std::size_t at = html.find("id=\"data\">");
    REQUIRE(at != std::string::npos);
    const std::string data = html.substr(at + 10, html.find("</script>", at) - at - 10);
    CHECK_FALSE(contains(data, "<"));
    CHECK(ordered_json::parse(data).at("format") == "</script><!-- <b>");
    CHECK(contains(html, "<title>A title</title>"));
    CHECK_FALSE(contains(html, "@title@"));
    CHECK_FALSE(contains(html, "@data@"));
}

TEST_CASE("dflash-walkthrough draws a run that dflash-generate traced") {
    const temp_folder folder;
    const std::string trace = (folder.path() / "run.json").string();
    const std::string page = (folder.path() / "run.html").string();
    const outcome made =
        run(DFLASH_GENERATE, {"--prompt", "Add 53 and 666.\n", "--threads", "1", "--json", "--trace", trace});
    REQUIRE_MESSAGE(made.status == 0, made.err);
    const outcome shown = run(program, {"--from", trace, "--html", page});
    CHECK_MESSAGE(shown.status == 0, shown.err);
    CHECK(shown.out == page + ": 72 tokens in 5 rounds\n");
    CHECK(contains(read_file(page), "worked-problems/target"));
    CHECK_FALSE(contains(read_file(page), folder.path().string()));
}

TEST_CASE("a sampled run agrees with itself, too") {
    const temp_folder folder;
    const std::string trace = (folder.path() / "run.json").string();
    for (const char* seed : {"1", "2", "3"}) {
        const outcome made = run(DFLASH_GENERATE, {"--prompt", "Add 53 and 666.\n", "--threads", "1", "--json",
                                                   "--trace", trace, "--temperature", "3", "--seed", seed});
        REQUIRE_MESSAGE(made.status == 0, made.err);
        const ordered_json read = walkthrough::read_trace(trace);
        CHECK(read.at("rounds").size() > 2);
    }
}

TEST_CASE("dflash-walkthrough refuses what it cannot draw, and writes nothing then") {
    const temp_folder folder;
    const std::string good = folder.write("good.json", small_trace().dump()).string();
    ordered_json wrong = small_trace();
    wrong["rounds"][1]["accepted"] = 4;
    const std::string bad = folder.write("bad.json", wrong.dump()).string();
    const std::string page = (folder.path() / "page.html").string();
    struct refusal {
        arguments given;
        std::string reason;
    };
    const std::vector<refusal> refusals = {
        {{"--from", good}, "--html"},
        {{"--from", good, "--html", page, "--cast", "seed"}, "--cast excludes --from"},
        {{"--from", good, "--html", page, "--mistake", "no-mask"}, "--mistake excludes --from"},
        {{"--from", good, "--html", page, "--json", "x"}, "--json excludes --from"},
        {{"--from", good, "--html", page, "--list-mistakes"}, "--list-mistakes excludes --from"},
        {{"--from", bad, "--html", page}, "bad.json: rounds[1].accepted: is 4, there are 3 drafts"},
        {{"--from", "/no/such/file", "--html", page}, "/no/such/file: cannot read: No such file"},
        {{"--from", "/", "--html", page}, "/: cannot read: Is a directory"},
        {{"--from", good, "--html", "/no/such/page"}, "/no/such/page: cannot write: No such file"},
        {{"--from", good, "--html", "/dev/full"}, "/dev/full: cannot write: No space left"},
        {{"--html", "/no/such/page"}, "/no/such/page: cannot write: No such file"},
        {{"--html", ""}, "cannot write"},
        {{"--html", page, "--mistake", "all"}, "--mistake all"},
        {{"--html", page, "--mistake", "none"}, "--mistake: got \"none\""},
        {{"--html", page, "--cast", "nobody"}, "--cast: got \"nobody\""},
    };
    for (const refusal& expected : refusals) {
        INFO(command_line("", expected.given));
        const outcome got = run(program, expected.given);
        INFO(got.err);
        CHECK(refused(got, "dflash-walkthrough", expected.reason));
        CHECK_FALSE(std::filesystem::exists(page));
    }
}

}  // namespace dflash::test
