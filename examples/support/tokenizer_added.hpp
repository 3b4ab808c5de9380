// Added tokens: texts such as "<|im_end|>" that are found in the input before anything else happens to it.
//
// Matching is leftmost, and longest at equal beginnings. What lies between the matches is handed on.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Finds a set of texts in other texts.
class added_tokens {
public:
    /// Adds a token. `text` must not be empty.
    void add(std::string_view text, token_id id) {
        auto& same_start = by_first_byte_[static_cast<unsigned char>(text.front())];
        const auto longer = [](const entry& a, const entry& b) { return a.text.size() > b.text.size(); };
        entry added{std::string(text), id};
        same_start.insert(std::upper_bound(same_start.begin(), same_start.end(), added, longer), added);
    }

    /// Calls `on_text(std::string_view)` for every stretch without a token and `on_token(token_id)` for every token,
    /// in order. Empty stretches are left out.
    template <class OnText, class OnToken>
    void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
        std::size_t begin = 0;
        std::size_t at = 0;
        while (at < text.size()) {
            const entry* found = longest_at(text.substr(at));
            if (found == nullptr) {
                ++at;
                continue;
            }
            if (at > begin) {
                on_text(text.substr(begin, at - begin));
            }
            on_token(found->id);
            at += found->text.size();
            begin = at;
        }
        if (begin < text.size()) {
            on_text(text.substr(begin));
        }
    }

private:
    struct entry {
        std::string text;
        token_id id = 0;
    };

    [[nodiscard]] const entry* longest_at(std::string_view text) const {
        for (const entry& e : by_first_byte_[static_cast<unsigned char>(text.front())]) {
            if (text.substr(0, e.text.size()) == e.text) {
                return &e;
            }
        }
        return nullptr;
    }

    std::array<std::vector<entry>, 256> by_first_byte_;  // each with the longest text first
};

}  // namespace examples
DFLASH_END_NAMESPACE
