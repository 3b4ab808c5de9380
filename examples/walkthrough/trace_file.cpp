#include "walkthrough/trace_file.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

using nlohmann::ordered_json;
using ids = std::vector<token_id>;

/// A value of the file and the name of its place.
class field {
public:
    field(std::string file, std::string place, const ordered_json& value)
        : file_(std::move(file)), place_(std::move(place)), value_(&value) {}

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        raise<io_error>(file_, ": ", place_.empty() ? "the trace" : place_, ": ", parts...);
    }

    [[nodiscard]] field at(const char* key) const {
        if (!value_->is_object()) {
            refuse("is ", shown(), ", needs an object");
        }
        const auto found = value_->find(key);
        const std::string place = place_.empty() ? key : place_ + '.' + key;
        if (found == value_->end()) {
            raise<io_error>(file_, ": ", place, ": is missing");
        }
        return {file_, place, *found};
    }
    [[nodiscard]] std::vector<field> entries() const {
        if (!value_->is_array()) {
            refuse("is ", shown(), ", needs an array");
        }
        std::vector<field> out;
        for (std::size_t i = 0; i < value_->size(); ++i) {
            out.emplace_back(file_, place_ + '[' + std::to_string(i) + ']', (*value_)[i]);
        }
        return out;
    }
    [[nodiscard]] index whole(index least = 0, index most = (std::numeric_limits<std::int32_t>::max)()) const {
        const bool fits = value_->is_number_unsigned()
                              ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                              : value_->is_number_integer();
        if (!fits || value_->get<index>() < least || value_->get<index>() > most) {
            refuse("is ", shown(), ", needs a whole number ", least, " .. ", most);
        }
        return value_->get<index>();
    }
    [[nodiscard]] double amount() const {
        const double value = value_->is_number() ? value_->get<double>() : -1.0;
        if (!std::isfinite(value) || value < 0) {
            refuse("is ", shown(), ", needs a number that is not negative");
        }
        return value;
    }
    [[nodiscard]] std::string text() const {
        if (!value_->is_string()) {
            refuse("is ", shown(), ", needs a string");
        }
        return value_->get<std::string>();
    }
    [[nodiscard]] std::vector<index> wholes() const {
        std::vector<index> out;
        for (const field& entry : entries()) {
            out.push_back(entry.whole());
        }
        return out;
    }
    [[nodiscard]] ids tokens() const {
        ids out;
        for (const index token : wholes()) {
            out.push_back(static_cast<token_id>(token));
        }
        return out;
    }
    /// `why` says where the right number comes from.
    void must_be(index right, const char* why) const {
        if (whole() != right) {
            refuse("is ", whole(), ", needs ", right, ": ", why);
        }
    }
    [[nodiscard]] const ordered_json& value() const { return *value_; }

private:
    [[nodiscard]] std::string shown() const {
        const std::string all = value_->dump(-1, ' ', true, ordered_json::error_handler_t::replace);
        return all.size() <= 40 ? all : all.substr(0, 40) + "...";
    }

    std::string file_;
    std::string place_;
    const ordered_json* value_;
};

/// Walks through the rounds and keeps the account that they have to agree with.
class account {
public:
    account(const field& trace, index block_size) : block_size_(block_size) {
        prompt_ = static_cast<index>(trace.at("prompt").tokens().size());
        if (prompt_ == 0) {
            trace.at("prompt").refuse("is empty, needs a token");
        }
        const std::vector<field> rounds = trace.at("rounds").entries();
        for (std::size_t r = 0; r < rounds.size(); ++r) {
            r == 0 ? prefill(rounds[r]) : round(rounds[r]);
            commit(rounds[r], r + 1 == rounds.size());
        }
    }

