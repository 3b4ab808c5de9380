// The pages as a browser shows them: every number is the program's own, nothing is fetched, nothing goes wrong, and
// nothing is wider than a phone. Skipped (status 77) where there is no Chromium.
#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "programs/run_program.hpp"
#include "walkthrough/classroom.hpp"
#include "walkthrough/dom.hpp"
#include "walkthrough/html.hpp"
#include "walkthrough/text.hpp"
#include "walkthrough/trace_file.hpp"

namespace dflash::test {
namespace {

using namespace dflash_test;
using dflash::index;
using nlohmann::ordered_json;
using walkthrough::lesson;
using walkthrough::mistake;

template <class Container>
index count(const Container& all) {
    return static_cast<index>(all.size());
}

constexpr const char* browser = "/usr/bin/chromium";

/// What the browser makes of a file; its complaints are in `err`.
outcome browsed(const std::string& file, const arguments& more = {}) {
    const temp_folder profile;
    arguments given = {"120",  // seconds
                       browser,
                       "--headless",
                       "--no-sandbox",
                       "--disable-gpu",
                       "--disable-quic",
                       "--no-first-run",
                       "--disable-background-networking",
                       "--disable-component-update",
                       "--disable-sync",
                       "--disable-dev-shm-usage",
                       "--user-data-dir=" + profile.path().string(),
                       "--enable-logging=stderr",
                       "--v=0",
                       "--dump-dom"};
    given.insert(given.end(), more.begin(), more.end());
    given.push_back("file://" + file);
    return run("timeout", given);
}

std::unique_ptr<dom_node> drawn(const std::string& html) {
    const temp_folder folder;
    const outcome seen = browsed(folder.write("page.html", html).string());
    REQUIRE_MESSAGE(seen.status == 0, seen.err);
    CHECK_MESSAGE(!contains(seen.err, "CONSOLE"), seen.err);
    auto page = dom_reader(seen.out).read();
    const auto root = page->all("html");
    REQUIRE(root.size() == 1);
    CHECK(root[0]->attribute("data-errors") == "");
    REQUIRE(root[0]->attribute("data-drawn") == "yes");
    return page;
}

lesson taught(const char* cast, mistake wrong) {
    walkthrough::classroom room(walkthrough::find_cast(cast), wrong);
    walkthrough::step_1_prefill(room);
    walkthrough::step_2_fuse_and_normalise(room);
    walkthrough::step_3_prepare_the_block(room);
    walkthrough::step_4_attend_with_injected_keys(room);
    walkthrough::step_5_draft(room);
    walkthrough::step_6_verify_and_accept(room);
    walkthrough::step_7_commit_and_go_on(room);
    return std::move(room.notes);
}

/// What typesetting leaves of a text: no marks of indices and powers, one blank for many.
std::string plain(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c != '_' && c != '^' && !(c == ' ' && (out.empty() || out.back() == ' '))) {
            out += c;
        }
    }
    return out;
}

std::vector<std::vector<std::string>> cells_of(const dom_node& table, std::string_view kind = "td") {
    std::vector<std::vector<std::string>> out;
    for (const dom_node* body : table.all("tbody")) {
        for (const dom_node* row : body->all("tr")) {
            out.emplace_back();
            for (const dom_node* cell : row->all(kind)) {
                out.back().push_back(cell->words());
            }
        }
    }
    return out;
}

/// Every number of a tensor that the text output shows, block by block.
void check_table(const dom_node& page, const walkthrough::table& t, bool on_paper) {
    const index cols = t.shape.back();
    const index rows = t.shape[t.shape.size() - 2];
    const index blocks = count(t.values) / (rows * cols);
    for (index b = 0; b < blocks; ++b) {
        std::vector<const dom_node*> found;
        for (const dom_node* table : page.with("data-table", t.name)) {
            if (table->attribute("data-head") == std::to_string(b)) {
                found.push_back(table);
            }
        }
        REQUIRE_MESSAGE(found.size() == 1, t.name);
        const auto cells = cells_of(*found[0]);
        const auto labels = cells_of(*found[0], "th");
        REQUIRE(count(cells) == rows);
        for (index r = 0; r < rows; ++r) {
            const auto row = static_cast<std::size_t>(r);
            CHECK(labels[row].at(0) == t.rows.at(row));
            std::vector<std::string> wanted;
            for (const index c : walkthrough::shown_columns(cols)) {
                wanted.push_back(
                    c < 0 ? "..."
                          : walkthrough::number(t.values[static_cast<std::size_t>((b * rows + r) * cols + c)],
                                                on_paper && !t.decimals));
            }
            CHECK_MESSAGE(cells[row] == wanted, t.name);
        }
        CHECK(plain(found[0]->all("caption").at(0)->words()).starts_with(plain(t.name)));
    }
}

