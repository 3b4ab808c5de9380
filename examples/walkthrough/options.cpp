#include "walkthrough/options.hpp"

#include <memory>
#include <set>

#include "common/program.hpp"
#include "common/write_file.hpp"
#include "walkthrough/json.hpp"
#include "walkthrough/text.hpp"

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

}  // namespace

int run_walkthrough(int argc, const char* const* argv, const std::function<void(classroom&)>& walk) {
    return examples::run_program("dflash-walkthrough", [&] {
        std::string cast_name = "pencil";
        std::string mistake_name;
        std::string json;
        bool list = false;
        CLI::App app("One round of DFlash in seven steps. Every number comes out of the library.");
        app.add_option("--cast", cast_name,
                       "pencil (default): d = 4, every number a fraction; seed: 12 layers, d = 512, 8 heads of 64");
        app.add_option("--mistake", mistake_name, "Make this mistake and show what changes; all: each in turn");
        app.add_flag("--list-mistakes", list, "Print the names of the mistakes");
        app.add_option("--json", json, "Write the whole lesson to this file");
        examples::parse_arguments(app, argc, argv);

        examples::terminal out;
        if (list) {
            for (const mistake_entry& entry : all_mistakes()) {
                out.write(joined(entry.name, "\n"));
            }
            return 0;
        }
        const std::shared_ptr<const cast> actors = find_cast(cast_name);
        if (mistake_name == "all") {
            return every_mistake(actors, walk);
        }
        const mistake_entry* entry = mistake_name.empty() ? nullptr : &find_mistake(mistake_name);
        const lesson notes = taught(actors, walk, entry == nullptr ? mistake::none : entry->id, mistake_name);
        if (!json.empty()) {
            examples::write_file(json, to_json(notes));
        }
        if (entry == nullptr) {
            out.write(to_text(notes));
            return notes.held() ? 0 : 1;
        }
        const comparison seen = compare(taught(actors, walk, mistake::none, ""), notes, *entry);
        out.write(seen.text);
        return seen.seen() ? 0 : 1;
    });
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
