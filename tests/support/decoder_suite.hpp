// What every speculative decoder must do, as properties that any decoder can be run through: the library's own and the
// broken ones that must be caught.
//
// A kit makes the decoder: kit.make(model, drafter, block, sampler). The right answers come from one-row forwards and
// from a plain simulation of the rounds written here; neither shares code with the loops under test.
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include <dflash/decode/speculative.hpp>
#include <dflash/testing/report.hpp>
#include <support/toy_drafters.hpp>
#include <support/toy_models.hpp>
#include <support/toy_samplers.hpp>

namespace dflash::test {

/// The library's decoder.
struct library_kit {
    template <class Model, class Drafter, class Sampler>
    [[nodiscard]] auto make(Model& model, Drafter& drafter, index block, Sampler sampler) const {
        return speculative_decoder<Model, Drafter, Sampler>(model, drafter, fixed_block(block), std::move(sampler));
    }
};

/// Numbers of the properties, so that a test can say which one a broken decoder fails.
enum class property {
    tokens = 1,      ///< tokens and reason are those of serial decoding
    delivery = 2,    ///< the callback sees every token once, in rounds that are never longer than the block
    invariant = 3,   ///< invariant J after every round
    drafter = 4,     ///< the drafter is told of cached positions in order, with the features of exactly those
    rounds = 5,      ///< as many rounds, drafts and acceptances as the script gives, no forward wasted
    positions = 6,   ///< no forward past prompt + budget - 2 or the context limit
    statistics = 7,  ///< counts agree with what was delivered
    rollback = 8,    ///< a round that raises leaves no trace
    not_finite = 9,  ///< an error for a row that is not finite, only when its token would be committed
    cancel = 10,     ///< cancelling keeps what was delivered
    reuse = 11,      ///< no state leaks between generations or between decoders
    history = 12,    ///< a sampler with history sees committed tokens, once, in order
};

/// One generation to try.
struct trial {
    std::vector<token_id> prompt{2};
    generation_limits limits{};
    index block = 4;
    guess kind = guess::exact;
    index slot = 1;
    std::uint64_t seed = 1;
    std::vector<token_id> hostile{0, 6};
    index drafter_positions = 100000;
    index model_positions = 100000;
    bool features = false;

