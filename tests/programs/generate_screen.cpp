// What dflash-generate shows: the demo, the table, colour on a terminal and only there, bars that the locale can show.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string program = DFLASH_GENERATE;
const std::string line = command_line(program, {"--prompt", "Solve 7 * x + 34 = 118.\n", "--threads", "1"});
const std::string text =
    "Subtract 34 from both sides: 7 * x = 118 - 34 = 84.\nDivide both sides by 7: x = 84 / 7 = 12.\n"
    "Check: 7 * 12 = 84.\nAnswer: x = 12\n";
const char escape = '\x1b';

std::size_t count(const std::string& all, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) {
        ++found;
    }
    return found;
}

}  // namespace

TEST_CASE("the text, then the table; no colour when it goes elsewhere than to a terminal") {
    const outcome result = run_line(line);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(result.out.starts_with(text));
    CHECK(result.out.find(escape) == std::string::npos);
    for (const char* part : {"tokens ", "rounds ", "mean acceptance ", "8.62", "rounds by acceptance length", "prefill",
                             "draft", "verify", "tokens per second"}) {
        CHECK_MESSAGE(contains(result.out, part), part);
    }
    CHECK_FALSE(contains(result.out, "outputs identical"));

    const outcome compared = run_line(line + " --compare");
    CHECK(compared.status == 0);
    CHECK(contains(compared.out, "ratio "));
    CHECK(contains(compared.out, "outputs identical: yes\n"));

    const outcome serial = run_line(line + " --serial");
    CHECK(serial.out.starts_with(text));
    CHECK_FALSE(contains(serial.out, "acceptance"));
}

TEST_CASE("colour tells drafted tokens from corrections, where it is wanted") {
    const std::string drafted = " \x1b[32msides\x1b[0m";
    const std::string corrected = " \x1b[1;4;33m8\x1b[0m\x1b[1;4;33m4\x1b[0m";
    const outcome forced = run_line(line + " --color always");
    CHECK(contains(forced.out, drafted));
    CHECK(contains(forced.out, corrected));
    const outcome terminal = run_on_terminal("TERM=xterm " + line);
    CHECK(contains(terminal.out, drafted));
    CHECK(contains(terminal.out, corrected));
    for (const std::string& refusal : {"NO_COLOR=1 TERM=xterm " + line, "TERM=dumb " + line, line + " --color never"}) {
        const outcome plain = run_on_terminal(refusal);
        CHECK(plain.status == 0);
        CHECK(contains(plain.out, "Answer: x = 12"));
        CHECK(plain.out.find(escape) == std::string::npos);
    }
    CHECK(contains(run_on_terminal("NO_COLOR= TERM=xterm " + line).out, "\x1b["));
}

TEST_CASE("bars are block characters in a UTF-8 locale and ASCII elsewhere") {
    const outcome plain = run_line("LC_ALL=C " + line);
    CHECK(contains(plain.out, " ### 1\n"));
    for (const char c : plain.out) {
        REQUIRE(static_cast<unsigned char>(c) < 0x80);
    }
    if (run_line("locale -a | grep -qix 'C.utf-\\?8'").status == 0) {
        CHECK(contains(run_line("LC_ALL=C.UTF-8 " + line).out, " \xE2\x96\x88\xE2\x96\x88\xE2\x96\x88 1\n"));
    }
}

TEST_CASE("the demo solves, checks and compares") {
    const outcome demo = run(program, {"--demo", "--threads", "1"});
    INFO(demo.out);
    CHECK(demo.status == 0);
    CHECK(demo.err.empty());
    CHECK(demo.out.find(escape) == std::string::npos);
    CHECK(contains(demo.out, "answer: 150 cakes, correct\n"));
    CHECK(contains(demo.out, "answer: the text above, correct\n"));
    CHECK(count(demo.out, "outputs identical: yes\n") == 3);
    CHECK(contains(demo.out, "prose-and-code"));
    CHECK(contains(demo.out, " and with the wall of her husband."));

    // Its problems are ones the models were not trained on.
    std::ifstream held_out(std::filesystem::path(DFLASH_TEST_DATA) / "models/problems-and-records/held_out.jsonl");
    int shown = 0;
    for (std::string record; std::getline(held_out, record);) {
        const nlohmann::json problem = nlohmann::json::parse(record);
        const nlohmann::json& answer = problem.at("answer");
        const std::string right = answer.is_null() ? problem.at("solution").get<std::string>() + '\n'
                                                   : "answer: " + answer.get<std::string>() + ", correct\n";
        shown +=
            contains(demo.out, problem.at("question").get<std::string>() + '\n') && contains(demo.out, right) ? 1 : 0;
    }
    CHECK(shown == 2);
}

TEST_CASE("the demo on a terminal: colours, and the same text by serial decoding") {
    const outcome demo =
        run_on_terminal("TERM=xterm " + command_line(program, {"--demo", "--threads", "1", "--pace", "1"}));
    CHECK(demo.status == 0);
    CHECK(contains(demo.out, "\x1b[1;4;33m"));
    CHECK(contains(demo.out, "by serial decoding"));
    CHECK(contains(demo.out, "Jack has 150 cakes at the end."));
}

TEST_CASE("--help names every option and its default") {
    const outcome help = run(program, {"--help"});
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    for (const char* part :
         {"--target", "--draft", "worked-problems", "--prompt ", "--prompt-file", "--tokens", "--max-new-tokens", "256",
          "--block-size", "--stop-token", "--threads", "--serial", "--compare", "--json", "--dump", "--demo"}) {
        CHECK_MESSAGE(contains(help.out, part), part);
    }
}