std::string listed(const lesson& notes, const std::vector<token_id>& tokens) {
    std::string out;
    for (const std::string& word : notes.words_of(tokens)) {
        out += (out.empty() ? "" : " ") + word;
    }
    return out.empty() ? "-" : out;
}

void check_ledger(const dom_node& page, const lesson& notes) {
    const auto tables = page.with("data-table", "ledger");
    REQUIRE(tables.size() == 1);
    const auto cells = cells_of(*tables[0]);
    REQUIRE(cells.size() == notes.ledger.size());
    for (std::size_t r = 0; r < cells.size(); ++r) {
        const walkthrough::ledger_row& row = notes.ledger[r];
        const std::vector<std::string> wanted = {listed(notes, row.drafts),
                                                 listed(notes, row.posterior),
                                                 row.round == 0 ? "-" : std::to_string(row.accepted),
                                                 listed(notes, row.committed),
                                                 std::to_string(row.total),
                                                 std::to_string(row.start),
                                                 notes.word(row.anchor),
                                                 std::to_string(row.target_rows),
                                                 std::to_string(row.draft_rows),
                                                 std::to_string(row.fresh_rows)};
        CHECK(cells[r] == wanted);
    }
    for (std::size_t r = 1; r < cells.size(); ++r) {
        const auto strips = page.with("data-round", std::to_string(r));
        REQUIRE(strips.size() == 1);
        const auto accepted = strips[0]->all([](const dom_node& node) { return node.has_class("accepted"); });
        CHECK(count(accepted) == notes.ledger[r].accepted);
        CHECK(strips[0]->all("li").at(0)->words().starts_with("position " + std::to_string(notes.ledger[r - 1].start)));
    }
    CHECK(page.all([](const dom_node& node) { return node.attributes.contains("data-round"); }).size() + 1 ==
          cells.size());
}

/// What holds for every page: its structure can be heard, and it points nowhere but into itself.
void check_frame(const dom_node& page) {
    CHECK(page.all("html").at(0)->attribute("lang") == "en");
    CHECK(!page.all("title").at(0)->words().empty());
    CHECK(page.all("h1").size() == 1);
    CHECK(page.all("main").size() == 1);
    CHECK(page.all("img").empty());
    CHECK(page.all("iframe").empty());
    CHECK(page.all("link").empty());
    for (const dom_node* table : page.all("table")) {
        CHECK(table->all("caption").size() == 1);
    }
    for (const dom_node* th : page.all("th")) {
        CHECK_MESSAGE(!th->attribute("scope").empty(), th->words());
    }
    for (const dom_node* button : page.all("button")) {
        CHECK(!button->words().empty());
    }
    std::map<std::string, int> ids;
    for (const dom_node* node : page.all([](const dom_node& one) { return one.attributes.contains("id"); })) {
        CHECK_MESSAGE(++ids[node->attribute("id")] == 1, node->attribute("id"));
    }
    for (const dom_node* node : page.all([](const dom_node&) { return true; })) {
        CHECK_FALSE(node->attributes.contains("src"));
        for (const char* name : {"href", "aria-controls", "aria-labelledby", "for"}) {
            std::string target = node->attribute(name);
            if (!target.empty()) {
                target.erase(0, std::string(name) == "href" ? 1 : 0);
                CHECK_MESSAGE(ids.contains(target), node->attribute(name));
            }
        }
    }
}