    [[nodiscard]] std::string text() const {
        std::string ends = ", stop";
        for (const token_id stop : limits.stop_tokens) {
            ends += detail::text(" ", stop);
        }
        for (const auto& sequence : limits.stop_sequences) {
            ends += detail::text(" [", sequence.front(), " ..]");
        }
        return detail::text(" (prompt of ", prompt.size(), ", block ", block, ", budget ", limits.max_new_tokens,
                            ", drafts ", static_cast<int>(kind), " slot ", slot, " seed ", seed, ends, ", context ",
                            limits.context_limit, ", chunk ", limits.prefill_chunk, ", drafter holds ",
                            drafter_positions, ")");
    }
};

/// The serial continuation, row by row, without the library's loops. Ends and cuts are not applied.
template <class Model, class Sampler>
std::vector<token_id> serial_stream(Model& model, const Sampler& sampler, std::vector<token_id> tokens, index more,
                                    std::vector<float>* features = nullptr) {
    auto cache = model.make_cache(static_cast<index>(tokens.size()) + more);
    std::vector<float> row(static_cast<std::size_t>(model.vocab_size()));
    std::vector<float> taps(static_cast<std::size_t>(model.feature_size()));
    const matrix_view<float> law(row.data(), 1, model.vocab_size());
    const auto walk = [&](const auto& pick, const auto& advance) {
        const std::size_t prompt = tokens.size();
        for (std::size_t i = 0; static_cast<index>(i) < static_cast<index>(prompt) + more; ++i) {
            advance(tokens[i]);
            model.forward(std::span<const token_id>(tokens).subspan(i, 1), cache,
                          {law, matrix_view<float>(taps.data(), 1, model.feature_size())});
            if (features != nullptr) {
                features->insert(features->end(), taps.begin(), taps.end());
            }
            if (i + 1 >= prompt) {
                tokens.push_back(pick(row, static_cast<index>(i) + 1));
            }
        }
    };
    if constexpr (sequence_sampler<Sampler>) {
        Sampler own = sampler.fork();
        walk([&](const auto& logits, index p) { return own.pick(logits, p); }, [&](token_id t) { own.advance(t); });
    } else {
        walk([&](const auto& logits, index p) { return sampler.pick(logits, p); }, [](token_id) {});
    }
    return tokens;
}

/// What a generation must give.
struct expectation {
    std::vector<token_id> tokens;
    finish_reason reason = finish_reason::running;
    std::vector<index> lengths;  ///< tokens of each round
    index drafted = 0;
    index accepted = 0;
    index proposals = 0;
    index widest = 0;  ///< rows of the longest verification
    std::vector<index> slot_drafted;
    std::vector<index> slot_accepted;
};

/// Plain words: commit token by token until something ends the text; a round is as many as the script gets right + 1.
inline expectation expect(const trial& t, const script& drafts) {
    expectation out;
    const auto prompt = static_cast<index>(t.prompt.size());
    const index context =
        t.limits.context_limit > 0 ? (std::min)(t.limits.context_limit, t.model_positions) : t.model_positions;
    const auto settle = [&] {
        if (static_cast<index>(out.tokens.size()) >= t.limits.max_new_tokens) {
            out.reason = finish_reason::length;
        } else if (prompt + static_cast<index>(out.tokens.size()) >= context) {
            out.reason = finish_reason::context;
        }
    };
    const auto push = [&] {
        out.tokens.push_back(drafts.stream[static_cast<std::size_t>(prompt) + out.tokens.size()]);
        settle();
        for (const token_id stop : t.limits.stop_tokens) {
            out.reason = out.tokens.back() == stop ? finish_reason::stop : out.reason;
        }
        for (const std::vector<token_id>& stop : t.limits.stop_sequences) {
            if (stop.size() <= out.tokens.size() && std::equal(stop.rbegin(), stop.rend(), out.tokens.rbegin())) {
                out.reason = finish_reason::stop;
            }
        }
        return out.reason == finish_reason::running;
    };
    settle();
    if (out.reason != finish_reason::running || !push()) {
        return out;
    }
    while (out.reason == finish_reason::running) {
        const index committed = prompt + static_cast<index>(out.tokens.size());
        const index room = (std::min)(context, prompt + t.limits.max_new_tokens) - committed;
        const index asked = (std::min)({t.block, room, t.drafter_positions - committed});
        const index count = asked < 2 ? 0 : drafts.count(committed, asked - 1);
        out.proposals += asked < 2 ? 0 : 1;
        index right = 0;
        while (right < count &&
               drafts.token(committed, right) == drafts.stream[static_cast<std::size_t>(committed + right)]) {
            ++right;
        }
        index length = 0;
        for (bool on = true; on && length < right + 1; ++length) {
            on = push();
        }
        out.lengths.push_back(length);
        out.drafted += count;
        out.accepted += (std::min)(right, length);
        out.widest = (std::max)(out.widest, count + 1);
        out.slot_drafted.resize((std::max)(out.slot_drafted.size(), static_cast<std::size_t>(count)));
        out.slot_accepted.resize(out.slot_drafted.size());
        for (index j = 0; j < count; ++j) {
            out.slot_drafted[static_cast<std::size_t>(j)] += 1;
            out.slot_accepted[static_cast<std::size_t>(j)] += j < (std::min)(right, length) ? 1 : 0;
        }
    }
    return out;
}

/// Runs a kit's decoders through the properties. With `at_once` it stops at the first finding.
template <class Kit>
class decoder_suite {
public:
    explicit decoder_suite(Kit kit, bool at_once = false) : kit_(std::move(kit)), at_once_(at_once) {}

    [[nodiscard]] const testing::report& report() const { return report_; }
    [[nodiscard]] index tried() const { return tried_; }

