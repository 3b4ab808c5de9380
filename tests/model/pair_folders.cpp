// A pair of checkpoint folders through the ready-made front: which of two statements counts in a draft's configuration,
// and which tokens end a text.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/front/model_pair.hpp>
#include <dflash/io/load.hpp>

#include "io/crafted.hpp"

namespace dflash::test {
namespace {

using io_test::contains;
using io_test::json;
using io_test::tiny_pair;
using ids = std::vector<token_id>;

TEST_CASE("mask_token_id and target_layer_ids: dflash_config counts, the top level where it is silent") {
    tiny_pair p;  // dflash_config says 9 and [1, 4]
    const auto says = [&](token_id mask, const std::vector<index>& taps) {
        const draft_shape shape = p.draft_shape();
        CHECK(shape.mask_token == mask);
        CHECK(shape.taps == taps);
    };
    p.draft_config["mask_token_id"] = 9;
    p.draft_config["target_layer_ids"] = {1, 4};
    says(9, {1, 4});
    p.draft_config["mask_token_id"] = 3;
    p.draft_config["target_layer_ids"] = {0, 2};
    says(9, {1, 4});
    p.draft_config["target_layer_ids"] = {0, 2, 5};  // nor does their number count
    says(9, {1, 4});
    p.draft_config["dflash_config"]["mask_token_id"] = nullptr;
    says(3, {1, 4});
    p.draft_config["dflash_config"].erase("target_layer_ids");
    says(3, {0, 2, 5});
    p.draft_config.erase("dflash_config");
    p.draft_config["block_size"] = 4;
    says(3, {0, 2, 5});
}

TEST_CASE("a refused statement is named where it stands") {
    tiny_pair p;
    p.draft_config["mask_token_id"] = 10;
    p.draft_config["target_layer_ids"] = {6};
    CHECK(p.draft_shape().mask_token == 9);  // nobody asked the top level
    p.draft_config["dflash_config"].erase("mask_token_id");
    CHECK(contains(p.draft_refusal(), "config.json: mask_token_id: got 10, needs an integer in 0 .. 9"));
    p.draft_config["dflash_config"]["mask_token_id"] = 11;
    CHECK(contains(p.draft_refusal(), "config.json: dflash_config.mask_token_id: got 11"));
    p.draft_config["dflash_config"]["mask_token_id"] = 0;
    p.draft_config["dflash_config"].erase("target_layer_ids");
    CHECK(contains(p.draft_refusal(), "config.json: target_layer_ids[0]: got 6, needs an integer in 0 .. 5"));
}

/// All tokens are equally likely in a crafted pair, so that sampled texts hold every one of them.
model_pair<cpu::exact> load(const tiny_pair& p, bool stop_at_eos) {
    pair_options options;
    options.stop_at_eos = stop_at_eos;
    options.sampling = {.temperature = 1};
    return {p.target_folder().string(), p.draft_folder().string(), options};
}

/// The text up to the first of these tokens, it included.
ids up_to_first(const ids& text, const ids& ends) {
    const auto at = std::find_first_of(text.begin(), text.end(), ends.begin(), ends.end());
    return {text.begin(), at == text.end() ? at : at + 1};
}

TEST_CASE("each end token of either configuration ends the text, in blocks and one by one") {
    tiny_pair p;
    p.target_config["eos_token_id"] = {7, 3};
    p.generation_config = {{"eos_token_id", {5, 7, 1}}};
    p.write();
    model_pair<cpu::exact> stopping = load(p, true);
    model_pair<cpu::exact> running = load(p, false);
    CHECK(stopping.target().shape().eos_tokens == ids{1, 3, 5, 7});
    const ids prompt = {7, 3, 5, 1};  // end tokens in a prompt end nothing
    generation_limits limits;
    limits.max_new_tokens = 40;
    std::map<token_id, index> ended;
    index inside = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        const noise_key key{seed};
        const generation_result whole = running.generate(prompt, limits, key);
        CHECK(whole.tokens.size() == 40);
        CHECK(whole.reason == finish_reason::length);
        CHECK(running.generate_serial(prompt, limits, key).tokens == whole.tokens);
        const ids text = up_to_first(whole.tokens, {1, 3, 5, 7});
        REQUIRE(text.size() < 40);
        const generation_result in_blocks = stopping.generate(prompt, limits, key);
        const generation_result one_by_one = stopping.generate_serial(prompt, limits, key);
        CHECK(in_blocks.tokens == text);
        CHECK(in_blocks.reason == finish_reason::stop);
        CHECK(one_by_one.tokens == text);
        CHECK(one_by_one.reason == finish_reason::stop);
        ++ended[text.back()];
        inside += in_blocks.stats.accepted > 0 ? 1 : 0;
    }
    for (const token_id end : {1, 3, 5, 7}) {
        CHECK(ended[end] > 0);
    }
    CHECK(inside > 10);
}

TEST_CASE("stop tokens of the caller and those of the checkpoint, together and alone") {
    tiny_pair p;
    p.target_config["eos_token_id"] = 7;
    p.generation_config = {{"eos_token_id", 3}};
    p.write();
    model_pair<cpu::exact> stopping = load(p, true);
    model_pair<cpu::exact> running = load(p, false);
    const tiny_pair without;  // the same weights, no end tokens
    without.write();
    model_pair<cpu::exact> endless = load(without, true);
    const ids prompt = {0};
    generation_limits open;
    open.max_new_tokens = 60;
    generation_limits limits = open;
    limits.stop_tokens = {3, 2};
    CHECK(stopping.with_eos(limits).stop_tokens == ids{3, 2, 7});
    CHECK(running.with_eos(limits).stop_tokens == ids{3, 2});
    index by_end_token = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        const noise_key key{seed};
        const ids whole = endless.generate(prompt, open, key).tokens;
        CHECK(whole.size() == 60);
        CHECK(running.generate(prompt, open, key).tokens == whole);
        CHECK(running.generate(prompt, limits, key).tokens == up_to_first(whole, {2, 3}));
        const ids text = up_to_first(whole, {2, 3, 7});
        CHECK(stopping.generate(prompt, limits, key).tokens == text);
        by_end_token += text.back() == 7 ? 1 : 0;
    }
    CHECK(by_end_token > 0);
}

}  // namespace
}  // namespace dflash::test
