// Is speculative decoding with this model lossless? Runs both, compares tokens and the bits of every logit row.
//
// Takes any model, also one that promises nothing: auditing is its use. The report says where the first token differs
// and how close the two best logits were there, because near ties are where reordered sums show.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <dflash/decode/serial.hpp>
#include <dflash/decode/speculative.hpp>
#include <dflash/numerics/digest.hpp>

DFLASH_BEGIN_NAMESPACE

namespace testing {

/// The two largest logits of a row, the lower id first among equals.
struct top_two {
    token_id first = -1;
    token_id second = -1;
    float first_logit = 0;
    float second_logit = 0;

    /// How many representable numbers lie between the two; 0 is a tie.
    [[nodiscard]] std::uint64_t gap_in_ulps() const noexcept {
        const auto order = [](float x) {
            const auto bits = std::bit_cast<std::int32_t>(x == 0.0F ? 0.0F : x);
            return static_cast<std::int64_t>(bits < 0 ? (std::int32_t{-2147483647 - 1} - bits) : bits);
        };
        const std::int64_t distance = order(first_logit) - order(second_logit);
        return static_cast<std::uint64_t>(distance < 0 ? -distance : distance);
    }
};

/// Finds them. The row must not be empty.
[[nodiscard]] inline top_two find_top_two(std::span<const float> row) {
    top_two top;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (top.first < 0 || row[i] > top.first_logit) {
            top.second = top.first;
            top.second_logit = top.first_logit;
            top.first = static_cast<token_id>(i);
            top.first_logit = row[i];
        } else if (top.second < 0 || row[i] > top.second_logit) {
            top.second = static_cast<token_id>(i);
            top.second_logit = row[i];
        }
    }
    return top;
}

/// One committed token and the row it was taken from.
struct committed_row {
    token_id token = -1;
    top_two top;
    std::uint64_t digest = 0;  ///< of the row's bits
};

/// An observer that remembers the row of every committed token.
class row_recorder {
public:
    explicit row_recorder(std::vector<committed_row>& rows) : rows_(&rows) {}

    void operator()(const round_event<>& round) const {
        for (index i = 0; i < size_of(round.tokens); ++i) {
            const std::span<const float> row = round.logits.row(i);
            numerics::digest bits;
            bits.add(row);
            rows_->push_back({round.tokens[static_cast<std::size_t>(i)], find_top_two(row), bits.value()});
        }
    }

private:
    std::vector<committed_row>* rows_;
};

/// Where the two ways of decoding first give different tokens. A token of -1: that side had already ended.
struct lossless_difference {
    index prompt = 0;    ///< which prompt
    index position = 0;  ///< absolute position of the token
    token_id serial = -1;
    token_id speculative = -1;
    top_two serial_row;
    top_two speculative_row;
};

/// The outcome of verify_lossless.
struct lossless_report {
    bool equal = true;  ///< all tokens and all finish reasons
    index prompts = 0;
    index tokens = 0;          ///< serial tokens over all prompts
    index differing_rows = 0;  ///< logit rows of equal tokens whose bits differ (before the first difference)
    std::optional<lossless_difference> first;
    index rounds = 0;
    index drafted = 0;
    index accepted = 0;

    /// Tokens and bits.
    [[nodiscard]] bool bit_equal() const noexcept { return equal && differing_rows == 0; }
    [[nodiscard]] double mean_acceptance_length() const noexcept {
        return rounds == 0 ? 0.0 : static_cast<double>(tokens - prompts) / static_cast<double>(rounds);
    }
};

/// Decodes every prompt serially and speculatively and compares. Errors: those of the decoders.
template <target_model Model, class Drafter, class Sampler, class Block = fixed_block,
          class Acceptance = sample_and_match>
lossless_report verify_lossless(Model& model, Drafter& drafter, const Sampler& sampler,
                                std::span<const std::vector<token_id>> prompts, const generation_limits& limits,
                                const Block& block, noise_key noise = {}, const Acceptance& rule = {}) {
    static_assert(Acceptance::same_tokens,
                  "verify_lossless: compares tokens, so the rule must promise the same tokens");
    lossless_report report;
    std::vector<committed_row> serial_rows;
    std::vector<committed_row> block_rows;
    serial_decoder<Model, Sampler, Acceptance, row_recorder> serial(model, sampler, rule, row_recorder(serial_rows));
    speculative_decoder<Model, Drafter, Sampler, Acceptance, Block, row_recorder, allow_numeric_drift> speculative(
        model, drafter, block, sampler, rule, row_recorder(block_rows));
    for (const std::vector<token_id>& prompt : prompts) {
        serial_rows.clear();
        block_rows.clear();
        const generation_result expected = serial.generate(prompt, limits, noise);
        const generation_result got = speculative.generate(prompt, limits, noise);
        report.tokens += static_cast<index>(expected.tokens.size());
        report.rounds += got.stats.rounds;
        report.drafted += got.stats.drafted;
        report.accepted += got.stats.accepted;
        const std::size_t most = (std::max)(serial_rows.size(), block_rows.size());
        for (std::size_t i = 0; i < most; ++i) {
            const committed_row a = i < serial_rows.size() ? serial_rows[i] : committed_row{};
            const committed_row b = i < block_rows.size() ? block_rows[i] : committed_row{};
            if (a.token != b.token) {
                report.equal = false;
                if (!report.first) {
                    report.first = {report.prompts, size_of(std::span(prompt)) + static_cast<index>(i),
                                    a.token,        b.token,
                                    a.top,          b.top};
                }
                break;
            }
            report.differing_rows += a.digest != b.digest ? 1 : 0;
        }
        report.equal = report.equal && expected.reason == got.reason && expected.tokens == got.tokens;
        ++report.prompts;
    }
    return report;
}

}  // namespace testing

DFLASH_END_NAMESPACE