    /// The quick parts first, so that most broken decoders are caught soon.
    const testing::report& everything() {
        reuse();
        history();
        stop_sequences();
        drafter_limits();
        cancels();
        chunks();
        stops();
        exceptions();
        not_finite();
        other_models();
        contexts();
        budgets();
        return report_;
    }

    void budgets() {
        for (index block = 1; block <= 17; ++block) {
            for (index n = 0; n <= 14; ++n) {
                for (const guess kind : every_guess) {
                    for (const auto& prompt : prompts()) {
                        trial t;
                        t.prompt = prompt;
                        t.block = block;
                        t.kind = kind;
                        t.slot = n % 4;
                        t.seed = static_cast<std::uint64_t>(block * 100 + n);
                        t.limits.max_new_tokens = n;
                        t.features = n % 2 == 0;
                        run<model_t>(t);
                    }
                }
            }
        }
    }

    /// Every token of the serial text as the stop, alone and among others.
    void stops() {
        for (index block = 1; block <= 17; ++block) {
            for (token_id stop = 0; stop < 11; ++stop) {
                for (const guess kind : every_guess) {
                    trial t;
                    t.block = block;
                    t.kind = kind;
                    t.seed = static_cast<std::uint64_t>(block);
                    t.limits.max_new_tokens = 14;
                    t.limits.stop_tokens = {stop};
                    t.hostile = {stop, 6};
                    run<model_t>(t);
                    t.limits.stop_tokens = {stop, static_cast<token_id>((7 * stop + 3) % 11)};
                    t.features = true;
                    run<model_t>(t);
                }
            }
        }
    }

    /// Sequences of the serial text of every length and start, so that they begin, end and cross everywhere in a block.
    void stop_sequences() {
        const std::vector<token_id> text{7, 1, 6, 0, 5, 10, 4, 9, 3, 8, 2, 7, 1, 6};
        for (index block = 1; block <= 17; ++block) {
            for (std::size_t first = 0; first < 10; ++first) {
                for (std::size_t length = 1; length <= 4; ++length) {
                    trial t;
                    t.block = block;
                    t.kind = every_guess[(first + length) % std::size(every_guess)];
                    t.slot = static_cast<index>(length) - 1;
                    t.limits.max_new_tokens = 14;
                    const auto from = text.begin() + static_cast<std::ptrdiff_t>(first);
                    t.limits.stop_sequences = {{3, 3}, {from, from + static_cast<std::ptrdiff_t>(length)}};
                    run<model_t>(t);
                    t.kind = guess::exact;
                    run<model_t>(t);
                }
            }
        }
        // A sequence that would start in the prompt matches generated tokens only.
        trial t;
        t.limits.max_new_tokens = 14;
        t.limits.stop_sequences = {{2, 7}};
        run<model_t>(t);
    }

    /// Limits of the model and of the caller, around the ends of blocks and of the prompt.
    void contexts() {
        for (index block = 1; block <= 17; ++block) {
            for (index limit = 1; limit <= 20; ++limit) {
                for (const guess kind : {guess::exact, guess::never, guess::random, guess::nothing}) {
                    trial t;
                    t.prompt = limit % 2 == 0 ? std::vector<token_id>{2} : std::vector<token_id>{2, 4, 1};
                    t.block = block;
                    t.kind = kind;
                    t.limits.max_new_tokens = 50;
                    if (limit < static_cast<index>(t.prompt.size())) {
                        continue;
                    }
                    t.limits.context_limit = limit;
                    run<model_t>(t);
                    t.limits.context_limit = 0;
                    t.model_positions = limit;
                    run<model_t>(t);
                    t.limits.context_limit = limit + 1;
                    run<model_t>(t);
                }
            }
        }
    }