    [[nodiscard]] index generated() const { return generated_; }
    [[nodiscard]] index rounds() const { return rounds_; }
    [[nodiscard]] const std::vector<index>& slot_drafted() const { return slot_drafted_; }
    [[nodiscard]] const std::vector<index>& slot_accepted() const { return slot_accepted_; }

private:
    void prefill(const field& round) {
        start_ = 0;
        round.at("start").must_be(0, "prefill begins at the first position");
        if (!round.at("anchor").value().is_null()) {
            round.at("anchor").refuse("needs null: prefill has no anchor");
        }
        if (!round.at("drafts").tokens().empty()) {
            round.at("drafts").refuse("needs none: prefill has no drafts");
        }
    }

    void round(const field& round) {
        start_ = prompt_ + generated_ - 1;
        round.at("start").must_be(start_, "the position of the newest token");
        round.at("anchor").must_be(anchor_, "the token committed last");
        const auto drafts = static_cast<index>(round.at("drafts").tokens().size());
        if (drafts > block_size_ - 1) {
            round.at("drafts").refuse("has ", drafts, " tokens, a block of ", block_size_, " has room for ",
                                      block_size_ - 1);
        }
    }

    void commit(const field& round, bool last) {
        const ids drafts = round.at("drafts").tokens();
        const ids posterior = round.at("posterior").tokens();
        const ids committed = round.at("committed").tokens();
        const index accepted = round.at("accepted").whole();
        if (accepted > static_cast<index>(drafts.size())) {
            round.at("accepted").refuse("is ", accepted, ", there are ", drafts.size(), " drafts");
        }
        if (static_cast<index>(posterior.size()) != accepted + 1) {
            round.at("posterior")
                .refuse("has ", posterior.size(), " tokens, needs ", accepted + 1, ": one more than are accepted");
        }
        for (std::size_t i = 0; i < posterior.size() && i < drafts.size(); ++i) {
            if ((posterior[i] == drafts[i]) != (static_cast<index>(i) < accepted)) {
                round.at("accepted")
                    .refuse("is ", accepted, ", but draft ", i, " is ", drafts[i], " and the posterior says ",
                            posterior[i]);
            }
        }
        if (committed.empty() || committed.size() > posterior.size() ||
            !std::equal(committed.begin(), committed.end(), posterior.begin())) {
            round.at("committed").refuse("needs the first tokens of the posterior, one at least");
        }
        if (committed.size() < posterior.size() && !last) {
            round.at("committed")
                .refuse("has ", committed.size(), " of ", posterior.size(),
                        " tokens, and only the last round may be cut");
        }
        count(static_cast<index>(drafts.size()), (std::min)(accepted, static_cast<index>(committed.size())),
              start_ > 0);
        caches(round, static_cast<index>(committed.size()));
        anchor_ = committed.back();
        generated_ += static_cast<index>(committed.size());
    }

    void count(index drafted, index kept, bool is_round) {
        rounds_ += is_round ? 1 : 0;
        if (static_cast<index>(slot_drafted_.size()) < drafted) {
            slot_drafted_.resize(static_cast<std::size_t>(drafted));
            slot_accepted_.resize(static_cast<std::size_t>(drafted));
        }
        for (index i = 0; i < drafted; ++i) {
            slot_drafted_[static_cast<std::size_t>(i)] += 1;
            slot_accepted_[static_cast<std::size_t>(i)] += i < kept ? 1 : 0;
        }
    }

    void caches(const field& round, index committed) {
        const index held = start_ == 0 ? prompt_ : start_ + committed;
        round.at("target_rows").must_be(held, "all positions but the newest");
        const index draft_rows = round.at("draft_rows").whole();
        if (draft_rows < draft_rows_ || draft_rows > held) {
            round.at("draft_rows")
                .refuse("is ", draft_rows, ", needs ", draft_rows_, " .. ", held,
                        ": it grows, and holds no more than the target's cache");
        }
        round.at("fresh_rows").must_be(draft_rows - draft_rows_, "the growth of draft_rows");
        draft_rows_ = draft_rows;
    }

    index block_size_;
    index prompt_ = 0;
    index start_ = 0;
    index generated_ = 0;
    index rounds_ = 0;
    index anchor_ = -1;
    index draft_rows_ = 0;
    std::vector<index> slot_drafted_;
    std::vector<index> slot_accepted_;
};

