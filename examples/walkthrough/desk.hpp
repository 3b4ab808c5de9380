// The window into the library: an observer that copies what goes by, and the exact backend with a note taken where no
// event is sent (rotation, output projection, and the weights of attention).
//
// It adds nothing: every number is one the library computed or, for attention weights, numerics::attention_weights of
// the very rows that attention was called with. The places where a mistake can be made are here and in players.hpp;
// without one, every call goes straight through.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dflash/concepts/observer.hpp>
#include <dflash/cpu/exact.hpp>

#include "walkthrough/mistakes.hpp"

DFLASH_BEGIN_NAMESPACE
namespace walkthrough {

/// A matrix that owns its numbers.
struct matrix {
    matrix() = default;
    matrix(index rows_, index cols_) : values(static_cast<std::size_t>(rows_ * cols_)), rows(rows_), cols(cols_) {}
    explicit matrix(matrix_view<const float> from) : rows(from.rows()), cols(from.cols()) {
        for (index r = 0; r < rows; ++r) {
            values.insert(values.end(), from.row(r).begin(), from.row(r).end());
        }
    }

    [[nodiscard]] matrix_view<float> view() { return {values.data(), rows, cols}; }
    [[nodiscard]] matrix_view<const float> view() const { return {values.data(), rows, cols}; }

    std::vector<float> values;
    index rows = 0;
    index cols = 0;
};

/// What lies on the desk: the mistake to be made, and the newest copy of every tensor that went by.
struct desk {
    enum class work : std::uint8_t { other, inject, forward };

    explicit desk(mistake made) : wrong(made) {}

    mistake wrong;
    std::map<std::pair<std::string, index>, matrix> notes;  ///< by name ("draft.q") and layer

    work now = work::other;  ///< what the draft is doing; the counts below start anew with it
    int linears = 0;
    int norms = 0;
    int rotations = 0;
    int attentions = 0;
    std::vector<cpu::vector_weights> input_norms;  ///< the draft's, for the mistake that uses them
    float eps = 0;
    matrix verify_features;  ///< of the target's newest forward

    void begin(work next) {
        now = next;
        linears = norms = rotations = attentions = 0;
    }
    void note(std::string name, index layer, matrix values) { notes[{std::move(name), layer}] = std::move(values); }
    /// Errors: config_error when nothing of that name went by.
    [[nodiscard]] const matrix& read(const std::string& name, index layer = -1) const {
        const auto found = notes.find({name, layer});
        if (found == notes.end()) {
            raise<config_error>("walkthrough: no tensor \"", name, "\" of layer ", layer, " has gone by");
        }
        return found->second;
    }
};

/// Copies every tensor event to the desk, under "target." or "draft.".
struct window {
    desk* onto;
    std::string_view who;

    void operator()(const tensor_event<>& event) const {
        onto->note(joined(who, ".", event.name), event.layer, matrix(event.rows));
    }
};

/// The exact backend of the draft, watched.
class draft_backend : public cpu::exact {
public:
    explicit draft_backend(desk& onto) : cpu::exact(cpu::exact_options{.threads = 1}), desk_(&onto) {}

    void linear(matrix_view<const float> x, const linear_weights& w, matrix_view<float> y) const;
    void rms_norm(matrix_view<const float> x, const vector_weights& w, float eps, matrix_view<float> y) const;
    void rope(matrix_view<float> x, index head_dim, const numerics::rope_table& table, index position) const;
    void attend(attention_call<float, contiguous_layer<float>> call) const;

private:
    void watch(const attention_call<float, contiguous_layer<float>>& call, index layer) const;

    desk* desk_;
};

}  // namespace walkthrough
DFLASH_END_NAMESPACE