    /// Past the drafter's own limit decoding goes on without drafts.
    void drafter_limits() {
        for (index block = 1; block <= 17; ++block) {
            for (index limit = 0; limit <= 20; ++limit) {
                for (const guess kind : {guess::exact, guess::random}) {
                    trial t;
                    t.prompt = {2, 4, 1};
                    t.block = block;
                    t.kind = kind;
                    t.limits.max_new_tokens = 14;
                    t.limits.prefill_chunk = 1 + block % 3;
                    t.drafter_positions = limit;
                    t.features = limit % 2 == 0;
                    run<model_t>(t);
                }
            }
        }
    }

    void chunks() {
        for (index length = 1; length <= 9; ++length) {
            for (index chunk = 1; chunk <= 10; ++chunk) {
                for (const index block : {1, 2, 5, 16}) {
                    trial t;
                    t.prompt.clear();
                    for (index i = 0; i < length; ++i) {
                        t.prompt.push_back(static_cast<token_id>((5 * i + length) % 11));
                    }
                    t.block = block;
                    t.kind = guess::random;
                    t.limits.max_new_tokens = 9;
                    t.limits.prefill_chunk = chunk;
                    t.features = true;
                    run<model_t>(t);
                    run<context_model>(t);
                }
            }
        }
    }

    /// A recurrent model with snapshots, and one that sees every cached row and poison elsewhere.
    void other_models() {
        for (index block = 1; block <= 17; ++block) {
            for (const guess kind : every_guess) {
                for (const auto& prompt : prompts()) {
                    trial t;
                    t.prompt = prompt;
                    t.block = block;
                    t.kind = kind;
                    t.slot = block % 5;
                    t.limits.max_new_tokens = 25;
                    t.features = true;
                    run<model_r>(t);
                    run<context_model>(t);
                    run<model_t>(t, noisy_sampler{static_cast<std::uint64_t>(block)});
                }
            }
        }
    }

    /// Cancelling after each round keeps that round's tokens, and the decoder can be used again.
    void cancels() {
        for (index block = 1; block <= 17; ++block) {
            for (const guess kind : {guess::exact, guess::random}) {
                for (index after = 1; after <= 15 && !enough(); ++after) {
                    trial t;
                    t.block = block;
                    t.kind = kind;
                    t.limits.max_new_tokens = 14;
                    stage<model_t> s(t);
                    auto decoder = kit_.make(s.model, s.drafter, block, greedy{});
                    attempt(property::cancel, t, [&] {
                        std::vector<token_id> seen;
                        index calls = 0;
                        const generation_result got = decoder.generate(t.prompt, t.limits, [&](const round_view& r) {
                            seen.insert(seen.end(), r.tokens.begin(), r.tokens.end());
                            return ++calls < after;
                        });
                        const bool early = seen.size() < s.expected.tokens.size();
                        check(got.tokens == seen && calls <= after, property::cancel, t,
                              "the callback was handed other tokens than the result holds");
                        check(std::equal(seen.begin(), seen.end(), s.expected.tokens.begin(),
                                         s.expected.tokens.begin() + static_cast<std::ptrdiff_t>(seen.size())),
                              property::cancel, t, "cancelled tokens are not a prefix of the serial ones");
                        check(got.reason == (early ? finish_reason::cancelled : s.expected.reason), property::cancel, t,
                              "the reason is ", name_of(got.reason));
                        check(decoder.step().empty(), property::cancel, t, "a round ran after the end");
                        check(decoder.generate(t.prompt, t.limits).tokens == s.expected.tokens, property::cancel, t,
                              "the generation after a cancelled one differs");
                    });
                }
            }
        }
    }

