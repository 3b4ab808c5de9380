#include "walkthrough/checks.hpp"

#include <cmath>

#include "walkthrough/text.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

index layers(const classroom& room) {
    return room.actors->draft.layers;
}

/// A row of the keys and the row of the values that attention was called with; empty when it had no such row.
std::vector<float> used_row(const classroom& room, index layer, index row) {
    const matrix& keys = room.seen.read("draft.keys", layer);
    std::vector<float> out;
    for (const char* what : {"draft.keys", "draft.values"}) {
        const auto part = row < keys.rows ? room.seen.read(what, layer).view().row(row) : std::span<const float>();
        out.insert(out.end(), part.begin(), part.end());
    }
    return out;
}

/// C of one raw row, by the specification.
std::vector<float> spec_context(const classroom& room, std::span<const float> raw) {
    const draft_weights& w = room.actors->draft_tensors;
    return spec_norm(w.hidden_norm, room.actors->draft.rms_norm_eps, spec_linear(w.fc, raw));
}

}  // namespace

bool context_rows_come_from_c(const classroom& room) {
    bool equal = true;
    for (index l = 0; l < layers(room); ++l) {
        for (index p = 0; p < room.context.rows; ++p) {
            const auto wanted = spec_keys_and_values(*room.actors, l, room.context.view().row(p), p);
            equal = equal && same(used_row(room, l, p), wanted);
        }
    }
    return equal;
}

bool block_rows_come_from_h(const classroom& room) {
    bool equal = true;
    const layer_weights& w = room.actors->draft_tensors.layers[0];
    const index context = room.seen.read("draft.keys", 0).rows - room.embeddings.rows;
    for (index i = 0; i < room.embeddings.rows; ++i) {
        const auto normed = spec_norm(w.input_norm, room.actors->draft.rms_norm_eps, room.embeddings.view().row(i));
        const auto wanted = spec_keys_and_values(*room.actors, 0, normed, room.plot.start + i);
        equal = equal && same(used_row(room, 0, context + i), wanted);
    }
    return equal;
}

bool queries_stand_from(const classroom& room, index first) {
    const index e = room.actors->draft.head_dim;
    bool equal = true;
    for (index l = 0; l < layers(room); ++l) {
        matrix turned = room.seen.read("draft.q_before_rope", l);
        for (index i = 0; i < turned.rows; ++i) {
            for (index c = 0; c < turned.cols; c += e) {
                numerics::rope_half(turned.view().row(i).data() + c, room.actors->rotations.cos(first + i),
                                    room.actors->rotations.sin(first + i), e);
            }
        }
        equal = equal && same(turned.values, room.seen.read("draft.q", l).values);
    }
    return equal;
}

bool score_depends_on_distance(const classroom& room) {
    const index e = room.actors->draft.head_dim;
    const numerics::rope_table& turns = room.actors->rotations;
    const std::vector<float> key = used_row(room, 0, 2);
    std::vector<float> k(key.begin(), key.begin() + e);
    std::vector<float> back;  // the rotation of position 2, undone
    for (index i = 0; i < e / 2; ++i) {
        back.push_back(-turns.sin(2)[i]);
    }
    numerics::rope_half(k.data(), turns.cos(2), back.data(), e);
    const std::span<const float> q5 = room.seen.read("draft.q_before_rope", 0).view().row(2);
    std::vector<float> q(q5.begin(), q5.begin() + e);
    numerics::rope_half(q.data(), turns.cos(3), turns.sin(3), e);
    const float by_distance = numerics::dot_chain(q.data(), k.data(), e);
    const float score = numerics::dot_chain(room.seen.read("draft.q", 0).view().row(2).data(), key.data(), e);
    const float size =
        std::sqrt(numerics::dot_chain(q.data(), q.data(), e) * numerics::dot_chain(k.data(), k.data(), e));
    return std::fabs(score - by_distance) < 1e-5F * size;
}

bool every_slot_sees_everything(const classroom& room) {
    bool all = true;
    for (index l = 0; l < layers(room); ++l) {
        const matrix& weights = room.seen.read("draft.weights", l);
        all = all && weights.cols == room.plot.start + room.plot.block;
        for (index r = 0; r < weights.rows; ++r) {
            float sum = 0;
            for (const float w : weights.view().row(r)) {
                all = all && w > 0.0F;
                sum += w;
            }
            all = all && std::fabs(sum - 1.0F) < 1e-5F;
        }
    }
    return all;
}

bool weights_are_fractions(const classroom& room) {
    const std::vector<float>& weights = room.seen.read("draft.weights", 0).values;
    return std::all_of(weights.begin(), weights.end(), [](float w) { return as_fraction(w, 28).has_value(); });
}

bool output_rows_are_in_place(const classroom& room) {
    const matrix& last = room.seen.read("draft.hidden", layers(room) - 1);
    bool equal = true;
    for (index i = 0; i < last.rows; ++i) {
        const std::vector<float> normed =
            spec_norm(room.actors->draft_tensors.norm, room.actors->draft.rms_norm_eps, last.view().row(i));
        equal = equal && same(room.hidden.view().row(i), normed);
    }
    return equal;
}

matrix verify(classroom& room, std::span<const token_id> prompt, std::span<const token_id> block, bool one_by_one) {
    target_cache fresh = room.target.make_cache(size_of(prompt) + size_of(block));
    matrix logits(size_of(block), room.target.vocab_size());
    room.target.forward(prompt, fresh, {});
    if (!one_by_one) {
        room.target.forward(block, fresh, {logits.view(), {}});
    }
    for (index i = 0; one_by_one && i < logits.rows; ++i) {
        room.target.forward(block.subspan(static_cast<std::size_t>(i), 1), fresh, {logits.view().rows(i, 1), {}});
    }
    return logits;
}

table kept_keys(const classroom& room, std::span<const token_id> kept) {
    const index e = room.actors->draft.head_dim;
    const contiguous_layer<float> cached = room.draft_rows.layer(0, room.draft_rows.length());
    matrix keys(size_of(kept), room.actors->draft.kv_heads * e);
    for (index i = 0; i < keys.rows; ++i) {
        for (index c = 0; c < keys.cols; ++c) {
            keys.view()(i, c) = cached.key(c / e, room.plot.start + i, c % e);
        }
    }
    return room.by_head("K of the draft's cache, layer 0", keys, room.places(room.plot.start, kept));
}

bool kept_rows_come_from_features(const classroom& room) {
    bool equal = true;
    const index e = room.actors->draft.head_dim;
    const index width = room.actors->draft.kv_heads * e;
    for (index l = 0; l < layers(room); ++l) {
        const contiguous_layer<float> cached = room.draft_rows.layer(l, room.draft_rows.length());
        for (index p = room.plot.start; p < room.draft_rows.length(); ++p) {
            const std::vector<float> c = spec_context(room, room.verify_raw.view().row(p - room.plot.start));
            const std::vector<float> wanted = spec_keys_and_values(*room.actors, l, c, p);
            for (index x = 0; x < width; ++x) {
                equal = equal && cached.key(x / e, p, x % e) == wanted[static_cast<std::size_t>(x)] &&
                        cached.value(x / e, p, x % e) == wanted[static_cast<std::size_t>(width + x)];
            }
        }
    }
    return equal;
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
