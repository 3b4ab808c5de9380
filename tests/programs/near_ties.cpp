// A model where nearly every choice is a near tie: blocks and single rows agree in the exact backend, and the programs
// say so when they do not, as with Eigen's products.
#include <bit>
#include <cstdint>
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

const std::filesystem::path shipped = std::filesystem::path(DFLASH_MODELS) / "worked-problems";

std::vector<float> values_of(const dflash::io::stored_tensor& tensor) {
    std::vector<float> values;
    for (const double value : dflash::io::read_f64(tensor)) {
        values.push_back(static_cast<float>(value));
    }
    return values;
}

/// The shipped target with a twin for every token, whose embedding differs in the last bit of some elements.
void write_pair(const temp_folder& folder) {
    const dflash::io::safetensors_file source(shipped / "target" / "model.safetensors");
    dflash::io::safetensors_writer target;
    for (const dflash::io::stored_tensor& tensor : source.tensors()) {
        std::vector<float> values = values_of(tensor);
        std::vector<dflash::index> shape = tensor.shape;
        if (tensor.name == "model.embed_tokens.weight") {
            const std::size_t half = values.size();
            std::uint32_t noise = 1;
            for (std::size_t i = 0; i < half; ++i) {
                noise = noise * 1664525U + 1013904223U;
                values.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i]) ^ (noise >> 31U)));
            }
            shape[0] *= 2;
        }
        target.add(tensor.name, shape, values);
    }
    for (const char* part : {"target", "draft"}) {
        json config = json::parse(read_file(shipped / part / "config.json"));
        config["vocab_size"] = 2 * config.at("vocab_size").get<int>();
        folder.write(std::filesystem::path(part) / "config.json", config.dump());
    }
    target.write(folder.path() / "target" / "model.safetensors");
    std::filesystem::copy_file(shipped / "draft" / "model.safetensors", folder.path() / "draft" / "model.safetensors");
}

}  // namespace

TEST_CASE("near ties: the exact backend stays equal, a difference is reported with status 1") {
    const temp_folder folder;
    write_pair(folder);
    const arguments pair = {"--target",  (folder.path() / "target").string(),
                            "--draft",   (folder.path() / "draft").string(),
                            "--threads", "1"};
    arguments verify = pair;
    verify.insert(verify.end(), {"--block-sizes", "3,16", "--max-new-tokens", "10"});
    const outcome equal = run(DFLASH_VERIFY, verify);
    CHECK(equal.status == 0);
    CHECK(contains(equal.out, "EQUAL: 2 of 2 settings"));

    verify.insert(verify.end(), {"--backend", "reference"});
    const outcome different = run(DFLASH_VERIFY, verify);
    CHECK(different.status == 1);
    CHECK(different.err.empty());
    for (const char* part : {"DIFFERENT: 0 of 2 settings", "first difference: prompt ", "position ",
                             "serial: ", "speculative: ", " ulps apart"}) {
        CHECK_MESSAGE(contains(different.out, part), different.out);
    }

    arguments compare = pair;
    compare.insert(compare.end(), {"--tokens", "124,4,116,114,21,4,117,117,117,110,3", "--ignore-eos",
                                   "--max-new-tokens", "16", "--block-size", "4", "--compare"});
    CHECK(run(DFLASH_GENERATE, compare).status == 0);
    compare.insert(compare.end(), {"--backend", "reference"});
    const outcome table = run(DFLASH_GENERATE, compare);
    CHECK(table.status == 1);
    CHECK(contains(table.out, "outputs identical: no\n"));
    compare.emplace_back("--json");
    const outcome object = run(DFLASH_GENERATE, compare);
    CHECK(object.status == 1);
    const json parsed = json::parse(object.out);
    CHECK(parsed.at("identical") == false);
    CHECK(parsed.at("tokens") != parsed.at("serial").at("tokens"));
}