    /// Model and drafter raise at each of their calls, before and after their work; then the run goes on.
    void exceptions() {
        for (const index block : {1, 2, 3, 5, 8, 17}) {
            for (const guess kind : {guess::exact, guess::random, guess::wrong_at}) {
                for (index call = 0; call < 14; ++call) {
                    for (int what = 0; what < 6 && !enough(); ++what) {
                        trial t;
                        t.prompt = {2, 4, 1};
                        t.block = block;
                        t.kind = kind;
                        t.limits.max_new_tokens = 12;
                        t.features = true;
                        const bool late = what % 2 == 1;
                        stage<context_model> s(t);
                        auto decoder = kit_.make(s.model, s.drafter, block, greedy{});
                        attempt(property::rollback, t, [&] {
                            decoder.prime(t.prompt, t.limits);
                            if (what / 2 == 0) {
                                s.seen.raise_at = s.seen.forwards + call;
                                s.seen.raise_late = late;
                            } else if (what / 2 == 1) {
                                s.drafter.faults = {.propose_at = call, .commit_at = -1, .late = late};
                            } else {
                                s.drafter.faults = {.propose_at = -1, .commit_at = 1 + call, .late = late};
                            }
                            finish(decoder, s, t);
                        });
                    }
                }
            }
        }
    }

    /// A row that is not finite is an error exactly where serial decoding would sample it.
    void not_finite() {
        for (const index block : {1, 2, 3, 4, 7, 16, 17}) {
            for (const guess kind : every_guess) {
                for (index at = 1; at <= 16; ++at) {
                    for (int stop = 0; stop < 2 && !enough(); ++stop) {
                        trial t;
                        t.block = block;
                        t.kind = kind;
                        t.limits.max_new_tokens = 14;
                        t.limits.stop_tokens = stop == 0 ? std::vector<token_id>{} : std::vector<token_id>{10};
                        stage<model_t> s(t);
                        constexpr float inf = std::numeric_limits<float>::infinity();
                        const float values[] = {std::numeric_limits<float>::quiet_NaN(), inf, -inf};
                        s.seen.bad = {at, at + 1};
                        s.seen.bad_value = values[static_cast<std::size_t>(at % 3)];
                        auto decoder = kit_.make(s.model, s.drafter, block, greedy{});
                        attempt(property::not_finite, t, [&] { meet_bad_row(decoder, s, t, at); });
                    }
                }
            }
        }
    }

    /// One decoder again and again after each kind of end, and two decoders on one model in turns.
    void reuse() {
        for (const index block : {1, 2, 4, 9, 16}) {
            for (const guess kind : {guess::exact, guess::random, guess::never}) {
                trial a;
                a.prompt = {2, 4, 1};
                a.block = block;
                a.kind = kind;
                a.limits.max_new_tokens = 8;
                a.features = true;
                trial b = a;
                b.prompt = {5};
                b.limits.max_new_tokens = 6;
                trial stopped = a;
                stopped.limits.stop_tokens = {10};
                trial short_context = a;
                short_context.limits.context_limit = 7;
                trial none = a;
                none.limits.max_new_tokens = 0;
                trial longer = a;
                longer.limits.max_new_tokens = 20;
                const trial order[] = {a, b, a, stopped, b, short_context, a, none, longer, b, none, a};
                probe seen;
                instrumented<model_t> model(model_t(), seen);
                stage<model_t> sa(a);
                scripted_drafter drafter(sa.plan, 3);
                auto decoder = kit_.make(model, drafter, block, greedy{});
                for (const trial& t : order) {
                    stage<model_t> s(t);
                    attempt(property::reuse, t, [&] {
                        const generation_result got = decoder.generate(t.prompt, t.limits);
                        check(got.tokens == s.expected.tokens && got.reason == s.expected.reason, property::reuse, t,
                              "a decoder that was used before gives other tokens");
                        check(got.stats.tokens == static_cast<index>(got.tokens.size()), property::reuse, t,
                              "statistics of a former generation remain");
                        check(drafter.complaints.empty() &&
                                  drafter.context_length() ==
                                      (got.tokens.empty() ? 0 : decoder.account().committed() - 1),
                              property::reuse, t, "the drafter was not reset: ", drafter.complaints);
                    });
                    if (enough()) {
                        return;
                    }
                }
                alternate(model, a, b);
            }
        }
    }

