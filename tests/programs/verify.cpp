// dflash-verify: its table, its prompts, its refusals. What it says about a difference is tested in near_ties.cpp.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string program = DFLASH_VERIFY;
const std::string bare = std::string(DFLASH_TEST_DATA) + "/checkpoints/sliding-draft";

}  // namespace

TEST_CASE("the shipped pair is equal for every block size and thread count") {
    const outcome result = run(program, {"--block-sizes", "1,5,16", "--threads", "1,2", "--max-new-tokens", "24"});
    INFO(result.out);
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    CHECK(contains(result.out, "5 prompts, at most 24 new tokens each, backend exact\n"));
    CHECK(contains(result.out, "EQUAL: 6 of 6 settings give the tokens and the bits of serial decoding\n"));
    CHECK(contains(result.out, "\n      5         2      120 "));
}

TEST_CASE("prompts from a file or standard input, as text or ids; arbitrary ones for any other model") {
    const temp_folder folder;
    const std::string texts = folder.write("texts", "Add 53 and 666.\n\nWhat is 602 - 43?").string();
    const arguments quick = {"--block-sizes", "4", "--threads", "1", "--max-new-tokens", "9"};
    const auto with = [&quick](arguments more) {
        more.insert(more.end(), quick.begin(), quick.end());
        return more;
    };
    CHECK(contains(run(program, with({"--prompts", texts})).out, "2 prompts, "));
    CHECK(contains(run(program, with({"--prompts", "-", "--ids"}), "1,2,3\n4,5\n6\n").out, "3 prompts, "));
    const outcome any = run(program, with({"--target", bare + "/target", "--draft", bare + "/draft"}));
    CHECK(any.status == 0);
    CHECK(contains(any.out, "4 prompts, "));
    CHECK(contains(any.out, "EQUAL: 1 of 1 settings"));
    const outcome bits = run(program, with({"--backend", "reference"}));
    CHECK(bits.status == 1);
    CHECK(contains(bits.out, "DIFFER"));
}

TEST_CASE("the bf16 tier is equal too and says that it is used") {
    const arguments quick = {"--block-sizes", "1,5", "--threads", "1,2", "--max-new-tokens", "24", "--activation"};
    const auto with = [&quick](const std::string& activation) {
        arguments all = quick;
        all.push_back(activation);
        return run(program, all);
    };
    const outcome result = with("bf16");
    INFO(result.out);
    CHECK(result.status == 0);
    CHECK(contains(result.out, "5 prompts, at most 24 new tokens each, backend exact, activations bf16\n"));
    CHECK(contains(result.out, "EQUAL: 4 of 4 settings"));
    CHECK(contains(with("f32").out, "backend exact\n"));
}

TEST_CASE("usage and configuration: status 2 and one line") {
    struct refusal {
        arguments given;
        std::string reason;
    };
    const temp_folder folder;
    const std::string empty = folder.write("empty", "\n\n").string();
    const std::string texts = folder.write("texts", "Add\n").string();
    const std::vector<refusal> refusals = {
        {{"--block-sizes", "0"}, "--block-sizes: got \"0\""},
        {{"--block-sizes", "1,x"}, "--block-sizes: got \"x\""},
        {{"--threads", "-1"}, "--threads"},
        {{"--max-new-tokens", "x"}, "--max-new-tokens"},
        {{"--target", bare + "/target"}, "give --target and --draft together"},
        {{"--target", "/no/such", "--draft", bare + "/draft"}, "/no/such"},
        {{"--prompts", "/no/such"}, "/no/such: cannot read"},
        {{"--prompts", empty}, "holds no prompt"},
        {{"--prompts", texts, "--ids"}, "entry 1 is \"Add\""},
        {{"--prompts", texts, "--target", bare + "/target", "--draft", bare + "/draft"}, "has no tokenizer.json"},
        {{"--ids"}, "--prompts"},
        {{"--activation", "f16"}, "--activation"},
        {{"--activation", "bf16", "--backend", "reference"}, "activation: got bf16, this backend has f32 only"},
        {{"left-over"}, "left-over"},
    };
    for (const refusal& expected : refusals) {
        INFO(command_line("", expected.given));
        const outcome got = run(program, expected.given);
        INFO(got.err);
        CHECK(refused(got, "dflash-verify", expected.reason));
    }
}

TEST_CASE("--help names every option and its default") {
    const outcome help = run(program, {"--help"});
    CHECK(help.status == 0);
    for (const char* part : {"--target", "--draft", "--prompts", "--block-sizes", "1,2,4,8,16", "--threads", "1,2",
                             "--max-new-tokens", "128", "--backend", "--activation"}) {
        CHECK_MESSAGE(contains(help.out, part), part);
    }
}
