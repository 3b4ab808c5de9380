// The tables of step 4: rotations, Q, K, V, weights, out; and attention as a picture.
#pragma once

#include "walkthrough/classroom.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// cos and sin of every position of the window.
void show_rotations(page& out, const classroom& room, const std::vector<std::string>& keys);

/// Everything attention of one layer read and wrote.
void show_attention(page& out, const classroom& room, index layer, const std::vector<std::string>& queries,
                    const std::vector<std::string>& keys);

/// What each row of K and V is made of.
void list_rows(page& out, const classroom& room);

/// "out_5 = 2/13 v0 + ... | ...": one query of layer 0, head 0, as a sum over keys, the context's part first.
[[nodiscard]] std::string expanded(const classroom& room, index query);

/// Who sees whom, here and where each position only looks left (EAGLE).
void draw_masks(page& out, const classroom& room, const std::vector<std::string>& queries,
                const std::vector<std::string>& keys);

/// The share of a query's weights that the context has, in layer 0 and head 0; 0 when it has none.
[[nodiscard]] float context_share(const classroom& room, index query);

}  // namespace walkthrough
DFLASH_END_NAMESPACE