    /// A sampler whose law depends on order and multiplicity of what it was told.
    void history() {
        for (index block = 1; block <= 17; ++block) {
            for (const guess kind : every_guess) {
                trial t;
                t.block = block;
                t.kind = kind;
                t.limits.max_new_tokens = 20;
                run<model_t>(t, order_sampler{}, property::history);
                t.prompt = {2, 4, 1, 4, 4, 9};
                run<context_model>(t, order_sampler{}, property::history);
                run<model_t>(t, forbid_seen{}, property::history);
            }
        }
    }

    /// One generation, everything looked at.
    template <class Model, class Sampler = greedy>
    void run(const trial& t, Sampler sampler = {}, property same_tokens = property::tokens) {
        if (enough()) {
            return;
        }
        stage<Model, Sampler> s(t, sampler);
        auto decoder = kit_.make(s.model, s.drafter, t.block, std::move(sampler));
        attempt(same_tokens, t, [&] {
            std::vector<token_id> delivered;
            index calls = 0;
            const generation_result got = decoder.generate(t.prompt, t.limits, [&](const round_view& r) {
                delivered.insert(delivered.end(), r.tokens.begin(), r.tokens.end());
                check(size_of(r.tokens) <= (calls == 0 ? 1 : t.block) && !r.empty(), property::delivery, t,
                      "a round of ", r.tokens.size(), " tokens");
                check(r.accepted <= r.drafted && r.accepted <= size_of(r.tokens), property::delivery, t, "a round of ",
                      r.tokens.size(), " tokens says that ", r.accepted, " of ", r.drafted, " drafts stand");
                ++calls;
                invariant(decoder, s, t);
            });
            check(got.tokens == s.expected.tokens, same_tokens, t, "got ", got.tokens.size(), " tokens [",
                  list(got.tokens), "], serial decoding gives [", list(s.expected.tokens), "]");
            check(got.reason == s.expected.reason, property::tokens, t, "the reason is ", name_of(got.reason),
                  ", should be ", name_of(s.expected.reason));
            check(delivered == s.expected.tokens, property::delivery, t, "the callback saw [", list(delivered), "]");
            counts(got.stats, s, t);
        });
    }

private:
    /// What a generation needs, and what it must give.
    template <class Model, class Sampler = greedy>
    struct stage {
        explicit stage(const trial& t, const Sampler& sampler = {})
            : model(Model(t.model_positions), seen),
              plan(make_plan(t, sampler, features)),
              drafter(plan, t.features ? model.feature_size() : 0, t.drafter_positions),
              expected(expect(t, plan)) {}

        static script make_plan(const trial& t, const Sampler& sampler, std::vector<float>& features) {
            Model plain;
            const index more =
                (std::min)(t.limits.max_new_tokens, index{40}) + 1;  // no context of these tests is longer
            return {.stream = serial_stream(plain, sampler, t.prompt, more, &features),
                    .vocab = plain.vocab_size(),
                    .kind = t.kind,
                    .slot = t.slot,
                    .seed = t.seed,
                    .hostile = t.hostile};
        }

        probe seen;
        std::vector<float> features;  // of every position of the serial stream
        instrumented<Model> model;
        script plan;
        scripted_drafter drafter;
        expectation expected;
    };

    [[nodiscard]] bool enough() const { return at_once_ ? !report_.passed() : report_.findings().size() > 8; }

    static std::vector<std::vector<token_id>> prompts() { return {{2}, {2, 4, 1}, {5}}; }

    static std::string list(std::span<const token_id> tokens) {
        std::string out;
        for (const token_id t : tokens) {
            out += detail::text(out.empty() ? "" : " ", t);
        }
        return out;
    }

    template <class... Parts>
    void check(bool good, property p, const trial& t, const Parts&... parts) {
        if (!good) {
            report_.expect(false, "decoder", static_cast<int>(p), detail::text(parts...), t.text());
        }
    }

    /// Whatever is thrown is a finding, also by the checks that a checked build makes.
    template <class F>
    void attempt(property p, const trial& t, F f) {
        ++tried_;
        try {
            f();
        } catch (const std::exception& e) {
            check(false, p, t, "raised: ", std::string(e.what()));
        }
    }

