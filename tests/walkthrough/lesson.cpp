#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "walkthrough/classroom.hpp"
#include "walkthrough/gram.hpp"
#include "walkthrough/json.hpp"
#include "walkthrough/text.hpp"

namespace dflash::test {
namespace {

using walkthrough::lesson;
using walkthrough::mistake;

lesson taught(const char* cast, mistake wrong) {
    walkthrough::classroom room(walkthrough::find_cast(cast), wrong);
    walkthrough::step_1_prefill(room);
    walkthrough::step_2_fuse_and_normalise(room);
    walkthrough::step_3_prepare_the_block(room);
    walkthrough::step_4_attend_with_injected_keys(room);
    walkthrough::step_5_draft(room);
    walkthrough::step_6_verify_and_accept(room);
    walkthrough::step_7_commit_and_go_on(room);
    return room.notes;
}

using shape = std::vector<index>;

}  // namespace

TEST_CASE("the seed cast shows every shape of the document, in the JSON too") {
    const lesson notes = taught("seed", mistake::none);
    CHECK(notes.held());
    const auto json = nlohmann::json::parse(walkthrough::to_json(notes));
    const auto shape_of = [&](const std::string& name) {
        for (const auto& step : json.at("steps")) {
            for (const auto& table : step.at("tables")) {
                if (table.at("name") == name) {
                    index size = 1;
                    for (const index n : table.at("shape")) {
                        size *= n;
                    }
                    CHECK_MESSAGE(table.at("values").size() == static_cast<std::size_t>(size), name);
                    return table.at("shape").get<shape>();
                }
            }
        }
        return shape();
    };
    CHECK(shape_of("target_hidden_raw") == shape{3, 1536});
    CHECK(shape_of("C") == shape{3, 512});
    CHECK(shape_of("H") == shape{4, 512});
    for (const std::string layer : {"0", "1"}) {
        CHECK(shape_of("Q, layer " + layer) == shape{8, 4, 64});
        CHECK(shape_of("K, layer " + layer) == shape{8, 7, 64});
        CHECK(shape_of("V, layer " + layer) == shape{8, 7, 64});
        CHECK(shape_of("A, layer " + layer) == shape{8, 4, 7});
        CHECK(shape_of("out, layer " + layer) == shape{4, 512});
        CHECK(shape_of("out W_O, layer " + layer) == shape{4, 512});
    }
    CHECK(shape_of("draft_logits") == shape{3, 16});
    CHECK(shape_of("verify logits") == shape{4, 16});
    CHECK(json.at("format") == "dflash-lesson 1");
    CHECK(json.at("steps").size() == 7);
    CHECK(json.at("mistake").is_null());
    CHECK(json.at("stopped").is_null());
}

TEST_CASE("a number in the JSON is the float that was computed") {
    const lesson notes = taught("pencil", mistake::none);
    const auto json = nlohmann::json::parse(walkthrough::to_json(notes));
    for (std::size_t s = 0; s < notes.steps.size(); ++s) {
        for (std::size_t t = 0; t < notes.steps[s].tables.size(); ++t) {
            const std::vector<float>& values = notes.steps[s].tables[t].values;
            const auto& written = json.at("steps").at(s).at("tables").at(t).at("values");
            for (std::size_t i = 0; i < values.size(); ++i) {
                REQUIRE(static_cast<float>(written.at(i).get<double>()) == values[i]);
            }
        }
    }
    const walkthrough::table& a = notes.find("A, layer 0");
    CHECK(a.boundary == 3);
    CHECK(a.columns.size() == 7);
    // No infinity and no NaN can be written as a JSON number.
    lesson broken = notes;
    broken.steps[0].tables[0].values[0] = numerics::not_a_number;
    const auto json_of_broken = nlohmann::json::parse(walkthrough::to_json(broken));
    CHECK(json_of_broken.at("steps").at(0).at("tables").at(0).at("values").at(0).is_null());
}

TEST_CASE("the pencil cast can be checked on paper") {
    const lesson notes = taught("pencil", mistake::none);
    CHECK(notes.held());
    // Weights of a query are fractions that sum to 1, exactly.
    const walkthrough::table& a = notes.find("A, layer 0");
    for (std::size_t row = 0; row < a.values.size(); row += 7) {
        index sum = 0;
        constexpr index common = 720720;  // a multiple of every denominator up to 16
        index denominators = 1;
        for (std::size_t j = 0; j < 7; ++j) {
            const auto fraction = walkthrough::as_fraction(a.values[row + j], 28);
            REQUIRE(fraction.has_value());
            denominators = (std::max)(denominators, fraction->second);
            sum += fraction->first * (common * 17 / fraction->second);
        }
        CHECK(denominators <= 28);
        CHECK(sum == common * 17);
    }
    // Scores by hand: slot 2, head 0, has q = (1, -1) w and keys (-1,1) (-1,1) (1,-1) (-1,1) (-1,-1) (1,-1) (1,1).
    const float wanted[] = {1.0F / 15, 1.0F / 15, 4.0F / 15, 1.0F / 15, 2.0F / 15, 4.0F / 15, 2.0F / 15};
    for (std::size_t j = 0; j < 7; ++j) {
        CHECK(a.values[2 * 7 + j] == wanted[j]);
    }
    const std::vector<walkthrough::ledger_row>& ledger = notes.ledger;
    REQUIRE(ledger.size() >= 4);
    CHECK(ledger[0].start == 3);
    CHECK(ledger[1].accepted == 2);
    CHECK(ledger[1].start == 6);
    CHECK(ledger[2].accepted == 3);  // all of them, and a bonus
    CHECK(ledger[2].committed.size() == 4);
    CHECK(ledger[3].accepted == 0);  // none: the target's own word alone
}

TEST_CASE("a lesson with a mistake says so, is not held, and can be written") {
    for (const walkthrough::mistake_entry& entry : walkthrough::all_mistakes()) {
        const lesson wrong = taught("pencil", entry.id);
        CHECK_MESSAGE(!wrong.held(), entry.name);
        CHECK(nlohmann::json::parse(walkthrough::to_json(wrong)).at("steps").size() == 7);
    }
    CHECK_THROWS_AS(static_cast<void>(walkthrough::find_mistake("none")), config_error);
    CHECK_THROWS_AS(static_cast<void>(walkthrough::find_cast("")), config_error);
}

TEST_CASE("two equal lessons show no mistake") {
    const lesson right = taught("pencil", mistake::none);
    const walkthrough::comparison nothing = walkthrough::compare(right, right, walkthrough::find_mistake("wrong-crop"));
    CHECK(nothing.changed_tables == 0);
    CHECK_FALSE(nothing.seen());
}

TEST_CASE("numbers as text") {
    CHECK(walkthrough::number(2.0F / 13.0F, true) == "2/13");
    CHECK(walkthrough::number(-1.5F, true) == "-3/2");
    CHECK(walkthrough::number(-0.0F, true) == "0");
    CHECK(walkthrough::number(-0.0F, false) == "0.0000");
    CHECK(walkthrough::number(-0.00001F, false) == "0.0000");
    CHECK(walkthrough::number(0.69314718F, true) == "0.6931");
    CHECK(walkthrough::number(257.0F / 182.0F, true) == "257/182");
    CHECK(walkthrough::wrapped("  ok ", "two words") == "  ok two words\n");
    const std::string line = walkthrough::wrapped("    ", std::string(60, 'a') + " " + std::string(60, 'b'));
    CHECK(line == "    " + std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\n");
}

TEST_CASE("the solved head reads the wanted words") {
    walkthrough::gram_solver rows(4);
    const std::vector<float> x[3] = {{1, 2, 0, 1}, {0, 1, 1, 0}, {2, 0, 1, 1}};
    const token_id words[3] = {1, 0, 1};
    for (int i = 0; i < 3; ++i) {
        rows.want(x[i], words[i]);
    }
    const std::vector<float> head = rows.solve(2, 8.0);
    for (int i = 0; i < 3; ++i) {
        for (token_id w = 0; w < 2; ++w) {
            const float logit = numerics::dot_chain(head.data() + 4 * w, x[i].data(), 4);
            CHECK(logit == doctest::Approx(w == words[i] ? 8.0 : 0.0).epsilon(1e-5));
        }
    }
    walkthrough::gram_solver dependent(4);
    dependent.want(x[0], 0);
    dependent.want(x[0], 1);
    CHECK_THROWS_AS(static_cast<void>(dependent.solve(2, 8.0)), config_error);
}

}  // namespace dflash::test
