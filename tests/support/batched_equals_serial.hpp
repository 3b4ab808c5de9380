// The property of the mission, as one function: whatever the grouping of tokens into calls, the bits are the same.
//
// Templated on the model, so that the exact backend and the broken controls go through the very same checks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dflash/concepts/model.hpp>
#include <dflash/contracts.hpp>

#include "support/random_model.hpp"

namespace dflash::test {

/// Equal bits; a NaN equals any NaN, since payloads differ between machines.
inline bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// Every logit row, feature row and cached K and V row of one sequence.
struct trace {
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<float>> features;
    std::vector<float> cached;
};

template <class Cache>
std::vector<float> cached_rows(const Cache& cache) {
    std::vector<float> out;
    for (index l = 0; l < cache.layers(); ++l) {
        const auto layer = cache.layer(l, cache.length());
        for (index g = 0; g < cache.kv_heads(); ++g) {
            for (index p = 0; p < cache.length(); ++p) {
                for (index d = 0; d < cache.head_dim(); ++d) {
                    out.push_back(static_cast<float>(layer.key(g, p, d)));
                    out.push_back(static_cast<float>(layer.value(g, p, d)));
                }
            }
        }
    }
    return out;
}

/// One forward of `tokens`, all logits and features appended to the trace. Outputs start poisoned.
template <class Model, class Cache>
void run_forward(Model& model, Cache& cache, std::span<const token_id> tokens, trace& out) {
    const index m = size_of(tokens);
    std::vector<float> logits(static_cast<std::size_t>(m * model.vocab_size()), std::nanf(""));
    std::vector<float> features(static_cast<std::size_t>(m * model.feature_size()), std::nanf(""));
    model.forward(tokens, cache,
                  {matrix_view<float>(logits.data(), m, model.vocab_size()),
                   model.feature_size() > 0 ? matrix_view<float>(features.data(), m, model.feature_size())
                                            : matrix_view<float>()});
    for (index i = 0; i < m; ++i) {
        out.logits.emplace_back(logits.begin() + i * model.vocab_size(), logits.begin() + (i + 1) * model.vocab_size());
        out.features.emplace_back(features.begin() + i * model.feature_size(),
                                  features.begin() + (i + 1) * model.feature_size());
    }
}

inline std::optional<std::string> first_difference(const char* what, std::span<const float> a, std::span<const float> b,
                                                   index row) {
    if (a.size() != b.size()) {
        return ::dflash::detail::text(what, " row ", row, ": ", a.size(), " against ", b.size(), " values");
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!same_bits(a[i], b[i])) {
            return ::dflash::detail::text(what, " row ", row, " element ", i, ": ", a[i], " serial, ", b[i],
                                          " batched");
        }
    }
    return std::nullopt;
}

inline std::optional<std::string> first_difference(const trace& serial, const trace& batched) {
    for (std::size_t r = 0; r < serial.logits.size(); ++r) {
        const auto row = static_cast<index>(r);
        if (auto d = first_difference("logits", serial.logits[r], batched.logits.at(r), row)) {
            return d;
        }
        if (auto d = first_difference("features", serial.features[r], batched.features.at(r), row)) {
            return d;
        }
    }
    return first_difference("cached K/V", serial.cached, batched.cached, -1);
}

/// Decodes `tokens` one by one, then in random groups of 1 to `most` with rejected drafts in between (appended, then
/// cropped away). Returns the first difference. `change` is called before every batched forward, to vary threads.
template <class Model, class Change>
std::optional<std::string> batched_differs_from_serial(Model& serial_model, Model& model,
                                                       std::span<const token_id> tokens, index most,
                                                       random_source& random, Change change) {
    trace serial;
    auto serial_cache = serial_model.make_cache(size_of(tokens));
    for (index i = 0; i < size_of(tokens); ++i) {
        run_forward(serial_model, serial_cache, tokens.subspan(static_cast<std::size_t>(i), 1), serial);
    }
    serial.cached = cached_rows(serial_cache);

    trace batched;
    auto cache = model.make_cache(size_of(tokens) + most);
    for (index done = 0; done < size_of(tokens);) {
        const index count = (std::min)(random.between(1, most), size_of(tokens) - done);
        std::vector<token_id> group(tokens.begin() + done, tokens.begin() + done + count);
        const index rejected = random.chance(50) ? random.between(0, most - count) : 0;
        for (index i = 0; i < rejected; ++i) {
            group.push_back(static_cast<token_id>(random.between(0, model.vocab_size() - 1)));
        }
        change();
        trace round;
        run_forward(model, cache, group, round);
        cache.crop(done + count);
        for (index i = 0; i < count; ++i) {
            batched.logits.push_back(std::move(round.logits[static_cast<std::size_t>(i)]));
            batched.features.push_back(std::move(round.features[static_cast<std::size_t>(i)]));
        }
        done += count;
    }
    batched.cached = cached_rows(cache);
    return first_difference(serial, batched);
}

}  // namespace dflash::test
