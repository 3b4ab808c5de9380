// What a conformance kit found: sentences, each with the concept and the number of the axiom that was broken.
//
// The kits never print and need no test framework: they return a report. A finding is a fact about the object under
// test; an empty report says that nothing was found in the cases tried, not that there is nothing.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

/// One broken axiom. Numbers are those in the header of the concept.
struct finding {
    std::string_view subject;  ///< the concept, e.g. "target_model"
    int axiom = 0;
    std::string sentence;
};

/// The findings of one check, first found first; of each axiom the first four.
class report {
public:
    [[nodiscard]] bool passed() const noexcept { return findings_.empty(); }
    [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }

    /// Whether this axiom of this concept was found broken.
    [[nodiscard]] bool broke(std::string_view subject, int axiom) const { return count(subject, axiom) > 0; }

    /// One line a finding: "target_model axiom 3: ...".
    [[nodiscard]] std::string text() const {
        std::string out;
        for (const finding& f : findings_) {
            out += detail::text(f.subject, " axiom ", f.axiom, ": ", f.sentence, "\n");
        }
        return out;
    }

    /// Enters a finding unless the condition holds, and returns the condition.
    template <class... Parts>
    bool expect(bool condition, std::string_view subject, int axiom, const Parts&... parts) {
        if (!condition && count(subject, axiom) < 4) {
            findings_.push_back({subject, axiom, detail::text(parts...)});
        }
        return condition;
    }

    /// Adds another report's findings.
    void absorb(const report& other) {
        for (const finding& f : other.findings_) {
            expect(false, f.subject, f.axiom, f.sentence);
        }
    }

private:
    [[nodiscard]] int count(std::string_view subject, int axiom) const {
        int n = 0;
        for (const finding& f : findings_) {
            n += f.subject == subject && f.axiom == axiom ? 1 : 0;
        }
        return n;
    }

    std::vector<finding> findings_;
};

/// How much a kit tries. The same options try the same cases everywhere.
struct conformance_options {
    std::uint64_t seed = 1;  ///< another seed, other cases
    index cases = 8;         ///< sequences tried
    index longest = 24;      ///< tokens of the longest sequence; less where a model holds less
};

/// A stream of numbers that is the same on every machine. Good enough to choose test cases.
class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed * 2 + 1) {}

    std::uint64_t roll() {
        state_ = state_ * 0x5851F42D4C957F2DU + 0x14057B7EF767814FU;
        const std::uint64_t folded = (state_ ^ (state_ >> 33)) * 0xD1342543DE82EF95U;
        return folded ^ (folded >> 29);
    }

    /// 0 .. n - 1.
    index below(index n) { return static_cast<index>((roll() >> 1) % static_cast<std::uint64_t>(n)); }

    /// 0 .. 1, the 1 excluded.
    float fraction() { return static_cast<float>(roll() >> 40) / 16777216.0F; }

    /// A token of the vocabulary.
    token_id token(index vocab_size) { return static_cast<token_id>(below(vocab_size)); }

    /// n tokens of the vocabulary.
    std::vector<token_id> tokens(index n, index vocab_size) {
        std::vector<token_id> out(static_cast<std::size_t>(n));
        for (token_id& t : out) {
            t = token(vocab_size);
        }
        return out;
    }

private:
    std::uint64_t state_;
};

namespace internal {

/// Whether f raises. Without exceptions it is not called: what cannot be tested is not held against anyone.
template <class F>
bool raises(F f) {
#if DFLASH_HAS_EXCEPTIONS
    try {
        f();
    } catch (...) {
        return true;
    }
    return false;
#else
    static_cast<void>(f);
    return true;
#endif
}

/// Runs a kit. What it raises is a finding, too, with the number 0.
template <class F>
report collect(std::string_view subject, F f) {
    report found;
#if DFLASH_HAS_EXCEPTIONS
    try {
        f(found);
    } catch (const std::exception& e) {
        found.expect(false, subject, 0, "a case raised: ", e.what());
    }
#else
    static_cast<void>(subject);
    f(found);
#endif
    return found;
}

}  // namespace internal

}  // namespace testing

DFLASH_END_NAMESPACE
