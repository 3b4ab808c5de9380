// dflash-generate refuses what it cannot do: status 2, one clear line on standard error, nothing on standard output.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "programs/run_program.hpp"

using namespace dflash_test;

namespace {

const std::string program = DFLASH_GENERATE;
const std::string bare = std::string(DFLASH_TEST_DATA) + "/checkpoints/qwen3-untied";

struct refusal {
    arguments given;
    std::string reason;
};

}  // namespace

TEST_CASE("usage and configuration") {
    const temp_folder folder;
    const std::string broken =
        folder.write("target/config.json", "{ \"model_type\": \"qwen3\",").parent_path().string();
    const std::vector<refusal> refusals = {
        {{}, "there is no prompt"},
        {{"--no-such-option"}, "--no-such-option"},
        {{"--prompt", "Add 1", "--tokens", "1"}, "--prompt"},
        {{"--prompt", "Add 1", "--prompt-file", "x"}, "--prompt"},
        {{"--prompt"}, "--prompt"},
        {{"--prompt", ""}, "prompt: it is empty"},
        {{"--tokens", ""}, "--tokens: entry 1"},
        {{"--tokens", "1,x"}, "--tokens: entry 2 is \"x\""},
        {{"--tokens", "1,"}, "--tokens: entry 2"},
        {{"--tokens", "1,-2"}, "--tokens: entry 2 is \"-2\""},
        {{"--tokens", "1,99999999999999999999"}, "--tokens: entry 2"},
        {{"--tokens", "1,157"}, "token 1 is 157, the vocabulary is 0 .. 156"},
        {{"--prompt", "Add \xFF"}, "not valid UTF-8 at byte 4"},
        {{"--prompt", "Add 1", "--max-new-tokens", "-1"}, "--max-new-tokens: got \"-1\""},
        {{"--prompt", "Add 1", "--max-new-tokens", "many"}, "--max-new-tokens: got \"many\""},
        {{"--prompt", "Add 1", "--max-new-tokens", "1e3"}, "--max-new-tokens"},
        {{"--prompt", "Add 1", "--max-new-tokens", "0x10"}, "--max-new-tokens"},
        {{"--prompt", "Add 1", "--max-new-tokens", "99999999999999999999"}, "--max-new-tokens"},
        {{"--prompt", "Add 1", "--block-size", "0"}, "--block-size: got \"0\", needs a whole number 1 .."},
        {{"--prompt", "Add 1", "--threads", "0"}, "--threads"},
        {{"--prompt", "Add 1", "--threads", "2.5"}, "--threads"},
        {{"--prompt", "Add 1", "--stop-token", "-1"}, "--stop-token"},
        {{"--prompt", "Add 1", "--stop-token", "157"}, "stop_tokens: token 0 is 157"},
        {{"--prompt", "Add 1", "--backend", "fast"}, "--backend"},
        {{"--prompt", "Add 1", "--activation", "half"}, "--activation"},
        {{"--prompt", "Add 1", "--activation", "bf16", "--backend", "reference"}, "activation: got bf16"},
        {{"--prompt", "Add 1", "--serial", "--compare"}, "--serial excludes --compare"},
        {{"--prompt", "Add 1", "--serial", "--dump", "x"}, "--serial excludes --dump"},
        {{"--prompt", "Add 1", "--max-new-tokens", "1", "--json", "--dump", "x"}, "--dump: no round had drafts"},
        {{"--prompt", "Add 1", "--json", "--dump", "/no/such/folder/x"}, "/no/such/folder/x"},
        {{"--prompt", "Add 1", "--serial", "--trace", "x"}, "--serial excludes --trace"},
        {{"--prompt", "Add 1", "--json", "--trace", "/no/such/folder/x"}, "/no/such/folder/x: cannot write: No such"},
        {{"--prompt", "Add 1", "--json", "--trace", "/dev/full"}, "/dev/full: cannot write: No space left"},
        {{"--demo", "--trace", "x"}, "--demo excludes --trace"},
        {{"--prompt-file", "/no/such/file"}, "/no/such/file: cannot read: No such file"},
        {{"--prompt-file", "/"}, "/: cannot read: Is a directory"},
        {{"--prompt", "Add 1", "--target", "/no/such/folder", "--serial"}, "/no/such/folder"},
        {{"--tokens", "1", "--target", broken, "--serial"}, "config.json"},
        {{"--prompt", "Add 1", "--draft", "/no/such/draft"}, "/no/such/draft"},
        {{"--tokens", "1", "--draft", bare + "/draft"}, "draft"},
        {{"--tokens", "1", "--target", bare + "/target"}, "there is no draft for this target"},
        {{"--prompt", "Add 1", "--target", bare + "/target", "--draft", bare + "/draft"},
         "--prompt: " + bare + "/target has no tokenizer.json"},
        {{"--prompt-file", "-", "--target", bare + "/target", "--serial"}, "--prompt-file: "},
        {{"--demo", "--json"}, "--demo excludes --json"},
        {{"--demo", "--prompt", "Add 1"}, "--demo"},
        {{"--demo", "--target", "x"}, "--demo"},
    };
    for (const refusal& expected : refusals) {
        INFO(command_line("", expected.given));
        const outcome got = run(program, expected.given);
        INFO(got.err);
        CHECK(refused(got, "dflash-generate", expected.reason));
    }
}

TEST_CASE("a full disk is an error, a reader that has had enough is none") {
    const std::string line = command_line(program, {"--prompt", "Add 53 and 666.\n", "--threads", "1"});
    const outcome full = run_line(line + " >/dev/full");
    CHECK(refused(full, "dflash-generate", "standard output: cannot write: No space left"));
    const outcome left = run_line("{ " + line + "; echo status $? >&2; } | true");
    CHECK(left.err == "status 0\n");
}
