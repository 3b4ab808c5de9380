#include "walkthrough/options.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>

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

int list_mistakes() {
    examples::terminal out;
    for (const mistake_entry& entry : all_mistakes()) {
        out.write(joined(entry.name, "\n"));
    }
    return 0;
}

struct walk_options {
    std::string cast = "pencil";
    std::optional<std::string> mistake;
    std::optional<std::string> json;
    std::optional<std::string> html;
    std::optional<std::string> from;
    bool list = false;
};

/// Errors: config_error.
walk_options parse_walk_options(int argc, const char* const* argv) {
    walk_options options;
    CLI::App app("One round of DFlash in seven steps. Every number comes out of the library.");
    CLI::Option* cast =
        app.add_option("--cast", options.cast,
                       "pencil (default): d = 4, every number a fraction; seed: 12 layers, d = 512, 8 heads of 64");
    CLI::Option* mistake =
        app.add_option("--mistake", options.mistake, "Make this mistake and show what changes; all: each in turn");
    CLI::Option* list = app.add_flag("--list-mistakes", options.list, "Print the names of the mistakes");
    CLI::Option* json = app.add_option("--json", options.json, "Write the whole lesson to this file");
    CLI::Option* html =
        app.add_option("--html", options.html, "Write the whole lesson to this file as a page for a browser");
    app.add_option("--from", options.from, "Draw this trace of dflash-generate as a page instead")
        ->needs(html)
        ->excludes(cast, mistake, list, json);
    examples::parse_arguments(app, argc, argv);
    if (options.mistake == "all" && (options.html || options.json)) {
        raise<config_error>("--mistake all: has no single lesson to write with --html or --json");
    }
    return options;
}

/// One walk, right or with a mistake, printed and written where the options say.
int teach(const walk_options& options, const std::shared_ptr<const cast>& actors, const walker& walk) {
    examples::terminal out;
    const mistake_entry* entry = options.mistake ? &find_mistake(*options.mistake) : nullptr;
    const lesson right = taught(actors, walk, mistake::none, "");
    const lesson wrong = entry == nullptr ? lesson() : taught(actors, walk, entry->id, entry->name);
    const lesson& notes = entry == nullptr ? right : wrong;
    if (options.json) {
        examples::write_file(*options.json, to_json(notes));
    }
    if (options.html) {
        examples::write_file(*options.html, to_html(notes, entry, entry == nullptr ? nullptr : &right));
    }
    if (entry == nullptr) {
        out.write(to_text(notes));
        return notes.held() ? 0 : 1;
    }
    const comparison seen = compare(right, wrong, *entry);
    out.write(seen.text);
    return seen.seen() ? 0 : 1;
}

}  // namespace

int run_walkthrough(int argc, const char* const* argv, const std::function<void(classroom&)>& walk) {
    return examples::run_program("dflash-walkthrough", [&] {
        const walk_options options = parse_walk_options(argc, argv);
        if (options.list) {
            return list_mistakes();
        }
        if (options.from) {
            return draw_run(*options.from, options.html.value_or(""));
        }
        const std::shared_ptr<const cast> actors = find_cast(options.cast);
        return options.mistake == "all" ? every_mistake(actors, walk) : teach(options, actors, walk);
    });
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