void check_lesson(const dom_node& page, const lesson& notes) {
    check_frame(page);
    const std::string everything = page.with("id", "page").at(0)->words();
    const bool on_paper = notes.cast == "pencil";
    index tables = 0;
    for (const walkthrough::step& s : notes.steps) {
        const auto section = page.with("id", "step-" + std::to_string(s.number));
        REQUIRE(section.size() == 1);
        const std::string text = section[0]->words();
        for (const walkthrough::table& t : s.tables) {
            check_table(*section[0], t, on_paper);
            tables += count(t.values) / (t.shape.back() * t.shape[t.shape.size() - 2]);
        }
        for (const std::string& remark : s.remarks) {
            CHECK_MESSAGE(contains(plain(text), plain(remark)), remark);
        }
        for (const std::string& formula : s.formulas) {
            CHECK_MESSAGE(contains(plain(text), plain(formula.substr(0, formula.find("   ")))), formula);
        }
        for (const walkthrough::expectation& e : s.expects) {
            const auto sentence = section[0]->with("id", "expect-" + e.id);
            REQUIRE(sentence.size() == 1);
            CHECK(plain(sentence[0]->words()) == plain((e.held ? "ok " : "FALSE ") + e.sentence));
            CHECK(sentence[0]->has_class(e.held ? "held" : "broken"));
        }
    }
    CHECK(count(page.all([](const dom_node& node) { return node.attributes.contains("data-head"); })) == tables);
    const walkthrough::step& fourth = notes.steps.at(3);
    const auto kv = cells_of(*page.with("data-table", "kv").at(0));
    REQUIRE(kv.size() == fourth.kv_rows.size() + 1);  // and the boundary
    for (std::size_t r = 0; r < fourth.kv_rows.size(); ++r) {
        const walkthrough::kv_row& row = fourth.kv_rows[r];
        CHECK(kv[r + (row.context ? 0 : 1)] ==
              std::vector<std::string>{std::to_string(row.position), row.context ? "C" : "norm(H)", row.what});
    }
    const auto sights = page.all([](const dom_node& node) { return node.has_class("sight"); });
    REQUIRE(sights.size() == 2);
    for (const dom_node* table : sights) {
        std::vector<std::vector<std::string>> wanted;
        for (const walkthrough::sight& one : fourth.sights) {
            wanted.emplace_back();
            for (const bool sees : table == sights[0] ? one.left_only : one.keys) {
                wanted.back().push_back(sees ? "\xE2\x97\x8Fseen" : "\xC3\x97hidden");
            }
        }
        CHECK(cells_of(*table) == wanted);
    }
    for (const auto& entry : notes.setting) {
        CHECK_MESSAGE(contains(everything, entry.first + entry.second), entry.first);
    }
    for (const std::string& line : notes.confession) {
        CHECK_MESSAGE(contains(plain(everything), plain(line)), line);
    }
    check_ledger(page, notes);
}

/// Chromium's own pages aside, a page may name one address: that of the SVG language.
void check_addresses(std::string html) {
    const std::string svg = "http://www.w3.org/2000/svg";
    const std::size_t at = html.find(svg);
    REQUIRE(at != std::string::npos);
    html.erase(at, svg.size());
    CHECK_FALSE(contains(html, "http:"));
    CHECK_FALSE(contains(html, "https:"));
    CHECK_FALSE(contains(html, "url("));
    CHECK_FALSE(contains(html, "@import"));
}

/// A traced run of the shipped pair.
ordered_json traced() {
    const temp_folder folder;
    const std::string file = (folder.path() / "run.json").string();
    const outcome made =
        run(DFLASH_GENERATE, {"--prompt", "Add 53 and 666.\n", "--threads", "1", "--json", "--trace", file});
    REQUIRE_MESSAGE(made.status == 0, made.err);
    return walkthrough::read_trace(file);
}

}  // namespace

TEST_CASE("every number, sentence and round of a lesson is on its page, as the text output writes it") {
    for (const char* cast : {"pencil", "seed"}) {
        CAPTURE(std::string(cast));
        const lesson notes = taught(cast, mistake::none);
        const std::string html = walkthrough::to_html(notes, nullptr, nullptr);
        check_addresses(html);
        CHECK(html.size() < 1000000);
        const auto page = drawn(html);
        check_lesson(*page, notes);
        CHECK(page->with("id", "mistake").empty());
        CHECK(page->all([](const dom_node& node) { return node.has_class("changed"); }).empty());
    }
}

