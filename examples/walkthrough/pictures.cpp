#include "walkthrough/pictures.hpp"

#include "walkthrough/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

/// What `mask` lets the query see of the keys first .. last - 1.
std::vector<bool> seen_by(const mask_rule& mask, index query, index first, index last) {
    std::vector<bool> out;
    for (index k = first; k < last; ++k) {
        out.push_back(mask.visible(query, k));
    }
    return out;
}

}  // namespace

void show_rotations(page& out, const classroom& room, const std::vector<std::string>& keys) {
    const numerics::rope_table& turns = room.actors->rotations;
    matrix cos(size_of(std::span(keys)), turns.half());
    matrix sin(cos.rows, cos.cols);
    for (index p = 0; p < cos.rows; ++p) {
        std::copy_n(turns.cos(p), cos.cols, cos.view().row(p).data());
        std::copy_n(turns.sin(p), cos.cols, sin.view().row(p).data());
    }
    out.show("cos", cos.view(), keys);
    out.show("sin", sin.view(), keys);
}

void show_attention(page& out, const classroom& room, index layer, const std::vector<std::string>& queries,
                    const std::vector<std::string>& keys) {
    const auto name = [&](const char* what) { return joined(what, ", layer ", layer); };
    const matrix& k = room.seen.read("draft.keys", layer);
    const matrix& weights = room.seen.read("draft.weights", layer);
    const bool injected = k.rows == size_of(std::span(keys));
    const std::vector<std::string>& seen = injected ? keys : queries;

    table q = room.by_head(name("Q"), room.seen.read("draft.q", layer), queries);
    q.decimals = true;
    out.show(std::move(q));
    for (const char* what : {"K", "V"}) {
        table t = room.by_head(name(what), room.seen.read(*what == 'K' ? "draft.keys" : "draft.values", layer), seen);
        t.boundary = injected ? room.plot.start : 0;
        out.show(std::move(t));
    }
    table a{.name = name("A"),
            .shape = {room.actors->draft.heads, room.plot.block, weights.cols},
            .rows = queries,
            .columns = seen,
            .values = weights.values,
            .boundary = injected ? room.plot.start : 0};
    out.show(std::move(a));
    out.show(name("out"), room.seen.read("draft.attention", layer).view(), queries);
    out.show(name("out W_O"), room.seen.read("draft.attn_out", layer).view(), queries);
}

void list_rows(page& out, const classroom& room) {
    for (index p = 0; p < room.plot.start + room.plot.block; ++p) {
        const bool context = p < room.plot.start;
        const token_id id = context ? room.plot.prompt[static_cast<std::size_t>(p)]
                                    : room.block[static_cast<std::size_t>(p - room.plot.start)];
        out.show(kv_row{
            .position = p,
            .context = context,
            .what = joined(context ? "the target's layers about" : "the embedding of", " \"", room.word(id), "\"")});
    }
}

std::string expanded(const classroom& room, index query) {
    const matrix& weights = room.seen.read("draft.weights", 0);
    const index context = weights.cols - room.plot.block;
    std::string line = joined("out_", room.plot.start + query, " =");
    for (index j = 0; j < weights.cols; ++j) {
        line += j == 0 ? " " : (j == context ? "  |  " : " + ");
        line += joined(number(weights.view()(query, j), room.actors->on_paper, 3), " v", j + room.plot.start - context);
    }
    return line;
}

void draw_masks(page& out, const classroom& room, const std::vector<std::string>& queries,
                const std::vector<std::string>& keys) {
    const index start = room.plot.start;
    const index length = size_of(std::span(keys));
    const mask_rule left{.causal = true, .window = 0};
    for (index i = 0; i < room.plot.block; ++i) {
        out.show(sight{.query = queries[static_cast<std::size_t>(i)],
                       .keys = seen_by(room.draft.shape().masks[0], start + i, 0, length),
                       .left_only = seen_by(left, start + i, start, length)});
    }
}

float context_share(const classroom& room, index query) {
    const matrix& weights = room.seen.read("draft.weights", 0);
    float share = 0;
    for (index j = 0; j < weights.cols - room.plot.block; ++j) {
        share += weights.view()(query, j);
    }
    return share;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