    template <class Decoder, class Stage>
    void invariant(const Decoder& decoder, const Stage& s, const trial& t) {
        const index cached = decoder.account().committed() - 1;
        check(decoder.cache().length() == cached, property::invariant, t, "the target's cache holds ",
              decoder.cache().length(), " positions, should be ", cached);
        check(s.drafter.context_length() == cached || cached > t.drafter_positions, property::invariant, t,
              "the drafter's context holds ", s.drafter.context_length(), " positions, should be ", cached);
    }

    template <class Stage>
    void counts(const decode_stats& stats, const Stage& s, const trial& t) {
        const expectation& e = s.expected;
        const auto prompt = static_cast<index>(t.prompt.size());
        const auto tokens = static_cast<index>(e.tokens.size());
        check(stats.acceptance_lengths == e.lengths, property::rounds, t,
              "other rounds than the drafts allow: ", stats.acceptance_lengths.size(), ", should be ",
              e.lengths.size());
        check(stats.drafted == e.drafted && s.drafter.proposals == e.proposals, property::rounds, t, stats.drafted,
              " drafts in ", s.drafter.proposals, " proposals, should be ", e.drafted, " in ", e.proposals);
        const index chunks = tokens == 0 ? 0 : (prompt + t.limits.prefill_chunk - 1) / t.limits.prefill_chunk;
        check(s.seen.forwards == chunks + static_cast<index>(e.lengths.size()), property::rounds, t, s.seen.forwards,
              " forwards, should be ", chunks, " of the prompt and ", e.lengths.size(), " rounds");
        check(s.seen.logit_rows == (tokens == 0 ? 0 : 1) + e.drafted + static_cast<index>(e.lengths.size()),
              property::rounds, t, s.seen.logit_rows, " rows of logits");
        const index context =
            t.limits.context_limit > 0 ? (std::min)(t.limits.context_limit, t.model_positions) : t.model_positions;
        const index end = (std::min)(prompt + t.limits.max_new_tokens, context);
        check(s.seen.highest < (std::max)(prompt, end - 1) && (tokens > 0 || s.seen.highest < 0), property::positions,
              t, "a forward at position ", s.seen.highest);

        check(stats.tokens == tokens && stats.rounds == static_cast<index>(e.lengths.size()), property::statistics, t,
              stats.tokens, " tokens in ", stats.rounds, " rounds");
        index sum = tokens == 0 ? 0 : 1;
        for (const index length : stats.acceptance_lengths) {
            sum += length;
        }
        check(sum == tokens, property::statistics, t, "lengths + 1 sum to ", sum, ", tokens are ", tokens);
        check(stats.accepted == e.accepted && stats.slot_drafted == e.slot_drafted &&
                  stats.slot_accepted == e.slot_accepted,
              property::statistics, t, stats.accepted, " drafts accepted, should be ", e.accepted);
        const double numbers[] = {stats.mean_acceptance_length(), stats.acceptance_ratio(),
                                  stats.prefill_seconds,          stats.draft_seconds,
                                  stats.verify_seconds,           stats.sample_seconds};
        for (const double x : numbers) {
            check(x >= 0 && x < 1e9, property::statistics, t, "a statistic is not a finite, positive number");
        }

        check(s.drafter.complaints.empty(), property::drafter, t, s.drafter.complaints);
        const auto told = s.drafter.tokens.size();
        check(told <= s.plan.stream.size() &&
                  std::equal(s.drafter.tokens.begin(), s.drafter.tokens.end(), s.plan.stream.begin()),
              property::drafter, t, "the drafter was told of [", list(s.drafter.tokens), "]");
        check(s.drafter.features.size() <= s.features.size() &&
                  std::equal(s.drafter.features.begin(), s.drafter.features.end(), s.features.begin()),
              property::drafter, t, "the drafter was given features that are not those of the committed positions");
    }