TEST_CASE("a page with a mistake names it, its false sentences and the numbers that differ") {
    const lesson right = taught("pencil", mistake::none);
    const walkthrough::mistake_entry& entry = walkthrough::find_mistake("no-injection");
    lesson wrong = taught("pencil", entry.id);
    wrong.mistake = entry.name;
    const auto page = drawn(walkthrough::to_html(wrong, &entry, &right));
    check_lesson(*page, wrong);
    const auto banner = page->with("id", "mistake");
    REQUIRE(banner.size() == 1);
    CHECK(contains(banner[0]->words(), std::string(entry.name)));
    CHECK(contains(banner[0]->words(), std::string(entry.what)));
    const auto links = banner[0]->all("a");
    const std::vector<std::string> broken = walkthrough::broken_sentences(wrong);
    REQUIRE(links.size() == broken.size());
    for (std::size_t i = 0; i < broken.size(); ++i) {
        CHECK(links[i]->attribute("href") == "#expect-" + broken[i]);
    }
    // Of the law of position 7 and of W_O, every number that differs is marked and no other.
    for (const char* name : {"out, layer 0", "C"}) {
        const auto cells = page->with("data-table", name).at(0)->all("tbody").at(0)->all("td");
        const std::vector<float>& before = right.find(name).values;
        const std::vector<float>& after = wrong.find(name).values;
        REQUIRE(cells.size() == after.size());
        for (std::size_t i = 0; i < cells.size(); ++i) {
            CHECK(cells[i]->has_class("changed") == (before[i] != after[i]));
        }
    }
}

TEST_CASE("a run's page holds its text, its rounds and its numbers; no text of it becomes markup") {
    ordered_json trace = traced();
    const std::string hostile = "</script><img src=x onerror=console.error(1)><b>&amp;";
    trace["pieces"]["38"]["text"] = hostile;
    trace["pieces"]["52"] = {{"bytes", "e29c"}};
    const std::string html = walkthrough::to_html(trace);
    check_addresses(html);
    const auto page = drawn(html);
    check_frame(*page);
    CHECK(page->all("b").empty());

    std::string text;
    std::map<std::string, index> given = {{"first", 0}, {"drafted", 0}, {"correction", 0}, {"bonus", 0}};
    const auto add = [&](const ordered_json& id) {
        const ordered_json& piece = trace.at("pieces").at(std::to_string(id.get<index>()));
        text += piece.contains("bytes") ? "\xE2\x9F\xA8"
                                          "e29c\xE2\x9F\xA9"
                                        : piece.at("text").get<std::string>();
    };
    for (const ordered_json& id : trace.at("prompt")) {
        add(id);
    }
    const ordered_json& rounds = trace.at("rounds");
    for (std::size_t r = 0; r < rounds.size(); ++r) {
        const index drafts = count(rounds[r].at("drafts").get<std::vector<token_id>>());
        for (std::size_t i = 0; i < rounds[r].at("committed").size(); ++i) {
            add(rounds[r].at("committed")[i]);
            const auto place = static_cast<index>(i);
            given[r == 0                             ? "first"
                  : place < rounds[r].at("accepted") ? "drafted"
                  : place < drafts                   ? "correction"
                                                     : "bonus"] += 1;
        }
        if (r > 0) {
            const auto strips = page->with("data-round", std::to_string(r));
            REQUIRE(strips.size() == 1);
            const auto accepted = strips[0]->all([](const dom_node& node) { return node.has_class("accepted"); });
            CHECK(accepted.size() == rounds[r].at("accepted").get<std::size_t>());
            CHECK(strips[0]->all("li").at(0)->words().starts_with("position " + rounds[r].at("start").dump()));
        }
        const std::vector<std::string> row = cells_of(*page->with("data-table", "ledger").at(0)).at(r);
        CHECK(std::vector<std::string>(row.begin() + 4, row.begin() + 7) ==
              std::vector<std::string>{rounds[r].at("target_rows").dump(), rounds[r].at("draft_rows").dump(),
                                       rounds[r].at("fresh_rows").dump()});
    }
    CHECK(page->all([](const dom_node& node) { return node.attributes.contains("data-round"); }).size() + 1 ==
          rounds.size());
    CHECK(page->all([](const dom_node& node) { return node.has_class("running"); }).at(0)->all_text() == text);
    CHECK(given.at("correction") > 0);
    for (const auto& entry : given) {
        CHECK_MESSAGE(page->with("data-count", entry.first).at(0)->words() == "(" + std::to_string(entry.second) + ")",
                      entry.first);
    }

    const ordered_json& statistics = trace.at("statistics");
    const auto slots = cells_of(*page->with("data-table", "slots").at(0));
    REQUIRE(slots.size() == statistics.at("slot_drafted").size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
        CHECK(slots[i].at(0) == statistics.at("slot_accepted")[i].dump());
        CHECK(slots[i].at(1) == statistics.at("slot_drafted")[i].dump());
    }
    const std::string result = page->with("id", "statistics").at(0)->words();
    CHECK(contains(result, "14.20"));
    CHECK(contains(result, "finish: stop"));
    CHECK(cells_of(*page->with("data-table", "lengths").at(0)).size() == 3);  // 9, 14, 16
    CHECK(cells_of(*page->with("data-table", "seconds").at(0)).size() == 5);
}

