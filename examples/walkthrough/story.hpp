// The story both casts tell: "The cat sat" goes on with "on the mat in the sun . It slept . <end>", and the first block
// of drafts is "the mat ." where the target says "the mat in".
#pragma once

#include <string>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// The vocabulary, by id.
namespace words {
enum word : token_id { The, cat, sat, on, the, mat, in, sun, stop, It, slept, end, mask, dog, ran, also, count };
}

[[nodiscard]] inline std::vector<std::string> story_words() {
    return {"The", "cat", "sat",   "on",    "the",  "mat", "in",  "sun",
            ".",   "It",  "slept", "<end>", "MASK", "dog", "ran", "and"};
}

struct story {
    std::vector<token_id> prompt = {words::The, words::cat, words::sat};
    std::vector<token_id> continuation = {words::on,   words::the, words::mat,   words::in,   words::the, words::sun,
                                          words::stop, words::It,  words::slept, words::stop, words::end};
    std::vector<token_id> drafts = {words::the, words::mat, words::stop};   ///< of the first round
    std::vector<token_id> posterior = {words::the, words::mat, words::in};  ///< what the target says to them
    index block = 4;
    index start = 3;  ///< position of the first token after the prompt
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
