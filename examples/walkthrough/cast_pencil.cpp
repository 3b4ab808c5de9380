// The pencil cast: rows of +-1, so that RMSNorm changes nothing; quarter turns, so that rotation moves and negates
// coordinates; scores that are multiples of ln 2, so that attention weights are fractions.
//
// The target, for a row h = (h0 h1 h2 h3):
//   layer 0   h3 becomes the h3 of the row before: its one look at the context (a score of 181 beside 0: weight 1)
//   layer 1   h0 -> -h0,  layer 2   h1 -> -h1,  layer 3   h2 -> -h2 (each row sees itself alone; v = h_j, twice -1)
//   norm      h3 -> -h3, the only weight that is -1
// Sixteen words have the sixteen rows of +-1 as embeddings and, in another order, as head rows, so that a row's best
// word is the one whose head row it is.
#include "walkthrough/cast.hpp"

#include <array>
#include <initializer_list>

#include <dflash/numerics/attention.hpp>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

constexpr index d = 4;
constexpr index room = 64;

class pencil_maker {
public:
    explicit pencil_maker(cast& out) : out_(out) {}

    void make() {
        out_.name = "pencil";
        out_.on_paper = true;
        transformer_shape base;
        base.hidden_size = d;
        base.heads = 2;
        base.kv_heads = 2;
        base.head_dim = 2;
        base.intermediate_size = d;
        base.vocab_size = words::count;
        base.max_positions = room;
        base.rms_norm_eps = 1e-12F;  // 1 + eps is 1
        static_cast<transformer_shape&>(out_.target) = base;
        static_cast<transformer_shape&>(out_.draft) = base;
        target();
        draft();
        rotations();
        out_.confession = {
            "Searched for, so that the story happens: which of the sixteen rows of +-1 is which word's embedding and "
            "which its head row; and the draft's W_Q, W_K, W_V, W_O, its input norm and the order of fc, drawn from "
            "{0, 1/2, 1} with signs.",
            "Chosen by hand: the target's layers. The library is told of neither."};
    }

private:
    tensor_view matrix(index rows, std::initializer_list<float> values) {
        return out_.store.floats(values, rows, static_cast<index>(values.size()) / rows);
    }
    tensor_view vector(std::initializer_list<float> values) { return matrix(1, values); }
    tensor_view zeros(index rows, index cols) { return out_.store.constant(0.0F, rows, cols); }
    tensor_view ones(index cols) { return out_.store.constant(1.0F, 1, cols); }