TEST_CASE("on a phone nothing is wider than the page; tabs, selects and the choice of colours work with the keyboard") {
    // Each page tries itself out in a frame of 360 pixels and reports to the page around it.
    const std::string driver = R"(<script>
addEventListener("load", () => {
  const report = { wide: document.documentElement.scrollWidth - innerWidth, dark: [], tabs: 0, chosen: 0, said: 0 };
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  report.wide = Math.max(report.wide, document.documentElement.scrollWidth - innerWidth);
  const theme = document.querySelector(".theme");
  for (let i = 0; i < 2; ++i) {
    theme.click();
    report.dark.push(theme.getAttribute("aria-pressed") + getComputedStyle(document.body).backgroundColor);
  }
  for (const list of document.querySelectorAll("[role=tablist]")) {
    const all = [...list.querySelectorAll("[role=tab]")];
    report.tabs += all.length;
    all[0].focus();
    for (let i = 0; i <= all.length; ++i) {
      const panels = all.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
      const shown = panels.filter((panel) => !panel.hidden);
      const place = i % all.length;
      if (shown.length === 1 && shown[0] === panels[place] && document.activeElement === all[place] &&
          all[place].getAttribute("aria-selected") === "true" && all[place].tabIndex === 0) report.chosen += 1;
      report.wide = Math.max(report.wide, document.documentElement.scrollWidth - innerWidth);
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    }
    report.chosen -= 1;
  }
  const key = document.querySelector("#key");
  if (key) {
    key.value = "4";
    key.dispatchEvent(new Event("change", { bubbles: true }));
    report.said = document.querySelector(".said").textContent;
  }
  parent.postMessage(report, "*");
});
</script></body>)";
    const temp_folder folder;
    const lesson right = taught("pencil", mistake::none);
    const walkthrough::mistake_entry& entry = walkthrough::find_mistake("causal-block");
    const std::vector<std::string> pages = {walkthrough::to_html(right, nullptr, nullptr),
                                            walkthrough::to_html(taught("seed", mistake::none), nullptr, nullptr),
                                            walkthrough::to_html(taught("pencil", entry.id), &entry, &right),
                                            walkthrough::to_html(traced())};
    std::string outer = R"(<!doctype html><body><script>
const reports = [];
addEventListener("message", (event) => { reports.push(event.data); document.body.dataset.reports = JSON.stringify(reports); });
</script>)";
    for (std::size_t i = 0; i < pages.size(); ++i) {
        std::string html = pages[i];
        html.replace(html.rfind("</body>"), 7, driver);
        const std::string name = "page" + std::to_string(i) + ".html";
        folder.write(name, html);
        outer += "<iframe width=360 height=740 src=" + name + "></iframe>";
    }
    const outcome seen = browsed(folder.write("outer.html", outer).string(), {"--virtual-time-budget=10000"});
    REQUIRE_MESSAGE(seen.status == 0, seen.err);
    CHECK_MESSAGE(!contains(seen.err, "CONSOLE"), seen.err);
    const auto page = dom_reader(seen.out).read();
    const auto reports = ordered_json::parse(page->all("body").at(0)->attribute("data-reports"));
    REQUIRE(reports.size() == pages.size());
    index tabs = 0;
    index said = 0;
    for (const ordered_json& report : reports) {
        CHECK(report.at("wide") <= 0);
        const auto dark = report.at("dark").get<std::vector<std::string>>();
        CHECK(dark.at(0).substr(0, 4) != dark.at(1).substr(0, 4));
        CHECK(dark.at(0).substr(dark.at(0).find("rgb")) != dark.at(1).substr(dark.at(1).find("rgb")));
        CHECK(report.at("chosen") == report.at("tabs"));
        tabs += report.at("tabs").get<index>();
        said +=
            report.at("said").is_string() && report.at("said").get<std::string>().starts_with("5 \xE2\x88\x92 4 = 1")
                ? 1
                : 0;
    }
    CHECK(tabs == 2 + 16 + 8 + 2);  // heads of attention; of the draft's cache in the seed cast
    CHECK(said == 3);
}

}  // namespace dflash::test

int main(int argc, char** argv) {
    if (!std::filesystem::exists(dflash::test::browser)) {
        std::puts("skipped: there is no /usr/bin/chromium (on Debian: apt-get install chromium)");
        return 77;
    }
    return doctest::Context(argc, argv).run();
}
