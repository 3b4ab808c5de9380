// The options about chance that programs share.
#pragma once

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/chosen.hpp"
#include "common/program.hpp"

DFLASH_BEGIN_NAMESPACE
namespace examples {

/// Adds the options to a parser; choice() is what they say.
class sampling_flags {
public:
    explicit sampling_flags(CLI::App& app) {
        CLI::Option_group* group = app.add_option_group("Sampling");
        group->add_option("--temperature", choice_.law.temperature, "0: the best token, always; 1: the model's own law")
            ->type_name("T")
            ->capture_default_str();
        group->add_option("--top-k", choice_.law.top_k, "Keep the K likeliest tokens; 0: all")
            ->transform(whole_number(0, index{1} << 40))
            ->type_name("K")
            ->capture_default_str();
        group->add_option("--top-p", choice_.law.top_p, "Keep the likeliest tokens that have P together; 1: all")
            ->type_name("P")
            ->capture_default_str();
        group->add_option("--min-p", choice_.law.min_p, "Keep tokens with at least M times the likeliest's probability")
            ->type_name("M")
            ->capture_default_str();
        group->add_option("--logit-bias", biases_, "Add to the logit of a token; -inf forbids it; may be repeated")
            ->allow_extra_args(false)
            ->type_name("ID:BIAS");
        group
            ->add_option("--repetition-penalty", choice_.penalties.repetition,
                         "Divide positive logits of tokens that occurred, multiply others")
            ->type_name("R")
            ->capture_default_str();
        group
            ->add_option("--frequency-penalty", choice_.penalties.frequency,
                         "Take off for every time a token was generated")
            ->type_name("F")
            ->capture_default_str();
        group->add_option("--presence-penalty", choice_.penalties.presence, "Take off once if a token was generated")
            ->type_name("F")
            ->capture_default_str();
        group->add_option("--seed", seed_, "The key of all draws: the same seed, the same text")
            ->type_name("N")
            ->capture_default_str();
    }

    /// Adds what only speculative decoding can choose.
    void add_acceptance(CLI::App& app) {
        CLI::Option_group* group = app.add_option_group("Drafts");
        acceptance_option_ =
            group
                ->add_option("--acceptance", acceptance_,
                             "match: the very tokens of plain sampling; rejection: their law; typical: neither, lossy")
                ->check(CLI::IsMember({"match", "rejection", "typical"}))
                ->type_name("RULE")
                ->capture_default_str();
        drafts_option_ =
            group
                ->add_option("--draft-sampling", drafts_,
                             "argmax: the likeliest; coupled: with the target's noise; sampled: with noise of its own")
                ->check(CLI::IsMember({"argmax", "coupled", "sampled"}))
                ->type_name("HOW")
                ->default_str("coupled; with rejection: sampled; with typical: argmax");
    }

    /// Whether --acceptance or --draft-sampling was given.
    [[nodiscard]] bool drafting_chosen() const { return acceptance_option_->count() + drafts_option_->count() > 0; }

    /// After parsing. Errors: config_error for values that make no sense.
    [[nodiscard]] sampling_choice choice() const {
        sampling_choice out = choice_;
        for (const std::string& text : biases_) {
            out.law.biases.push_back(parse_bias(text));
        }
        const char* end = seed_.data() + seed_.size();
        const auto [stop, status] = std::from_chars(seed_.data(), end, out.noise.seed);
        if (status != std::errc() || stop != end) {
            raise<config_error>("--seed: got \"", seed_, "\", needs a whole number 0 .. 18446744073709551615");
        }
        out.acceptance = acceptance_ == "match"       ? acceptance_kind::match
                         : acceptance_ == "rejection" ? acceptance_kind::rejection
                                                      : acceptance_kind::typical;
        const std::string drafts = !drafts_.empty()                               ? drafts_
                                   : out.acceptance == acceptance_kind::match     ? "coupled"
                                   : out.acceptance == acceptance_kind::rejection ? "sampled"
                                                                                  : "argmax";
        out.drafts = drafts == "argmax"    ? draft_kind::argmax
                     : drafts == "coupled" ? draft_kind::coupled
                                           : draft_kind::sampled;
        if (out.acceptance == acceptance_kind::rejection && out.drafts == draft_kind::coupled) {
            raise<config_error>(
                "--draft-sampling coupled: with --acceptance rejection drafts must be drawn with noise of their own "
                "(sampled) or not drawn (argmax)");
        }
        check(out.law);
        if (out.law.temperature == 0 && (out.law.top_k != 0 || out.law.top_p != 1 || out.law.min_p != 0)) {
            raise<config_error>(
                "--top-k, --top-p and --min-p have no effect at --temperature 0, which always takes the best token; "
                "give a temperature");
        }
        static_cast<void>(penalties(out.penalties));
        return out;
    }

private:
    static logit_bias parse_bias(std::string_view text) {
        const std::size_t colon = text.find(':');
        const std::optional<index> token =
            parse_whole(text.substr(0, colon), 0, (std::numeric_limits<token_id>::max)());
        const std::string value(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
        char* end = nullptr;
        const float bias = std::strtof(value.c_str(), &end);
        if (!token || value.empty() || *end != '\0') {
            raise<config_error>("--logit-bias: got \"", text, "\", needs a token id, a colon and a number: 42:-1.5");
        }
        return {static_cast<token_id>(*token), bias};
    }

    sampling_choice choice_;
    std::vector<std::string> biases_;
    std::string seed_ = "0";
    std::string acceptance_ = "match";
    std::string drafts_;
    CLI::Option* acceptance_option_ = nullptr;
    CLI::Option* drafts_option_ = nullptr;
};

}  // namespace examples
DFLASH_END_NAMESPACE
