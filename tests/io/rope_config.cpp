#include <dflash/io/rope_config.hpp>

#include "io/crafted.hpp"

using namespace io_test;
using dflash::config_error;
using dflash::numerics::rope_parameters;
using dflash::numerics::rope_scaling_kind;

namespace {

rope_parameters read(const std::string& text) {
    const auto root = dflash::io::parse_json(text, "config.json");
    return dflash::io::read_rope(dflash::io::json_fields("config.json", root));
}

std::string refused(const std::string& text) {
    return message_of<config_error>([&] { static_cast<void>(read(text)); });
}

}  // namespace

TEST_CASE("rope_theta is found in each of its places") {
    CHECK(read(R"({"rope_theta": 1000000})").theta == 1e6);
    CHECK(read(R"({"rope_theta": 500000.0, "rope_scaling": null})").theta == 5e5);
    CHECK(read(R"({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}})").theta == 1e6);
    CHECK(read(R"({"rope_parameters": {"rope_theta": 1e6}})").theta == 1e6);
    CHECK(read(R"({"rope_scaling": {"rope_theta": 1e6, "type": "linear", "factor": 2}})").theta == 1e6);
    CHECK(
        read(R"({"rope_theta": 1e6, "rope_parameters": {"rope_theta": 1000000}, "rope_scaling": {"rope_theta": 1e6}})")
            .theta == 1e6);
    CHECK(read("{}").theta == 10000.0);  // the documented default, when no place states it
    CHECK(read(R"({"rope_parameters": {}})").theta == 10000.0);
    CHECK(read("{}").kind == rope_scaling_kind::none);
}

TEST_CASE("places that disagree on rope_theta are refused with both numbers") {
    CHECK(refused(R"({"rope_theta": 10000.0, "rope_parameters": {"rope_theta": 1000000}})") ==
          "config.json: rope_parameters.rope_theta is 1e+06, but config.json: rope_theta is 10000");
    CHECK(contains(refused(R"({"rope_theta": 5e5, "rope_scaling": {"rope_theta": 250000, "type": "default"}})"),
                   "rope_theta is 5e+05, but config.json: rope_scaling.rope_theta is 250000"));
    CHECK(contains(refused(R"({"rope_parameters": {"rope_theta": 2}, "rope_scaling": {"rope_theta": 3}})"),
                   "rope_parameters.rope_theta is 2, but config.json: rope_scaling.rope_theta is 3"));
    for (const char* bad : {"1", "0", "-10000", "\"1e6\"", "true", "[1]"}) {
        CAPTURE(bad);
        CHECK(contains(refused(std::string(R"({"rope_theta": )") + bad + "}"), "config.json: rope_theta: got "));
    }
}

