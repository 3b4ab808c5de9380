// The key/value cache of one sequence in device memory, and the view of one layer that attention reads.
#pragma once

#include <cstdint>
#include <utility>

#include <dflash/cuda/kernels/attention.cuh>
#include <dflash/cuda/memory.hpp>
#include <dflash/identity.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cuda {

/// One layer, read only; positions 0 .. length() - 1 count.
struct device_layer {
    const float* keys = nullptr;
    const float* values = nullptr;
    index keys_head = 0;    ///< elements from one KV head to the next
    index values_head = 0;  ///< likewise
    index positions = 0;    ///< that there is room for
    index length_ = 0;
    index kv_heads_ = 0;
    index head_dim_ = 0;

    [[nodiscard]] index length() const noexcept { return length_; }
    [[nodiscard]] index kv_heads() const noexcept { return kv_heads_; }
    [[nodiscard]] index head_dim() const noexcept { return head_dim_; }
};

/// K and V rows of every layer for positions 0 .. length() - 1. A kv_cache; cuda::exact writes it.
class device_cache {
public:
    using layer_type = device_layer;

    /// Room for `capacity` positions. Errors: backend_error when the memory is not there.
    device_cache(index layers, index kv_heads, index head_dim, index capacity)
        : layers_(layers),
          kv_heads_(kv_heads),
          head_dim_(head_dim),
          capacity_(capacity),
          padded_((capacity + device_key_panel - 1) / device_key_panel * device_key_panel),
          keys_(layers * kv_heads * keys_head()),
          values_(layers * kv_heads * values_head()) {}

    [[nodiscard]] index length() const noexcept { return length_; }
    [[nodiscard]] index capacity() const noexcept { return capacity_; }
    [[nodiscard]] index layers() const noexcept { return layers_; }
    /// Which memory this is: other memory, other number, even at the same address. Graphs are told apart by it.
    [[nodiscard]] std::uint64_t identity() const noexcept { return identity_; }
    [[nodiscard]] index kv_heads() const noexcept { return kv_heads_; }
    [[nodiscard]] index head_dim() const noexcept { return head_dim_; }

    /// Forgets every position from n on.
    void crop(index n) {
        DFLASH_EXPECTS(n >= 0 && n <= length_, "cache: crop to ", n, " of ", length_, " positions");
        length_ = n;
    }

    /// Makes positions up to `length` count, after all layers have been written.
    void extend(index length) {
        DFLASH_EXPECTS(length >= length_ && length <= capacity_, "cache: extend from ", length_, " to ", length, " of ",
                       capacity_);
        length_ = length;
    }

    /// One layer with `length` positions, which may include rows written but not yet extended over.
    [[nodiscard]] layer_type layer(index layer, index length) const noexcept {
        return {keys_.data() + layer * kv_heads_ * keys_head(),
                values_.data() + layer * kv_heads_ * values_head(),
                keys_head(),
                values_head(),
                padded_,
                length,
                kv_heads_,
                head_dim_};
    }

    /// Where rows of a layer are written.
    [[nodiscard]] float* keys(index layer) noexcept { return keys_.data() + layer * kv_heads_ * keys_head(); }
    [[nodiscard]] float* values(index layer) noexcept { return values_.data() + layer * kv_heads_ * values_head(); }
    [[nodiscard]] index keys_head() const noexcept { return padded_ * 4 * head_quads(static_cast<int>(head_dim_)); }
    [[nodiscard]] index values_head() const noexcept { return padded_ * head_dim_; }

    /// Copies the positions into a cache with room for at least `capacity`; keeps this one when it has the room.
    void reserve(index capacity) {
        if (capacity <= capacity_) {
            return;
        }
        device_cache larger(layers_, kv_heads_, head_dim_, capacity);
        runtime::wait_all();  // whatever writes to this one
        for (index h = 0; h < layers_ * kv_heads_; ++h) {
            copy(larger.keys_.data() + h * larger.keys_head(), keys_.data() + h * keys_head(), keys_head());
            copy(larger.values_.data() + h * larger.values_head(), values_.data() + h * values_head(), values_head());
        }
        runtime::wait({});
        larger.length_ = length_;
        *this = std::move(larger);
    }

private:
    static void copy(float* to, const float* from, index count) {
        runtime::copy(to, from, static_cast<std::size_t>(count) * sizeof(float), {});
    }

    index layers_;
    index kv_heads_;
    index head_dim_;
    index capacity_;
    index padded_;
    index length_ = 0;
    std::uint64_t identity_ = next_identity();
    buffer<float, device_space> keys_;    // (layers, g, panels, quads, 32, 4)
    buffer<float, device_space> values_;  // (layers, g, padded, e)
};

}  // namespace cuda

DFLASH_END_NAMESPACE
