// The shipped pairs: the tokens and acceptance lengths of problems, and the golden tensors of prose-and-code.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include <dflash/cpu/exact.hpp>
#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/drafters/dflash.hpp>
#include <dflash/front/model_pair.hpp>
#include <dflash/io/safetensors.hpp>
#include <dflash/numerics/digest.hpp>

#include "support/golden.hpp"

namespace dflash::test {
namespace {

std::string models(const char* pair) {
    return std::string(DFLASH_MODELS) + "/" + pair;
}

std::vector<token_id> prompt_of(const nlohmann::json& problem) {
    return problem.at("prompt_ids").get<std::vector<token_id>>();
}

std::vector<token_id> tokens_of(const nlohmann::json& problem) {
    return problem.at("tokens").get<std::vector<token_id>>();
}

generation_limits limits_of(const nlohmann::json& problem) {
    generation_limits limits;
    limits.max_new_tokens = problem.at("max_new_tokens").get<index>();
    return limits;
}

/// The right tokens, up to the stop token, in rounds of the right lengths for the pair's block.
void check_problem(model_pair<cpu::exact>& pair, const nlohmann::json& problem) {
    const generation_result result = pair.generate(prompt_of(problem), limits_of(problem));
    INFO("block " << pair.block_size() << ": " << problem.at("prompt").get<std::string>());
    CHECK(result.tokens == tokens_of(problem));
    CHECK(result.reason == finish_reason::stop);
    for (const nlohmann::json& run : problem.at("runs")) {
        if (run.at("block_size").get<index>() == pair.block_size()) {
            CHECK(result.stats.acceptance_lengths == run.at("acceptance_lengths").get<std::vector<index>>());
        }
    }
}

TEST_CASE("worked-problems: tokens and acceptance lengths of all problems, block 8 and 16") {
    const nlohmann::json problems = read_json(std::string(DFLASH_TEST_DATA) + "/models/worked-problems/problems.json");
    CHECK(problems.size() == 45);
    for (const index block : {8, 16}) {
        pair_options options;
        options.block_size = block;
        model_pair<cpu::exact> pair(models("worked-problems") + "/target", models("worked-problems") + "/draft",
                                    options);
        for (const nlohmann::json& problem : problems) {
            check_problem(pair, problem);
            if (block == 16) {
                CHECK(pair.generate_serial(prompt_of(problem), limits_of(problem)).tokens == tokens_of(problem));
            }
        }
    }
}

TEST_CASE("problems-and-records: tokens and acceptance lengths of some problems, block 8 and 16") {
    const nlohmann::json problems =
        read_json(std::string(DFLASH_TEST_DATA) + "/models/problems-and-records/problems.json");
    CHECK(problems.size() == 16);
#if defined(__SANITIZE_ADDRESS__)
    const std::size_t every = 16;  // the smaller pairs walk through the same code
#else
    const std::size_t every = 1;
#endif
    for (const index block : {8, 16}) {
        pair_options options;
        options.block_size = block;
        model_pair<cpu::exact> pair(models("problems-and-records") + "/target",
                                    models("problems-and-records") + "/draft", options);
        for (std::size_t i = 0; i < problems.size(); i += every) {
            check_problem(pair, problems[i]);
        }
    }
}

TEST_CASE("sampled text: the same tokens in blocks as one by one, and on every machine") {
    const std::vector<token_id> prompt = {124, 4, 116, 114, 21, 4, 117, 117, 117, 110, 3};
    generation_limits limits;
    limits.max_new_tokens = 120;
    numerics::digest texts;
    for (const index block : {1, 5, 16}) {
        pair_options options;
        options.block_size = block;
        options.sampling = {.temperature = 1.4F, .top_k = 40, .top_p = 0.98F};
        model_pair<cpu::exact> pair(models("worked-problems") + "/target", models("worked-problems") + "/draft",
                                    options);
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            const generation_result result = pair.generate(prompt, limits, noise_key{seed});
            CHECK(result.tokens == pair.generate_serial(prompt, limits, noise_key{seed}).tokens);
            if (block == 16) {
                for (const token_id token : result.tokens) {
                    texts.add(static_cast<std::uint64_t>(token));
                }
            }
        }
    }
    CHECK(texts.value() == 0xff0167e3f9af90e5U);  // if it changes, sampled texts do: CHANGELOG.md says so under "Bits"
}

TEST_CASE("prose-and-code: tokens and acceptance lengths at block 4, 8 and 16") {
    const std::string folder = std::string(DFLASH_TEST_DATA) + "/models/prose-and-code/";
    const nlohmann::json golden = read_json(folder + "golden.json");
    index compared = 0;
    for (const nlohmann::json& sample : golden.at("cases")) {
        const auto prompt = sample.at("prompt").get<std::vector<token_id>>();
        auto expected = sample.at("greedy_ids").get<std::vector<token_id>>();
        expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
        for (const nlohmann::json& run : sample.at("runs")) {
            const auto block = run.at("block").get<index>();
            pair_options options;
            options.block_size = block;
            options.stop_at_eos = false;
            model_pair<cpu::exact> pair(models("prose-and-code") + "/target", models("prose-and-code") + "/draft",
                                        options);
            generation_limits limits;
            limits.max_new_tokens = sample.at("new_tokens").get<index>();
            const generation_result result = pair.generate(prompt, limits);
            INFO(sample.at("file").get<std::string>() << ", block " << block);
            expected.resize(result.tokens.size());
            CHECK(result.tokens == expected);
            CHECK(static_cast<index>(result.tokens.size()) == limits.max_new_tokens);
            // The reference never shortens a block, so its last rounds may reach past the budget.
            std::vector<index> lengths = run.at("acceptance_lengths").get<std::vector<index>>();
            index left = limits.max_new_tokens - 1;
            for (index& length : lengths) {
                length = (std::min)(length, left);
                left -= length;
            }
            CHECK(same_lengths(result.stats.acceptance_lengths, lengths, block, limits.max_new_tokens));
            ++compared;
        }
    }
    CHECK(compared == 12);
}

/// The tensor of a golden file as rows; a vector has one row.
std::vector<std::vector<double>> rows_of(const io::safetensors_file& file, const std::string& name) {
    const io::stored_tensor& tensor = file.at(name);
    const std::vector<double> flat = io::read_f64(tensor);
    const index cols = tensor.shape.back();
    std::vector<std::vector<double>> rows;
    for (auto at = flat.begin(); at != flat.end(); at += cols) {
        rows.emplace_back(at, at + cols);
    }
    return rows;
}

TEST_CASE("prose-and-code: golden tensors of prefill and of the first two rounds") {
    const std::string folder = std::string(DFLASH_TEST_DATA) + "/models/prose-and-code/";
    const nlohmann::json golden = read_json(folder + "golden.json");
    const io::pair_checkpoint loaded =
        io::load_pair(models("prose-and-code") + "/target", models("prose-and-code") + "/draft");
    using target = target_transformer<cpu::exact, cpu::exact, cpu::exact::cache_type, keep_all>;
    using draft = draft_transformer<cpu::exact, cpu::exact, cpu::exact::cache_type, keep_all>;
    using drafter_type = dflash_drafter<draft, target, keep_all>;
    double worst = 0;
    for (const nlohmann::json& sample : golden.at("cases")) {
        const io::safetensors_file file(folder + sample.at("file").get<std::string>());
        keep_all::store of_target;
        keep_all::store of_draft;
        target model(loaded.target.shape, loaded.target.weights, loaded.draft.shape.taps, {}, {}, keep_all(of_target));
        draft small(loaded.draft.shape, loaded.draft.weights, {}, {}, keep_all(of_draft));
        drafter_type drafter(small, model, keep_all(of_draft));
        speculative_decoder<target, drafter_type, greedy, sample_and_match, fixed_block, keep_all> decoder(
            model, drafter, fixed_block(loaded.draft.shape.block_size), {}, {}, keep_all(of_draft));
        const auto prompt = sample.at("prompt").get<std::vector<token_id>>();
        generation_limits limits;
        limits.max_new_tokens = 24;
        decoder.prime(prompt, limits);
        const auto check = [&](const std::vector<std::vector<float>>& got, const std::string& name) {
            const double error = relative_error(got, rows_of(file, name));
            INFO(sample.at("file").get<std::string>() << ": " << name << ", error " << error);
            CHECK(error < 1e-4);
            worst = (std::max)(worst, error);
        };
        for (index l = 0; l < loaded.target.shape.layers; ++l) {
            check(find_seen(of_target.tensors, "hidden", l, 0).rows, "target_layer" + std::to_string(l));
        }
        decoder.step();
        decoder.step();
        for (index round = 0; round < 2; ++round) {
            const std::string prefix = "round" + std::to_string(round) + ".";
            check(find_seen(of_draft.tensors, "context", -1, round).rows, prefix + "C");
            for (index l = 0; l < loaded.draft.shape.layers; ++l) {
                check(find_seen(of_draft.tensors, "hidden", l, round).rows, prefix + "draft_layer" + std::to_string(l));
            }
            check(find_seen(of_draft.tensors, "draft_logits", -1, round).rows, prefix + "draft_logits");
            check(of_draft.verify_logits.at(static_cast<std::size_t>(round)), prefix + "target_logits");
        }
        auto cache = model.make_cache(static_cast<index>(prompt.size()));
        const auto m = static_cast<index>(prompt.size());
        buffer<float> logits(m * model.vocab_size());
        buffer<float> features(m * model.feature_size());
        model.forward(prompt, cache, {logits.matrix(m, model.vocab_size()), features.matrix(m, model.feature_size())});
        check(copy_rows(logits.matrix(m, model.vocab_size())), "target_all_logits");
        check(copy_rows(features.matrix(m, model.feature_size())), "prompt_features");
    }
    MESSAGE("largest relative error against float64: " << worst);
}

}  // namespace
}  // namespace dflash::test