TEST_CASE("the scalings are read with all their keys, in the new place and the old") {
    for (const std::string place : {"rope_parameters", "rope_scaling"}) {
        const auto in = [&](const std::string& body) { return "{\"" + place + "\": {" + body + "}}"; };
        rope_parameters r = read(in(R"("rope_type": "linear", "factor": 2.5)"));
        CHECK(r.kind == rope_scaling_kind::linear);
        CHECK(r.factor == 2.5);
        r = read(in(R"("type": "linear", "factor": 4)"));
        CHECK(r.factor == 4.0);
        r = read(in(R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 4.5,
                       "original_max_position_embeddings": 8192)"));
        CHECK(r.kind == rope_scaling_kind::llama3);
        CHECK(r.factor == 8.0);
        CHECK(r.low_freq_factor == 1.5);
        CHECK(r.high_freq_factor == 4.5);
        CHECK(r.original_max_position == 8192.0);
        r = read(in(R"("rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768)"));
        CHECK(r.kind == rope_scaling_kind::yarn);
        CHECK(r.factor == 4.0);
        CHECK(r.original_max_position == 32768.0);
        CHECK(r.attention_factor == 0.0);
        CHECK(r.beta_fast == 32.0);
        CHECK(r.beta_slow == 1.0);
        CHECK(r.mscale == 0.0);
        CHECK(r.mscale_all_dim == 0.0);
        CHECK(r.truncate);
        r = read(in(R"("type": "yarn", "rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 16,
                       "attention_factor": 1.25, "beta_fast": 16, "beta_slow": 2, "mscale": 0.5, "mscale_all_dim": 0.75,
                       "truncate": false)"));
        CHECK(r.attention_factor == 1.25);
        CHECK(r.beta_fast == 16.0);
        CHECK(r.beta_slow == 2.0);
        CHECK(r.mscale == 0.5);
        CHECK(r.mscale_all_dim == 0.75);
        CHECK_FALSE(r.truncate);
        for (const std::string type : {"dynamic", "longrope", "su", "mrope", "proportional", "ntk", "Linear", ""}) {
            CAPTURE(type);
            CHECK(contains(refused(in("\"rope_type\": \"" + type + "\", \"factor\": 2")),
                           place + ".rope_type: got \"" + type + "\", needs default, linear, llama3 or yarn"));
        }
        CHECK(contains(refused(in(R"("rope_type": "yarn", "type": "linear", "factor": 2)")),
                       "rope_type is \"yarn\", type is \"linear\""));
    }
}

TEST_CASE("a key the type does not have, or lacks, is refused by name") {
    CHECK(contains(refused(R"({"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 32}})"),
                   "rope_scaling: the key \"beta_fast\" is not supported"));
    CHECK(contains(refused(R"({"rope_scaling": {"factor": 2}})"), "the key \"factor\" is not supported"));
    CHECK(contains(refused(R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}})"), "\"full_attention\""));
    CHECK(contains(refused(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "mrope_section": [1],
                                                "original_max_position_embeddings": 8}})"),
                   "\"mrope_section\""));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "linear"}})"), "rope_scaling.factor: missing"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "yarn", "factor": 4}})"),
                   "rope_scaling.original_max_position_embeddings: missing"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
                                                "high_freq_factor": 4}})"),
                   "original_max_position_embeddings: missing"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
                                                "high_freq_factor": 4, "original_max_position_embeddings": 8}})"),
                   "high_freq_factor: got 4, needs more than low_freq_factor 4"));
    CHECK(
        contains(refused(R"({"rope_scaling": {"type": "linear", "factor": 0}})"), "factor: got 0, needs more than 0"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "linear", "factor": -2}})"), "factor: got -2"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "linear", "factor": "2"}})"), "factor: got \"2\""));
    CHECK(contains(refused(R"({"rope_scaling": {"type": 3}})"), "type: got 3, needs a string"));
    CHECK(contains(refused(R"({"rope_scaling": "yarn"})"), "rope_scaling: got \"yarn\", needs an object"));
    CHECK(contains(refused(R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 8,
                                                "beta_fast": 1, "beta_slow": 2}})"),
                   "beta_fast: got 1, needs at least beta_slow 2"));
}

TEST_CASE("two descriptions of the scaling must be one") {
    CHECK(read(R"({"rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 1e6},
                   "rope_scaling": {"type": "linear", "factor": 2.0}})") ==
          read(R"({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2}})"));
    CHECK(contains(refused(R"({"rope_parameters": {"rope_type": "linear", "factor": 2},
                               "rope_scaling": {"type": "linear", "factor": 4}})"),
                   "rope_parameters and rope_scaling describe different scalings"));
    CHECK(contains(
        refused(R"({"rope_parameters": {"rope_theta": 1e6}, "rope_scaling": {"type": "linear", "factor": 4}})"),
        "different scalings"));
}

TEST_CASE("rotating a part of the dimensions is refused, wherever it is asked for") {
    CHECK(read(R"({"partial_rotary_factor": 1.0, "rope_parameters": {"partial_rotary_factor": 1}})").theta == 10000.0);
    CHECK(refused(R"({"partial_rotary_factor": 0.5})") ==
          "config.json: partial_rotary_factor: got 0.5, needs 1 (other values are not supported)");
    CHECK(contains(refused(R"({"rope_parameters": {"partial_rotary_factor": 0.25}})"),
                   "rope_parameters.partial_rotary_factor: got 0.25"));
}
