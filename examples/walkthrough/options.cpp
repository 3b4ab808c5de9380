#include "walkthrough/options.hpp"

#include <memory>
#include <set>

#include "common/program.hpp"
#include "common/write_file.hpp"
#include "walkthrough/html.hpp"
#include "walkthrough/json.hpp"
#include "walkthrough/text.hpp"
#include "walkthrough/trace_file.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using walker = std::function<void(classroom&)>;

lesson taught(const std::shared_ptr<const cast>& actors, const walker& walk, mistake wrong, std::string_view name) {
    classroom room(actors, wrong);
    room.notes.mistake = name;
    walk(room);
    return std::move(room.notes);
}

/// Makes every mistake; a sentence that none of them breaks is a failure.
int every_mistake(const std::shared_ptr<const cast>& actors, const walker& walk) {
    examples::terminal out;
    const lesson right = taught(actors, walk, mistake::none, "");
    std::set<std::string> unbroken;
    for (const step& s : right.steps) {
        for (const expectation& e : s.expects) {
            unbroken.insert(e.id);
        }
    }
    bool all = right.held();
    for (const mistake_entry& entry : all_mistakes()) {
        const lesson wrong = taught(actors, walk, entry.id, entry.name);
        const comparison seen = compare(right, wrong, entry);
        out.write(joined(seen.seen() ? "seen      " : "NOT SEEN  ", entry.name, ": ", seen.changed_tables,
                         " tables change; false now:\n"));
        for (const std::string& id : broken_sentences(wrong)) {
            out.write(joined("             ", id, "\n"));
            unbroken.erase(id);
        }
        for (const std::string& id : seen.missing) {
            out.write(joined("   NOT FALSE ", id, "\n"));
        }
        all = all && seen.seen();
    }
    for (const std::string& id : unbroken) {
        out.write(joined("no mistake breaks the sentence ", id, "\n"));
    }
    return all && unbroken.empty() ? 0 : 1;
}

/// The page of a run that dflash-generate has traced.
int draw_run(const std::string& from, const std::string& html) {
    const nlohmann::ordered_json trace = read_trace(from);
    examples::write_file(html, to_html(trace));
    examples::terminal out;
    const nlohmann::ordered_json& statistics = trace.at("statistics");
    out.write(joined(html, ": ", statistics.at("tokens").get<index>(), " tokens in ",
                     statistics.at("rounds").get<index>(), " rounds\n"));
    return 0;
}

}  // namespace

int run_walkthrough(int argc, const char* const* argv, const std::function<void(classroom&)>& walk) {
    return examples::run_program("dflash-walkthrough", [&] {
        std::string cast_name = "pencil";
        std::string mistake_name;
        std::string json;
        std::string html;
        std::string from;
        bool list = false;
        CLI::App app("One round of DFlash in seven steps. Every number comes out of the library.");
        CLI::Option* cast_option =
            app.add_option("--cast", cast_name,
                           "pencil (default): d = 4, every number a fraction; seed: 12 layers, d = 512, 8 heads of 64");
        CLI::Option* mistake_option =
            app.add_option("--mistake", mistake_name, "Make this mistake and show what changes; all: each in turn");
        CLI::Option* list_option = app.add_flag("--list-mistakes", list, "Print the names of the mistakes");
        CLI::Option* json_option = app.add_option("--json", json, "Write the whole lesson to this file");
        CLI::Option* html_option =
            app.add_option("--html", html, "Write the whole lesson to this file as a page for a browser");
        CLI::Option* from_option =
            app.add_option("--from", from, "Draw this trace of dflash-generate as a page instead")
                ->needs(html_option)
                ->excludes(cast_option, mistake_option, list_option, json_option);
        examples::parse_arguments(app, argc, argv);

        examples::terminal out;
        if (list) {
            for (const mistake_entry& entry : all_mistakes()) {
                out.write(joined(entry.name, "\n"));
            }
            return 0;
        }
        if (from_option->count() > 0) {
            return draw_run(from, html);
        }
        const std::shared_ptr<const cast> actors = find_cast(cast_name);
        if (mistake_name == "all") {
            if (!html.empty() || !json.empty()) {
                raise<config_error>("--mistake all: has no single lesson to write with --html or --json");
            }
            return every_mistake(actors, walk);
        }
        const mistake_entry* entry = mistake_name.empty() ? nullptr : &find_mistake(mistake_name);
        const lesson notes = taught(actors, walk, entry == nullptr ? mistake::none : entry->id, mistake_name);
        if (!json.empty()) {
            examples::write_file(json, to_json(notes));
        }
        if (entry == nullptr) {
            if (!html.empty()) {
                examples::write_file(html, to_html(notes, nullptr, nullptr));
            }
            out.write(to_text(notes));
            return notes.held() ? 0 : 1;
        }
        const lesson right = taught(actors, walk, mistake::none, "");
        if (!html.empty()) {
            examples::write_file(html, to_html(notes, entry, &right));
        }
        const comparison seen = compare(right, notes, *entry);
        out.write(seen.text);
        return seen.seen() ? 0 : 1;
    });
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