void check_pieces(const field& trace) {
    const ordered_json& pieces = trace.at("pieces").value();
    if (!pieces.is_object()) {
        trace.at("pieces").refuse("needs an object");
    }
    for (const auto& [id, piece] : pieces.items()) {
        const field here = trace.at("pieces").at(id.c_str());
        if (!piece.is_object()) {
            here.refuse("needs an object");
        }
        for (const char* key : {"text", "bytes"}) {
            if (piece.contains(key)) {
                static_cast<void>(here.at(key).text());
            }
        }
        if (piece.contains("special") && !piece.at("special").is_boolean()) {
            here.at("special").refuse("needs true or false");
        }
    }
    const auto known = [&](const field& list) {
        for (const token_id token : list.tokens()) {
            if (!pieces.empty() && !pieces.contains(std::to_string(token))) {
                trace.at("pieces").refuse("has none for token ", token);
            }
        }
    };
    known(trace.at("prompt"));
    for (const field& round : trace.at("rounds").entries()) {
        known(round.at("drafts"));
        known(round.at("posterior"));
    }
}

void check_statistics(const field& statistics, const account& sums) {
    statistics.at("tokens").must_be(sums.generated(), "the tokens of all rounds");
    statistics.at("rounds").must_be(sums.rounds(), "the rounds without prefill");
    const double mean = statistics.at("mean_acceptance_length").amount();
    const double right =
        sums.rounds() == 0 ? 0.0 : static_cast<double>(sums.generated() - 1) / static_cast<double>(sums.rounds());
    if (std::fabs(mean - right) > 1e-9 * (1 + right)) {
        statistics.at("mean_acceptance_length")
            .refuse("is ", ordered_json(mean).dump(), ", needs ", ordered_json(right).dump(),
                    ": tokens for each round");
    }
    for (const auto& [name, counts] :
         {std::pair("slot_drafted", &sums.slot_drafted()), std::pair("slot_accepted", &sums.slot_accepted())}) {
        if (statistics.at(name).wholes() != *counts) {
            statistics.at(name).refuse("is ", statistics.at(name).value().dump(), ", needs ",
                                       ordered_json(*counts).dump(), ": what the rounds say");
        }
    }
    const std::string reason = statistics.at("finish_reason").text();
    if (reason != "stop" && reason != "length" && reason != "context" && reason != "cancelled") {
        statistics.at("finish_reason").refuse("is \"", reason, "\", needs stop, length, context or cancelled");
    }
    const field seconds = statistics.at("seconds");
    for (const char* part : {"prefill", "draft", "verify", "sample", "total"}) {
        static_cast<void>(seconds.at(part).amount());
    }
    for (const auto& [part, value] : seconds.value().items()) {
        static_cast<void>(seconds.at(part.c_str()).amount());
    }
}

}  // namespace

ordered_json parse_trace(const std::string& name, const std::string& text) {
    ordered_json value;
    try {
        value = ordered_json::parse(text);
    } catch (const ordered_json::exception& failure) {
        raise<io_error>(name, ": is no JSON: ", failure.what());
    }
    const field trace(name, "", value);
    if (const std::string format = trace.at("format").text(); format != "dflash-trace 1") {
        trace.at("format").refuse("is \"", format, "\", needs \"dflash-trace 1\"");
    }
    static_cast<void>(trace.at("target").text());
    static_cast<void>(trace.at("draft").text());
    const account sums(trace, trace.at("block_size").whole(1));
    check_pieces(trace);
    check_statistics(trace.at("statistics"), sums);
    return value;
}

ordered_json read_trace(const std::string& path) {
    errno = 0;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    std::string text;
    if (file != nullptr) {
        char chunk[4096];
        for (std::size_t got = 1; got > 0;) {
            got = std::fread(chunk, 1, sizeof chunk, file.get());
            text.append(chunk, got);
        }
    }
    if (file == nullptr || std::ferror(file.get()) != 0) {
        raise<io_error>(path, ": cannot read: ", std::strerror(errno));
    }
    return parse_trace(path, text);
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
