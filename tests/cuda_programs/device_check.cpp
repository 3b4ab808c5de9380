// What cuda-device-check makes of its findings: whatever goes wrong, nothing is called equal and nothing is lost.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "device_check/report.hpp"
#include "device_check/run_apart.hpp"
#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string program = DFLASH_DEVICE_CHECK_SIMULATED;

/// The lines of JSON that a report leaves.
template <class Use>
std::string lines_of(double seconds, Use use) {
    const temp_folder folder;
    const std::string path = folder.write("lines", "").string();
    {
        device_check::report out(path, seconds);
        use(out);
    }
    return read_file(path);
}

device_check::section_result shell(const std::string& script, double limit) {
    return device_check::run_apart("it", {"bash", "-c", script, "it"}, limit, "/bin/bash");
}

}  // namespace

TEST_CASE("only what was compared and equal holds") {
    const std::string lines = lines_of(100, [](device_check::report& out) {
        out.equality("same", 5, 0);
        CHECK(out.holds());
        out.equality("nothing", 0, 0);
        CHECK_FALSE(out.holds());
    });
    CHECK(lines ==
          "{\"what\": \"same\", \"compared\": 5, \"differing\": 0}\n"
          "{\"what\": \"nothing\", \"compared\": 0, \"differing\": 0}\n");
    lines_of(100, [](device_check::report& out) {
        out.equality("other", 5, 1);
        out.equality("same", 5, 0);
        CHECK_FALSE(out.holds());
    });
}

TEST_CASE("an exception is written down and what follows still runs; what there is no time for is left out") {
    const std::string lines = lines_of(100, [](device_check::report& out) {
        out.attempt("bad", [] { throw std::runtime_error("a \"reason\""); });
        CHECK_FALSE(out.holds());
        out.attempt("good", [&] { out.figures("good", {{"GB/s", 1.5}}); });
        CHECK(out.complete());
    });
    CHECK(lines ==
          "{\"what\": \"bad\", \"note\": \"failed: a \\\"reason\\\"\"}\n{\"what\": \"good\", \"GB/s\": 1.5}\n");
    lines_of(-1, [](device_check::report& out) {
        out.attempt("late", [] { FAIL("there was no time"); });
        CHECK_FALSE(out.complete());
    });
}

TEST_CASE("a section that crashes, hangs or fails keeps what it had written") {
    CHECK(shell("echo '{}' >$2", 10).status == "ok");
    CHECK(shell("echo '{}' >$2", 10).lines == std::vector<std::string>{"{}"});
    const auto crashed = shell("echo '{}' >$2; echo -n '{\"cut' >>$2; kill -SEGV $$", 10);
    CHECK(crashed.status == "ended by signal 11");
    CHECK(crashed.lines == std::vector<std::string>{"{}"});
    const auto hung = shell("echo '{}' >$2; exec sleep 100", 0.3);
    CHECK(hung.status == "ended: it took too long");
    CHECK(hung.lines.size() == 1);
    CHECK(hung.seconds < 20);
    CHECK(shell("exit 1", 10).status == "not all equal, or not all done");
}

TEST_CASE("small shapes in the simulator: all equal") {
    const temp_folder folder;
    const std::string json = folder.write("report.json", "").string();
    const std::string pair = std::string(DFLASH_MODELS) + "/worked-problems/";
    const outcome ran =
        run(program, {"--quick", "--json", json, "--target", pair + "target", "--draft", pair + "draft"});
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    const nlohmann::json found = nlohmann::json::parse(read_file(json));
    CHECK(found.at("good") == true);
    REQUIRE(found.at("sections").size() == 2);
    int equalities = 0;
    for (const nlohmann::json& section : found.at("sections")) {
        CHECK(section.at("status") == "ok");
        for (const nlohmann::json& row : section.at("rows")) {
            if (row.contains("differing")) {
                ++equalities;
                CHECK(row.at("differing") == 0);
            }
        }
    }
    CHECK(equalities >= 25);
}

TEST_CASE("what it cannot do is refused") {
    CHECK(run(program, {"--no-such-option", "1"}).status == 2);
    CHECK(run(program, {"--target", "x"}).status == 2);
    CHECK(run(program, {"--only", "x"}).status == 2);
    const outcome absent = run(program, {"--quick", "--only", "loop", "--target", "/no/such", "--draft", "/no/such"});
    CHECK(absent.status == 1);
    CHECK(contains(absent.out, "/no/such"));
}
