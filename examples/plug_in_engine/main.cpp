// A foreign engine in the decoder: a tiny language model with a cache of its own, and a drafter that looks things up.
//
// The engine implements target_model and nothing else: no layers, no features, no backend of the library. The program
// asks verify_lossless whether decoding it in blocks gives what decoding it token by token gives, prints EQUAL, and
// then decodes a text.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <vector>

#include <dflash/decode/speculative.hpp>
#include <dflash/sampling/greedy.hpp>
#include <dflash/testing/lossless.hpp>

using dflash::index;
using dflash::token_id;

namespace {

/// The law of the next token is a hash of the two tokens before it. Its cache is the list of tokens it has seen.
class hash_engine {
public:
    struct cache_type {
        std::vector<token_id> seen;
        index room = 0;

        [[nodiscard]] index length() const { return static_cast<index>(seen.size()); }
        [[nodiscard]] index capacity() const { return room; }
        void crop(index n) { seen.resize(static_cast<std::size_t>(n)); }
    };
    using space = dflash::host_space;
    static constexpr dflash::determinism guarantee = dflash::determinism::cross_isa;

    [[nodiscard]] index vocab_size() const { return 12; }
    [[nodiscard]] index max_positions() const { return 4096; }
    [[nodiscard]] cache_type make_cache(index n) const { return {{}, n}; }

    void forward(std::span<const token_id> tokens, cache_type& cache, const dflash::forward_output<>& out) {
        if (cache.length() + dflash::size_of(tokens) > cache.capacity()) {
            dflash::raise<dflash::config_error>("hash_engine: the cache has room for ", cache.capacity(), " positions");
        }
        const index silent = dflash::size_of(tokens) - out.logits.rows();
        for (index i = 0; i < dflash::size_of(tokens); ++i) {
            cache.seen.push_back(tokens[static_cast<std::size_t>(i)]);
            if (i >= silent) {
                write_logits(cache.seen, out.logits.row(i - silent));
            }
        }
    }

private:
    static void write_logits(const std::vector<token_id>& seen, std::span<float> row) {
        std::uint64_t state = 1;
        for (std::size_t back = 1; back <= 2 && back <= seen.size(); ++back) {
            state = (state * 31 + static_cast<std::uint64_t>(seen[seen.size() - back]) + 1) * 0x9E3779B97F4A7C15U;
        }
        for (std::size_t token = 0; token < row.size(); ++token) {
            const std::uint64_t mixed = (state ^ (state >> 29U)) * (2 * token + 0xBF58476D1CE4E5B9U);
            row[token] = static_cast<float>(mixed >> 40U);
        }
    }
};

/// Proposes what followed the last two tokens when they last stood together. It wants no features.
class lookup_drafter {
public:
    [[nodiscard]] index feature_size() const { return 0; }
    [[nodiscard]] index context_length() const { return length_; }
    [[nodiscard]] index max_positions() const { return (std::numeric_limits<index>::max)(); }
    void reserve(index) {}
    void commit(std::span<const token_id> tokens, dflash::matrix_view<const float>) {
        length_ += dflash::size_of(tokens);
    }
    void crop(index n) { length_ = n; }
    void reset() { length_ = 0; }

    void propose(const dflash::draft_request& request, dflash::draft_output<>& out) {
        const std::span<const token_id> known = request.committed;
        for (std::size_t end = known.size() - 1; end >= 2; --end) {
            if (known[end - 1] == known.back() && known[end - 2] == known[known.size() - 2]) {
                const std::size_t count = (std::min)(known.size() - end, out.tokens.size());
                std::copy_n(known.begin() + static_cast<index>(end), count, out.tokens.begin());
                out.count = static_cast<index>(count);
                return;
            }
        }
    }

private:
    index length_ = 0;
};

static_assert(dflash::target_model_check<hash_engine>());
static_assert(dflash::drafter_check<lookup_drafter, hash_engine>());

}  // namespace

int main() {
    hash_engine engine;
    lookup_drafter drafter;
    const std::vector<std::vector<token_id>> prompts = {{0}, {1, 2, 3}, {7, 7, 4, 11, 5}};
    const dflash::testing::lossless_report report = dflash::testing::verify_lossless(
        engine, drafter, dflash::greedy{}, prompts, {.max_new_tokens = 200, .stop_tokens = {}, .stop_sequences = {}},
        dflash::fixed_block(8));
    std::printf("%s: %td tokens of %td prompts, %.2f tokens a round\n", report.bit_equal() ? "EQUAL" : "DIFFERENT",
                report.tokens, report.prompts, report.mean_acceptance_length());

    // [decode-a-text]
    // Decoding itself: every round is handed over as it comes; returning false would end the text.
    dflash::speculative_decoder decoder(engine, drafter, dflash::fixed_block(8));
    dflash::generation_limits limits;
    limits.max_new_tokens = 20;
    decoder.generate(prompts[1], limits, [](const dflash::round_view& round) {
        for (const token_id token : round.tokens) {
            std::printf("%d ", token);
        }
        return true;
    });
    // [/decode-a-text]
    std::printf("\n");
    return report.bit_equal() ? 0 : 1;
}
