// The seed cast: the sizes of the document, weights from an integer hash, and a head that is solved for.
//
// Nothing of the mechanism is told the story. What is solved for is the head, 16 rows of 512: it is the one matrix that
// turns hidden rows into words, so it can be made to read the wanted words off whatever rows the hashed weights give.
// The rows are collected by running the pair over the story once.
#include "walkthrough/cast.hpp"

#include <cstdint>
#include <span>

#include <dflash/cpu/exact.hpp>
#include <dflash/model/draft_transformer.hpp>
#include <dflash/model/target_transformer.hpp>

#include "walkthrough/gram.hpp"
#include "walkthrough/hashed.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

constexpr index d = 512;
constexpr index heads = 8;
constexpr index e = 64;
constexpr index intermediate = 1024;
constexpr index room = 64;

class seed_maker {
public:
    explicit seed_maker(cast& out) : out_(out), hashed_(out.store) {}

    void make() {
        out_.name = "seed";
        transformer_shape base;
        base.hidden_size = d;
        base.heads = base.kv_heads = heads;
        base.head_dim = e;
        base.intermediate_size = intermediate;
        base.vocab_size = words::count;
        base.max_positions = room;
        base.rope.theta = 10000.0;
        static_cast<transformer_shape&>(out_.target) = base;
        static_cast<transformer_shape&>(out_.draft) = base;
        out_.rotations = numerics::rope_table(base.rope, e, room);

        out_.target.layers = 12;
        out_.target.masks.assign(12, {.causal = true, .window = 0});
        out_.target_tensors.embedding = hashed_.matrix(words::count, d, 1);
        out_.target_tensors.norm = out_.store.constant(1.0F, 1, d);
        out_.target_tensors.head = out_.store.constant(0.0F, words::count, d);
        for (index l = 0; l < out_.target.layers; ++l) {
            out_.target_tensors.layers.push_back(hashed_.layer(base, 1.0F / 16));
        }
        out_.draft.layers = 2;
        out_.draft.masks.assign(2, {.causal = false, .window = 0});
        out_.draft.block_size = 4;
        out_.draft.mask_token = words::mask;
        out_.draft.taps = {3, 7, 11};
        out_.draft_tensors.fc = hashed_.matrix(d, 3 * d, 1.0F / 32);
        out_.draft_tensors.hidden_norm = out_.store.constant(1.0F, 1, d);
        out_.draft_tensors.norm = out_.store.constant(1.0F, 1, d);
        for (index l = 0; l < out_.draft.layers; ++l) {
            out_.draft_tensors.layers.push_back(hashed_.layer(base, 1.0F / 16));
        }
        solve_the_head();
        out_.confession = {
            "From an integer hash: every matrix of target and draft, and the weights of the layers' norms.",
            "Solved for, so that the story happens: the head alone, 16 rows of 512, so that it reads the story's words "
            "off the hidden rows that the hashed weights give (11 rows of the target, 6 of the draft: the drafts of "
            "rounds 1 and 2). The head only reads. Who attends to whom, what is cached and what is accepted is "
            "computed "
            "by the library, which knows no story."};
    }

private:
    /// Runs the pair over the story, collects the rows that the head will see, and solves head . row = 8 for the word
    /// that is wanted and 0 for the others.
    void solve_the_head() {
        const story plot;
        const cpu::exact ops(cpu::exact_options{.threads = 1});
        target_transformer<cpu::exact> target(out_.target, out_.target_tensors, out_.draft.taps, ops);
        draft_transformer<cpu::exact> draft(out_.draft, out_.draft_tensors, ops);
        std::vector<token_id> spoken = plot.prompt;
        spoken.insert(spoken.end(), plot.continuation.begin(), plot.continuation.end());
        const index n = size_of(std::span(spoken)) - 1;  // nothing is asked of the end token's row

        buffer<float> features(n * 3 * d);
        auto cache = target.make_cache(room);
        target.forward(std::span(spoken).first(static_cast<std::size_t>(n)), cache, {{}, features.matrix(n, 3 * d)});
        const matrix_view<float> raw = features.matrix(n, 3 * d);
        gram_solver rows(d);
        for (index p = plot.start - 1; p < n; ++p) {
            // The last tap is the row after the final norm: the row the head sees.
            rows.want(raw.row(p).last(static_cast<std::size_t>(d)), spoken[static_cast<std::size_t>(p + 1)]);
        }

        auto context = draft.make_cache(room);
        const token_id guesses[2][3] = {{words::the, words::mat, words::stop}, {words::the, words::sun, words::stop}};
        buffer<float> block(4 * d);
        buffer<float> hidden(4 * d);
        for (index round = 0; round < 2; ++round) {
            const index start = plot.start * (1 + round);
            draft.inject(raw.rows(context.length(), start - context.length()), context);
            const token_id ids[4] = {spoken[static_cast<std::size_t>(start)], words::mask, words::mask, words::mask};
            target.embed(ids, block.matrix(4, d));
            draft.forward(block.matrix(4, d), context, hidden.matrix(4, d));
            for (index i = 0; i < 3; ++i) {
                rows.want(hidden.matrix(4, d).row(1 + i), guesses[round][i]);
            }
        }
        out_.target_tensors.head = out_.store.floats(rows.solve(words::count, 8.0), words::count, d);
    }

    cast& out_;
    hashed_weights hashed_;
};

}  // namespace

std::shared_ptr<const cast> seed_cast() {
    static const std::shared_ptr<const cast> made = [] {
        auto fresh = std::make_shared<cast>();
        seed_maker(*fresh).make();
        return fresh;
    }();
    return made;
}

std::shared_ptr<const cast> find_cast(std::string_view name) {
    if (name == "pencil") {
        return pencil_cast();
    }
    if (name == "seed") {
        return seed_cast();
    }
    raise<config_error>("--cast: got \"", name, "\", needs pencil or seed");
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