    /// Steps to the end; a step that raises must change nothing, and the next one goes on.
    template <class Decoder, class Stage>
    void finish(Decoder& decoder, Stage& s, const trial& t) {
        for (index steps = 0; steps < 60; ++steps) {
            const index committed = decoder.account().committed();
            const index rounds = decoder.result().stats.rounds;
            const std::vector<token_id> told = s.drafter.tokens;
            const std::vector<float> features = s.drafter.features;
            try {
                if (decoder.step().empty()) {
                    break;
                }
                invariant(decoder, s, t);
            } catch (const injected_error&) {
                check(decoder.account().committed() == committed && decoder.cache().length() == committed - 1,
                      property::rollback, t, "after a round that raised ", decoder.account().committed(),
                      " tokens are committed, ", decoder.cache().length(), " positions cached; committed were ",
                      committed);
                check(decoder.result().stats.rounds == rounds, property::rollback, t,
                      "a round that raised was counted");
                check(s.drafter.tokens == told && s.drafter.features == features, property::rollback, t,
                      "a round that raised left the drafter with ", s.drafter.tokens.size(), " positions, were ",
                      told.size());
            }
        }
        const generation_result got = decoder.result();
        check(got.tokens == s.expected.tokens && got.reason == s.expected.reason, property::rollback, t,
              "after a round that raised the text is [", list(got.tokens), "], should be [", list(s.expected.tokens),
              "]");
        check(s.drafter.complaints.empty(), property::rollback, t, s.drafter.complaints);
    }

    template <class Decoder, class Stage>
    void meet_bad_row(Decoder& decoder, Stage& s, const trial& t, index at) {
        const auto prompt = static_cast<index>(t.prompt.size());
        const auto before = static_cast<std::ptrdiff_t>(at) - prompt;  // tokens that come before the bad row's
        const bool meets = before < static_cast<std::ptrdiff_t>(s.expected.tokens.size());
        std::vector<token_id> seen;
        std::string message;
        try {
            decoder.generate(t.prompt, t.limits,
                             [&](const round_view& r) { seen.insert(seen.end(), r.tokens.begin(), r.tokens.end()); });
        } catch (const numeric_error& e) {
            message = e.what();
        }
        check(message.empty() != meets, property::not_finite, t, "the law of position ", at, " is not finite; ",
              meets ? "it was sampled" : "an error was raised for a token nobody asked for");
        const std::vector<token_id> should(s.expected.tokens.begin(),
                                           meets ? s.expected.tokens.begin() + before : s.expected.tokens.end());
        check(seen == should, property::not_finite, t, "with a bad row for position ", at, " the callback saw [",
              list(seen), "], should be [", list(should), "]");
        check(!meets || message.find(detail::text("position ", at, " ")) != std::string::npos, property::not_finite, t,
              "the error says: ", message);
        // With the row mended the run goes on as if nothing had happened.
        s.seen.bad.clear();
        if (before > 0) {
            finish(decoder, s, t);
        }
        check(decoder.generate(t.prompt, t.limits).tokens == s.expected.tokens, property::not_finite, t,
              "the generation after the error differs");
    }

    /// Two decoders with drafters of their own on one model, a round each in turn, twenty times.
    template <class Model>
    void alternate(Model& model, const trial& a, const trial& b) {
        stage<model_t> sa(a);
        stage<model_t> sb(b);
        auto one = kit_.make(model, sa.drafter, a.block, greedy{});
        auto two = kit_.make(model, sb.drafter, b.block, greedy{});
        for (int turn = 0; turn < 20 && !enough(); ++turn) {
            attempt(property::reuse, a, [&] {
                one.prime(a.prompt, a.limits);
                two.prime(b.prompt, b.limits);
                for (bool on = true; on;) {
                    const bool first = !one.step().empty();
                    const bool second = !two.step().empty();
                    on = first || second;
                }
                check(one.result().tokens == sa.expected.tokens && two.result().tokens == sb.expected.tokens,
                      property::reuse, a, "two decoders in turns on one model disturb each other");
            });
        }
    }

    Kit kit_;
    bool at_once_;
    testing::report report_;
    index tried_ = 0;
};

}  // namespace dflash::test
