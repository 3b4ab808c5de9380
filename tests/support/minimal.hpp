// Hostile doubles: each implements its concept and nothing else. No default constructors, no copies, sizes of other
// integer types, nothing const that need not be.
#pragma once

#include <memory>
#include <span>

#include <dflash/concepts/block_policy.hpp>
#include <dflash/concepts/observer.hpp>
#include <dflash/decode/acceptance.hpp>
#include <support/toy_models.hpp>

namespace dflash::test::minimal {

/// Deletes what no concept asks for.
struct bare {
    explicit bare(int) {}
    bare(bare&&) = default;
    bare& operator=(bare&&) = default;
    bare(const bare&) = delete;
    bare& operator=(const bare&) = delete;
    ~bare() = default;
};

/// Deletes moves as well.
struct rooted {
    explicit rooted(int) {}
    rooted(const rooted&) = delete;
    rooted& operator=(const rooted&) = delete;
    ~rooted() = default;
};

class cache : bare {
public:
    explicit cache(index capacity) : bare(0), rows_(std::make_unique<snapshot_cache<last_token_law>>(capacity)) {}
    [[nodiscard]] short length() const { return static_cast<short>(rows_->length()); }
    [[nodiscard]] int capacity() const { return static_cast<int>(rows_->capacity()); }
    bool crop(index n) {
        rows_->crop(n);
        return true;
    }

private:
    friend class model;
    std::unique_ptr<snapshot_cache<last_token_law>> rows_;
};

class model : rooted {
public:
    using space = host_space;
    using cache_type = cache;
    static constexpr determinism guarantee = determinism::batch_invariant;

    explicit model(int) : rooted(0) {}
    [[nodiscard]] int vocab_size() const { return 11; }
    [[nodiscard]] short max_positions() const { return 500; }
    [[nodiscard]] cache make_cache(index n) { return cache(n); }
    int forward(std::span<const token_id> tokens, cache& state, const forward_output<>& out) {
        inner_.forward(tokens, *state.rows_, {out.logits, {}});
        return 0;
    }

private:
    model_t inner_;
};

class drafter : rooted {
public:
    explicit drafter(int) : rooted(0) {}
    [[nodiscard]] int feature_size() const { return 0; }
    [[nodiscard]] short context_length() const { return length_; }
    [[nodiscard]] int max_positions() const { return 300; }
    void reserve(index) {}
    void propose(const draft_request& request, draft_output<>& out) {
        const index p = size_of(request.committed) - 1;
        token_id token = request.committed.back();
        for (index i = 0; i + 1 < request.block; ++i) {
            token = static_cast<token_id>((3 * token + p + i + 1 + i % 3) % 11);
            out.tokens[static_cast<std::size_t>(out.count++)] = token;
        }
    }
    void commit(std::span<const token_id> tokens, matrix_view<const float>) {
        length_ = static_cast<short>(length_ + size_of(tokens));
    }
    void crop(index n) { length_ = static_cast<short>(n); }
    void reset() { length_ = 0; }

private:
    short length_ = 0;
};

struct sampler : bare {
    using bare::bare;
    [[nodiscard]] token_id pick(std::span<const float> logits, index position) const {
        return static_cast<token_id>((std::max_element(logits.begin(), logits.end()) - logits.begin() + position % 2) %
                                     11);
    }
};

struct rule : bare {
    using bare::bare;
    static constexpr bool lossless = true;
    [[nodiscard]] verdict accept(const accept_call<>& call, sampler& s) const {
        return sample_and_match{}.accept(call, static_cast<const sampler&>(s));
    }
};

struct policy : bare {
    using bare::bare;
    [[nodiscard]] int max_block() { return 5; }
    [[nodiscard]] short next(index limit) { return static_cast<short>(limit < 5 ? limit : 5); }
    int record(const round_report&) { return 0; }
};

struct observer : bare {
    explicit observer(index* seen) : bare(0), count(seen) {}
    void operator()(const round_event<>& e) { *count += size_of(e.tokens); }
    index* count;
};

}  // namespace dflash::test::minimal
