// A drafter that follows a script and keeps a record: exact, never right, wrong at one slot, random, silent, hostile.
//
// A guess is a function of the script, the number of committed tokens and the slot, so that a test can work out what
// every round must do. The drafter checks what it is asked and told, and lists what was wrong with it.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <dflash/concepts/drafter.hpp>
#include <dflash/testing/report.hpp>
#include <support/toy_models.hpp>

namespace dflash::test {

enum class guess { exact, never, wrong_at, random, nothing, few, hostile };

inline constexpr guess every_guess[] = {guess::exact,   guess::never, guess::wrong_at, guess::random,
                                        guess::nothing, guess::few,   guess::hostile};

/// What to guess. `stream` is prompt and serial continuation by absolute position.
struct script {
    std::vector<token_id> stream;
    index vocab = 11;
    guess kind = guess::exact;
    index slot = 1;                       ///< wrong_at: the slot that is wrong, from 0
    std::uint64_t seed = 1;               ///< random, few, hostile
    std::vector<token_id> hostile{0, 6};  ///< hostile: the ids to choose from (stop ids, mask ids)

    [[nodiscard]] std::uint64_t noise(index committed, index j) const {
        return testing::dice(seed + 1000003U * static_cast<std::uint64_t>(committed) + static_cast<std::uint64_t>(j))
            .roll();
    }

    /// How many ids are proposed when there is room for `room`.
    [[nodiscard]] index count(index committed, index room) const {
        if (kind == guess::nothing) {
            return 0;
        }
        return kind == guess::few ? static_cast<index>(noise(committed, 99) % static_cast<std::uint64_t>(room + 1))
                                  : room;
    }

    /// The guess for position committed + j.
    [[nodiscard]] token_id token(index committed, index j) const {
        const auto at = static_cast<std::size_t>(committed + j);
        const token_id right = at < stream.size() ? stream[at] : 0;
        const auto wrong = static_cast<token_id>((right + 1) % vocab);
        const std::uint64_t dice = noise(committed, j);
        switch (kind) {
            case guess::never: return wrong;
            case guess::wrong_at: return j == slot ? wrong : right;
            case guess::random: return dice % 4 == 0 ? static_cast<token_id>((dice >> 8) % 11) : right;
            case guess::hostile: return dice % 3 == 0 ? right : hostile[(dice >> 8) % hostile.size()];
            default: return right;
        }
    }
};

/// Where a scripted drafter raises.
struct drafter_faults {
    index propose_at = -1;  ///< the call of propose, counted from 0, that raises
    index commit_at = -1;   ///< the call of commit that raises
    bool late = false;      ///< after the work instead of before
};

class scripted_drafter {
public:
    explicit scripted_drafter(script s, index feature_size = 0, index max_positions = 100000)
        : script_(std::move(s)), feature_size_(feature_size), max_positions_(max_positions) {}

    [[nodiscard]] index feature_size() const { return feature_size_; }
    [[nodiscard]] index max_positions() const { return max_positions_; }
    [[nodiscard]] index context_length() const { return static_cast<index>(tokens.size()); }

    void reserve(index n) {
        tokens.reserve(static_cast<std::size_t>(n));
        features.reserve(static_cast<std::size_t>(n * feature_size_));
    }

    void propose(const draft_request& request, draft_output<>& out) {
        const bool raises = proposals++ == faults.propose_at;
        const index committed = size_of(request.committed);
        note(committed - 1 == context_length(), "propose() with another context than the committed tokens");
        note(request.block >= 2 && size_of(out.tokens) == request.block - 1,
             "propose() with room that is not block - 1");
        note(committed + request.block - 1 <= max_positions_, "propose() past max_positions()");
        note(context_length() < committed && std::equal(tokens.begin(), tokens.end(), request.committed.begin()),
             "propose() with committed tokens that differ from what commit() was told");
        if (raises && !faults.late) {
            throw injected_error();
        }
        out.count = script_.count(committed, request.block - 1);
        for (index j = 0; j < out.count; ++j) {
            out.tokens[static_cast<std::size_t>(j)] = script_.token(committed, j);
        }
        if (raises) {
            throw injected_error();
        }
    }

    void commit(std::span<const token_id> more, matrix_view<const float> rows) {
        const bool raises = commits++ == faults.commit_at;
        if (raises && !faults.late) {
            throw injected_error();
        }
        note(rows.rows() == (feature_size_ == 0 ? 0 : size_of(more)), "commit() with another number of feature rows");
        note(context_length() + size_of(more) <= max_positions_, "commit() past max_positions()");
        tokens.insert(tokens.end(), more.begin(), more.end());
        for (index r = 0; r < rows.rows(); ++r) {
            features.insert(features.end(), rows.row(r).begin(), rows.row(r).end());
        }
        if (raises) {
            throw injected_error();
        }
    }

    void crop(index n) {
        note(n >= 0 && n <= context_length(), "crop() past the context");
        tokens.resize(static_cast<std::size_t>(n));
        features.resize(static_cast<std::size_t>(n * feature_size_));
    }

    void reset() { crop(0); }

    std::vector<token_id> tokens;  ///< what commit() was told, by position
    std::vector<float> features;
    std::string complaints;  ///< empty while all is well
    index proposals = 0;
    index commits = 0;
    drafter_faults faults;

private:
    void note(bool good, const char* sentence) {
        if (!good && complaints.size() < 1000) {
            complaints += sentence;
            complaints += "; ";
        }
    }

    script script_;
    index feature_size_;
    index max_positions_;
};

}  // namespace dflash::test
