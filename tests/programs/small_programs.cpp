// hello and plug_in_engine.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "programs/run_program.hpp"

using namespace dflash_test;

TEST_CASE("hello prints the tokens of the shipped pair") {
    const std::string expected =
        "124 96 38 52 96 83 110 3 145 121 4 114 6 4 117 9 4 120 109 106 4 120 109 35 4 111 110 3 149 121 4 116 6 4 117 "
        "9 "
        "4 112 112 109 106 4 112 109 35 4 112 110 3 142 121 4 117 6 4 112 9 4 118 109 106 4 118 110 3 126 121 4 118 "
        "112 "
        "120 1 \n14.20 tokens a round\n";
    const outcome here = run_line("cd " + in_quotes(DFLASH_ROOT) + " && " + in_quotes(DFLASH_HELLO));
    CHECK(here.status == 0);
    CHECK(here.out == expected);
    const outcome named = run(DFLASH_HELLO, {std::string(DFLASH_MODELS) + "/worked-problems"});
    CHECK(named.out == expected);
    CHECK(refused(run(DFLASH_HELLO, {"/no/such/folder"}), "hello", "/no/such/folder"));
}

TEST_CASE("plug_in_engine: a foreign engine is decoded without loss") {
    const outcome result = run(DFLASH_PLUG_IN_ENGINE, {});
    CHECK(result.status == 0);
    CHECK(result.out.starts_with("EQUAL: 600 tokens of 3 prompts, "));
    CHECK(std::stod(result.out.substr(result.out.find("prompts, ") + 9)) > 1.5);  // the drafts do count
    const std::string text = result.out.substr(result.out.find('\n') + 1);
    CHECK(std::count(text.begin(), text.end(), ' ') == 20);
    CHECK(text.ends_with(" \n"));
}
