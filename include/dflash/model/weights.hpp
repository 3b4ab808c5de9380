// The tensors of a checkpoint as views, by the role they play. All matrices are (out, in), row-major, as stored.
//
// The views stay valid as long as `owner` lives. Transformers copy what they need (packed), so the owner can be let go
// once they are built. They say which tensors they have packed, so that memory behind those need not wait for that.
#pragma once

#include <memory>
#include <vector>

#include <dflash/concepts/ops.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Told of tensors that have been packed. Their bytes may leave memory, but must be the same when they are read again.
class packed_observer {
public:
    packed_observer() = default;
    packed_observer(const packed_observer&) = delete;
    packed_observer& operator=(const packed_observer&) = delete;
    virtual ~packed_observer() = default;
    virtual void packed(const tensor_view& tensor) const = 0;
};

inline void tell_packed(const packed_observer* observer, const tensor_view& tensor) {
    if (observer != nullptr) {
        observer->packed(tensor);
    }
}

/// One decoder layer. Absent tensors are empty views: biases without attention_bias, q/k norms for Llama.
struct layer_weights {
    tensor_view input_norm;  // (d)
    tensor_view q, k, v;     // (h*e, d), (g*e, d), (g*e, d)
    tensor_view o;           // (d, h*e)
    tensor_view q_bias, k_bias, v_bias, o_bias;
    tensor_view q_norm, k_norm;  // (e)
    tensor_view post_norm;       // (d)
    tensor_view gate, up;        // (i, d)
    tensor_view down;            // (d, i)
};

/// A target's tensors.
struct target_weights {
    tensor_view embedding;  // (v, d)
    tensor_view norm;       // (d)
    tensor_view head;       // (v, d), empty when tied
    std::vector<layer_weights> layers;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const packed_observer> on_packed;  // may be null
};

/// A DFlash draft's tensors.
struct draft_weights {
    tensor_view fc;           // (d, k*d)
    tensor_view hidden_norm;  // (d)
    tensor_view norm;         // (d)
    std::vector<layer_weights> layers;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const packed_observer> on_packed;  // may be null
};

DFLASH_END_NAMESPACE
