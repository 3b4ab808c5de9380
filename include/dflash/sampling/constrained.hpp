// Samplers whose law depends on the tokens before: penalties, grammars, any mask of the user's.
//
// A constraint changes a row of logits before the sampler sees it. It is told of the prompt, of committed tokens and,
// in a copy, of the drafts that were accepted before the row at hand: never of a rejected one.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <dflash/concepts/sampler.hpp>
#include <dflash/sampling/scratch.hpp>

DFLASH_BEGIN_NAMESPACE

/// Axioms
///   1. A copy is independent: what it is told, the original does not notice. Copies are made every round.
///   2. apply(logits) depends on what it was told and changes logits in place, to finite values or -inf (forbidden).
///   3. advance(token) tells it of the next token of the sequence, the prompt's first.
///   Optional: start(), called once between the prompt's last token and the first generated one.
template <class T>
concept token_constraint = std::copy_constructible<T> &&
                           requires(T& constraint, const T& const_constraint, std::span<float> logits, token_id token) {
                               const_constraint.apply(logits);
                               constraint.advance(token);
                           };

/// A sequence_sampler: `Base` over logits that `Constraint` has changed. Constraints nest.
template <token_sampler Base, token_constraint Constraint>
class constrained {
public:
    constrained(Base base, Constraint constraint) : base_(std::move(base)), constraint_(std::move(constraint)) {}

    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        return base_.pick(changed(logits), position);
    }

    [[nodiscard]] bool scores(std::span<const float> logits, std::span<float> out) const
        requires law_sampler<Base>
    {
        return base_.scores(changed(logits), out);
    }

    void reseed(noise_key key)
        requires requires(Base& base) { base.reseed(key); }
    {
        base_.reseed(key);
    }

    [[nodiscard]] constrained fork() const {
        if constexpr (sequence_sampler<Base>) {
            return constrained(base_.fork(), constraint_);
        } else {
            return constrained(base_, constraint_);
        }
    }

    void advance(token_id token) {
        constraint_.advance(token);
        if constexpr (sequence_sampler<Base>) {
            base_.advance(token);
        }
    }

    void start() {
        if constexpr (requires { constraint_.start(); }) {
            constraint_.start();
        }
        if constexpr (requires { base_.start(); }) {
            base_.start();
        }
    }

    [[nodiscard]] const Constraint& constraint() const noexcept { return constraint_; }

private:
    std::span<const float> changed(std::span<const float> logits) const {
        std::vector<float>& row = scratch_.get();
        row.assign(logits.begin(), logits.end());
        constraint_.apply(row);
        return row;
    }

    Base base_;
    Constraint constraint_;
    mutable detail::scratch<float> scratch_;  // (v)
};

DFLASH_END_NAMESPACE