    tensor_view identity() { return matrix(d, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}); }

    layer_weights plain_layer() {
        layer_weights w;
        w.input_norm = ones(d);
        w.post_norm = ones(d);
        w.q_norm = ones(2);
        w.k_norm = ones(2);
        w.gate = w.up = w.down = zeros(d, d);  // no MLP
        return w;
    }

    void target() {
        target_shape& shape = out_.target;
        shape.layers = 4;
        shape.attention_bias = true;
        shape.masks = {{.causal = true, .window = 4},
                       {.causal = true, .window = 1},
                       {.causal = true, .window = 1},
                       {.causal = true, .window = 1}};
        // clang-format off
        out_.target_tensors.embedding = matrix(words::count, {
             1, 1,-1, 1,   -1,-1, 1, 1,   -1,-1,-1, 1,   -1, 1,-1,-1,    // The cat sat on
             1, 1,-1,-1,    1,-1, 1, 1,   -1, 1,-1, 1,    1,-1,-1,-1,    // the mat in sun
             1, 1, 1,-1,   -1, 1, 1,-1,    1,-1,-1, 1,   -1,-1, 1,-1,    // . It slept <end>
            -1, 1, 1, 1,    1,-1, 1,-1,    1, 1, 1, 1,   -1,-1,-1,-1});  // MASK dog ran and
        out_.target_tensors.head = matrix(words::count, {
            -1, 1, 1,-1,    1,-1, 1, 1,    1, 1,-1,-1,    1, 1, 1,-1,    // The cat sat on
             1,-1, 1,-1,   -1,-1, 1, 1,   -1, 1,-1, 1,   -1,-1, 1,-1,    // the mat in sun
            -1, 1, 1, 1,   -1,-1,-1, 1,    1,-1,-1, 1,   -1,-1,-1,-1,    // . It slept <end>
             1, 1,-1, 1,    1,-1,-1,-1,    1, 1, 1, 1,   -1, 1,-1,-1});  // MASK dog ran and
        // clang-format on
        out_.target_tensors.norm = vector({1, 1, 1, -1});
        out_.target_tensors.layers.push_back(look_back());
        for (index l = 1; l < 4; ++l) {
            out_.target_tensors.layers.push_back(flip(l - 1));
        }
        for (layer_weights& w : out_.target_tensors.layers) {
            w.o_bias = w.v_bias = zeros(1, d);
            w.q_bias = w.q_bias.empty() ? zeros(1, d) : w.q_bias;
            w.k_bias = w.k_bias.empty() ? zeros(1, d) : w.k_bias;
        }
    }

    /// h3 becomes the h3 of the row before. Head 0 adds the neighbour's, head 1 takes away the row's own: every row has
    /// the same q and k, a quarter turn apart in head 0, so that the score is large where the distance is 1 (or 0).
    layer_weights look_back() {
        layer_weights w = plain_layer();
        w.q = w.k = zeros(d, d);
        w.q_bias = vector({1, -1, 1, 1});
        w.k_bias = vector({1, 1, 1, 1});
        w.q_norm = vector({128, 128});
        w.v = matrix(d, {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0});
        w.o = matrix(d, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0});
        return w;
    }

    /// h_j -> -h_j, for rows that see themselves alone: v = h_j in both heads, and W_O takes both away.
    layer_weights flip(index j) {
        layer_weights w = plain_layer();
        w.q = w.k = identity();
        std::array<float, d * d> v{};
        std::array<float, d * d> o{};
        v[static_cast<std::size_t>(0 * d + j)] = v[static_cast<std::size_t>(2 * d + j)] = 1.0F;
        o[static_cast<std::size_t>(j * d + 0)] = o[static_cast<std::size_t>(j * d + 2)] = -1.0F;
        w.v = out_.store.floats({v.begin(), v.end()}, d, d);
        w.o = out_.store.floats({o.begin(), o.end()}, d, d);
        return w;
    }

    void draft() {
        draft_shape& shape = out_.draft;
        shape.layers = 1;
        shape.masks = {{.causal = false, .window = 0}};
        shape.block_size = 4;
        shape.mask_token = words::mask;
        shape.taps = {1, 2, 3};
        draft_weights& w = out_.draft_tensors;
        // Each row of fc takes one coordinate from two taps that agree about it: rows of +-2, which the norm makes +-1.
        // clang-format off
        w.fc = matrix(d, { 0, 0, 1, 0,    0, 0, 1, 0,    0, 0, 0, 0,
                           0, 0, 0, 1,    0, 0, 0, 0,    0, 0, 0,-1,
                           0, 0, 0, 0,    0,-1, 0, 0,    0,-1, 0, 0,
                          -1, 0, 0, 0,   -1, 0, 0, 0,    0, 0, 0, 0});
        layer_weights layer = plain_layer();
        layer.input_norm = vector({1, -1, 1, 1});  // the block passes it, the context does not
        layer.q = matrix(d, { 0, 0, 0,-1,    1, 0, 0, 0,    0, 0, 0,-1,    0,-1, 0, 0});
        layer.k = matrix(d, { 1, 0, 0, 0,    0, 1, 0, 0,   -1, 0, 0, 0,    0, 0, 0, 1});
        layer.v = matrix(d, { 0, 0, 1, 0,    0, 0, 0,-1,    1, 0, 0, 0,    1, 0,-1, 0});
        layer.o = matrix(d, { 0, 0, 0,-1,    0, 0, 0.5F, 1,    0, 0, 0, 0,   -1, 0, 0, 1});
        // clang-format on
        // q.k is 2, 0 or -2, the scale 1 / sqrt 2; with this weight scores are ln 2, 0, -ln 2: weights as 2 : 1 : 1/2.
        const float score = 0x1.62e430p-1F / (2.0F * numerics::attention_scale(2));
        layer.q_norm = vector({score, score});
        w.hidden_norm = ones(d);
        w.norm = ones(d);
        w.layers.push_back(layer);
    }

    void rotations() {
        constexpr float turn[] = {1.0F, 0.0F, -1.0F, 0.0F};
        std::vector<float> cos;
        std::vector<float> sin;
        for (index p = 0; p < room; ++p) {
            cos.push_back(turn[p % 4]);
            sin.push_back(turn[(p + 3) % 4]);
        }
        out_.rotations = numerics::rope_table(cos, sin, 2, room);
        out_.inject_rotations = true;
    }

    cast& out_;
};

}  // namespace

std::shared_ptr<const cast> pencil_cast() {
    static const std::shared_ptr<const cast> made = [] {
        auto fresh = std::make_shared<cast>();
        pencil_maker(*fresh).make();
        return fresh;
    }();
    return made;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
