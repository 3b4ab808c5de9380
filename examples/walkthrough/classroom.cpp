#include "walkthrough/classroom.hpp"

#include <cstring>

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {
namespace {

constexpr index room_for = 48;

std::string layer_list(std::span<const index> layers) {
    std::string out;
    for (const index layer : layers) {
        out += joined(out.empty() ? "" : "/", layer);
    }
    return out;
}

std::vector<float> stored_row(const tensor_view& vector) {
    std::vector<float> out;
    for (index i = 0; i < vector.cols; ++i) {
        out.push_back(vector.element(0, i));
    }
    return out;
}

}  // namespace

classroom::classroom(std::shared_ptr<const cast> who, mistake wrong)
    : actors(std::move(who)),
      seen(wrong),
      target(*actors, seen),
      draft(*actors, seen),
      target_rows(target.make_cache(room_for)),
      draft_rows(draft.make_cache(room_for)) {
    const target_shape& t = actors->target;
    const draft_shape& d = actors->draft;
    notes.cast = actors->name;
    notes.words = story_words();
    notes.confession = actors->confession;
    notes.prompt = plot.prompt;
    notes.setting = {{"target layers", joined(t.layers)},
                     {"hidden size d", joined(t.hidden_size)},
                     {"heads", joined(t.heads, " of ", t.head_dim)},
                     {"draft layers", joined(d.layers)},
                     {"tapped layers", layer_list(d.taps)},
                     {"block size", joined(d.block_size)},
                     {"vocabulary", joined(t.vocab_size, " words")},
                     {"prompt", "The cat sat (positions 0 1 2)"}};
}

std::vector<std::string> classroom::places(index from, std::span<const token_id> ids) const {
    std::vector<std::string> out;
    for (const token_id id : ids) {
        out.push_back(joined(from++, " ", word(id)));
    }
    return out;
}

table classroom::by_head(std::string name, const matrix& rows, std::vector<std::string> labels) const {
    const index e = actors->draft.head_dim;
    const index heads = rows.cols / e;
    table out{.name = std::move(name),
              .shape = {heads, rows.rows, e},
              .rows = std::move(labels),
              .columns = {},
              .values = {}};
    for (index h = 0; h < heads; ++h) {
        for (index r = 0; r < rows.rows; ++r) {
            const float* from = rows.view().row(r).data() + h * e;
            out.values.insert(out.values.end(), from, from + e);
        }
    }
    return out;
}

std::vector<float> spec_linear(const tensor_view& weights, std::span<const float> row) {
    std::vector<float> out(static_cast<std::size_t>(weights.rows));
    if (weights.type == dtype::f32) {
        std::vector<float> stored(static_cast<std::size_t>(weights.rows * weights.cols));
        std::memcpy(stored.data(), weights.data, stored.size() * sizeof(float));
        numerics::linear(stored.data(), nullptr, row.data(), weights.cols, weights.rows, out.data());
    } else {
        std::vector<bf16> stored(static_cast<std::size_t>(weights.rows * weights.cols));
        std::memcpy(stored.data(), weights.data, stored.size() * sizeof(bf16));
        numerics::linear(stored.data(), nullptr, row.data(), weights.cols, weights.rows, out.data());
    }
    return out;
}

std::vector<float> spec_norm(const tensor_view& weights, float eps, std::span<const float> row) {
    std::vector<float> out(row.size());
    numerics::rms_norm(row.data(), stored_row(weights).data(), eps, size_of(row), out.data());
    return out;
}

std::vector<float> spec_keys_and_values(const cast& actors, index layer, std::span<const float> row, index position) {
    const layer_weights& w = actors.draft_tensors.layers[static_cast<std::size_t>(layer)];
    const index e = actors.draft.head_dim;
    std::vector<float> keys = spec_linear(w.k, row);
    const std::vector<float> norm = stored_row(w.k_norm);
    for (index c = 0; c < actors.draft.kv_heads * e; c += e) {
        numerics::rms_norm(keys.data() + c, norm.data(), actors.draft.rms_norm_eps, e, keys.data() + c);
        numerics::rope_half(keys.data() + c, actors.rotations.cos(position), actors.rotations.sin(position), e);
    }
    const std::vector<float> values = spec_linear(w.v, row);
    keys.insert(keys.end(), values.begin(), values.end());
    return keys;
}

bool same(std::span<const float> a, std::span<const float> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](float x, float y) { return numerics::to_bits(x) == numerics::to_bits(y); });
}

}  // namespace walkthrough
DFLASH_END_NAMESPACE
