// How to look inside without changing anything: an observer is called with events it knows and ignored otherwise.
//
// Axioms
//   1. An observer reads views that are valid during the call only, and changes nothing.
//   2. It costs nothing when absent: an event an observer cannot be called with is never built.
//   3. An observer of a decoder can be called with the decoder's round_event. One that is written for another memory
//      space is refused: it would see nothing, and say nothing of it.
#pragma once

#include <span>
#include <string_view>
#include <type_traits>

#include <dflash/concepts/block_policy.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// A tensor on its way: name as in the papers ("context", "q", "draft_logits", ...), layer or -1, rows.
template <class Space = host_space>
struct tensor_event {
    std::string_view name;
    index layer = -1;
    index position = 0;  ///< absolute position of row 0
    matrix_view<const float, Space> rows;
};

/// A round that was committed. `logits` are the verify rows; row i is the law of position first + i.
template <class Space = host_space>
struct round_event {
    index first = 0;                   ///< position of the first token of the round
    std::span<const token_id> drafts;  ///< what was proposed
    std::span<const token_id> tokens;  ///< what was committed
    matrix_view<const float, Space> logits;
    round_report report;
};

/// The observer that sees nothing.
struct no_observer {};

/// Checks axiom 3 with a sentence. `static_assert(round_observer_check<T, Space>());`
template <class T, class Space>
consteval bool round_observer_check() {
    constexpr bool hears = std::is_same_v<T, no_observer> || std::is_invocable_v<T&, const round_event<Space>&>;
    static_assert(hears,
                  "observer: it cannot be called with const round_event<Space>& of the model's memory space, so it "
                  "would record nothing (rows on a device need an observer of their own)");
    return hears;
}

/// Calls the observer with the event that `make` builds, if it can be called with it.
template <class Event, class Observer, class Make>
constexpr void notify(Observer& observer, Make make) {
    if constexpr (std::is_invocable_v<Observer&, const Event&>) {
        observer(make());
    }
}

DFLASH_END_NAMESPACE
