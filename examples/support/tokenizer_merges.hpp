// Byte-pair merges: of all neighbours that may be merged, the pair listed first in the file goes first, the leftmost
// of equals before the others, until none is left.
//
// Works on ids alone; what the ids stand for is not its business. A word of n symbols costs O(n log n).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// The merges of a BPE model, in the order of their ranks.
class merge_table {
public:
    /// Adds the merge of the next rank. False if the pair is there already.
    [[nodiscard]] bool add(token_id left, token_id right, token_id result) {
        return merges_.try_emplace(key(left, right), merge{static_cast<std::int32_t>(merges_.size()), result}).second;
    }

    /// Merges `symbols` as far as they go and appends what is left to `out`.
    void apply(std::span<const token_id> symbols, std::vector<token_id>& out) const {
        std::vector<symbol> chain;
        chain.reserve(symbols.size());
        for (const token_id id : symbols) {
            const index here = static_cast<index>(chain.size());
            chain.push_back({id, here - 1, here + 1});
        }
        std::vector<candidate> heap;
        const auto consider = [&](index left) {
            const merge* found = merge_at(chain, left);
            if (found != nullptr) {
                heap.push_back({found->rank, left});
                std::push_heap(heap.begin(), heap.end(), later);
            }
        };
        for (index i = 0; i + 1 < static_cast<index>(chain.size()); ++i) {
            consider(i);
        }
        while (!heap.empty()) {
            std::pop_heap(heap.begin(), heap.end(), later);
            const candidate best = heap.back();
            heap.pop_back();
            // Earlier merges may have changed the pair since it was put here.
            const merge* found = merge_at(chain, best.left);
            if (found == nullptr || found->rank != best.rank) {
                continue;
            }
            symbol& left = at(chain, best.left);
            symbol& right = at(chain, left.next);
            left.id = found->result;
            left.next = right.next;
            right.id = gone;
            if (left.next < static_cast<index>(chain.size())) {
                at(chain, left.next).previous = best.left;
            }
            consider(best.left);
            if (left.previous >= 0) {
                consider(left.previous);
            }
        }
        for (const symbol& s : chain) {
            if (s.id != gone) {
                out.push_back(s.id);
            }
        }
    }

private:
    struct merge {
        std::int32_t rank = 0;
        token_id result = 0;
    };
    struct symbol {
        token_id id = 0;
        index previous = 0;
        index next = 0;
    };
    struct candidate {
        std::int32_t rank = 0;
        index left = 0;
    };
    static constexpr token_id gone = -1;

    [[nodiscard]] static bool later(const candidate& a, const candidate& b) noexcept {
        return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    }

    [[nodiscard]] static std::uint64_t key(token_id left, token_id right) noexcept {
        return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
               static_cast<std::uint64_t>(static_cast<std::uint32_t>(right));
    }

    [[nodiscard]] static symbol& at(std::vector<symbol>& chain, index i) { return chain[static_cast<std::size_t>(i)]; }

    /// The merge of the symbol at `left` with its neighbour, or null.
    [[nodiscard]] const merge* merge_at(std::vector<symbol>& chain, index left) const {
        const symbol& first = at(chain, left);
        if (first.id == gone || first.next >= static_cast<index>(chain.size())) {
            return nullptr;
        }
        const auto found = merges_.find(key(first.id, at(chain, first.next).id));
        return found == merges_.end() ? nullptr : &found->second;
    }

    // The keys are pairs of small numbers, which the identity hash of the standard library would heap up.
    struct mixed {
        [[nodiscard]] std::size_t operator()(std::uint64_t k) const noexcept {
            k *= 0x9E3779B97F4A7C15U;
            return static_cast<std::size_t>(k ^ (k >> 32U));
        }
    };
    std::unordered_map<std::uint64_t, merge, mixed> merges_;
};

}  // namespace examples
DFLASH_END_NAMESPACE
