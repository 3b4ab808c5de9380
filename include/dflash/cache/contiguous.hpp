// The key/value cache of one sequence in contiguous memory, and the view of one layer that attention reads.
//
// Keys are stored in panels of 16 positions, so that a kernel can score 16 keys at once with one broadcast of the
// query; values are stored row by row. Rows from length() on hold nothing that may be used.
#pragma once

#include <algorithm>
#include <utility>

#include <dflash/buffer.hpp>
#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

/// Positions of one key panel.
inline constexpr index key_panel = 16;

/// One layer of a contiguous cache, read only.
template <class T>
class contiguous_layer {
public:
    contiguous_layer(const T* keys, const T* values, index length, index padded, index kv_heads,
                     index head_dim) noexcept
        : keys_(keys), values_(values), length_(length), padded_(padded), kv_heads_(kv_heads), head_dim_(head_dim) {}

    [[nodiscard]] index length() const noexcept { return length_; }
    [[nodiscard]] index kv_heads() const noexcept { return kv_heads_; }
    [[nodiscard]] index head_dim() const noexcept { return head_dim_; }

    /// Key panels of one KV head: (panels, e, 16), element (position, d) at [position / 16][d][position % 16].
    [[nodiscard]] const T* key_panels(index head) const noexcept { return keys_ + head * padded_ * head_dim_; }
    /// Value rows of one KV head: (positions, e).
    [[nodiscard]] const T* value_rows(index head) const noexcept { return values_ + head * padded_ * head_dim_; }

    [[nodiscard]] T key(index head, index position, index d) const noexcept {
        return key_panels(head)[(position / key_panel * head_dim_ + d) * key_panel + position % key_panel];
    }
    [[nodiscard]] T value(index head, index position, index d) const noexcept {
        return value_rows(head)[position * head_dim_ + d];
    }

private:
    const T* keys_;
    const T* values_;
    index length_;
    index padded_;
    index kv_heads_;
    index head_dim_;
};

/// K and V rows of every layer for positions 0 .. length() - 1. A kv_cache; written by the transformers.
template <class T>
class contiguous_cache {
public:
    using layer_type = contiguous_layer<T>;

    /// Room for `capacity` positions. Errors: backend_error when the memory is not there.
    contiguous_cache(index layers, index kv_heads, index head_dim, index capacity)
        : layers_(layers),
          kv_heads_(kv_heads),
          head_dim_(head_dim),
          capacity_(capacity),
          padded_((capacity + key_panel - 1) / key_panel * key_panel),
          keys_(layers * kv_heads * head_dim * padded_),
          values_(layers * kv_heads * head_dim * padded_) {}

    [[nodiscard]] index length() const noexcept { return length_; }
    [[nodiscard]] index capacity() const noexcept { return capacity_; }
    [[nodiscard]] index layers() const noexcept { return layers_; }
    [[nodiscard]] index kv_heads() const noexcept { return kv_heads_; }
    [[nodiscard]] index head_dim() const noexcept { return head_dim_; }

    /// Forgets every position from n on.
    void crop(index n) {
        DFLASH_EXPECTS(n >= 0 && n <= length_, "cache: crop to ", n, " of ", length_, " positions");
        length_ = n;
    }

    /// Writes K and V rows of one layer at positions first .. first + rows - 1; they count once extended over them.
    /// Shapes: keys and values (m, g*e).
    void write(index layer, index first, matrix_view<const T> keys, matrix_view<const T> values) {
        DFLASH_EXPECTS(layer >= 0 && layer < layers_, "cache: layer ", layer, " of ", layers_);
        DFLASH_EXPECTS(first >= 0 && first + keys.rows() <= capacity_, "cache: rows ", first, " + ", keys.rows(),
                       " exceed the capacity ", capacity_);
        DFLASH_EXPECTS(keys.cols() == kv_heads_ * head_dim_ && values.cols() == keys.cols(), "cache: row width ",
                       keys.cols(), ", needs ", kv_heads_ * head_dim_);
        for (index g = 0; g < kv_heads_; ++g) {
            const index head = (layer * kv_heads_ + g) * padded_ * head_dim_;
            // Rows of one panel together: their elements d are neighbours.
            for (index i = 0; i < keys.rows();) {
                const index position = first + i;
                const index count = (std::min)(key_panel - position % key_panel, keys.rows() - i);
                const T* key = keys.data() + i * keys.stride() + g * head_dim_;
                T* panel = keys_.data() + head + position / key_panel * head_dim_ * key_panel + position % key_panel;
                for (index d = 0; d < head_dim_; ++d) {
                    for (index r = 0; r < count; ++r) {
                        panel[d * key_panel + r] = key[r * keys.stride() + d];
                    }
                }
                i += count;
            }
            for (index i = 0; i < values.rows(); ++i) {
                std::copy_n(values.data() + i * values.stride() + g * head_dim_, head_dim_,
                            values_.data() + head + (first + i) * head_dim_);
            }
        }
    }

    /// Makes positions up to `length` count, after all layers have been written.
    void extend(index length) {
        DFLASH_EXPECTS(length >= length_ && length <= capacity_, "cache: extend from ", length_, " to ", length, " of ",
                       capacity_);
        length_ = length;
    }

    /// One layer with `length` positions, which may include rows written but not yet extended over.
    [[nodiscard]] layer_type layer(index layer, index length) const noexcept {
        const index offset = layer * kv_heads_ * padded_ * head_dim_;
        return {keys_.data() + offset, values_.data() + offset, length, padded_, kv_heads_, head_dim_};
    }

    /// Copies the positions into a cache with room for at least `capacity`; keeps this one when it has the room.
    void reserve(index capacity) {
        if (capacity <= capacity_) {
            return;
        }
        contiguous_cache larger(layers_, kv_heads_, head_dim_, capacity);
        const index panels = (length_ + key_panel - 1) / key_panel * key_panel;
        for (index h = 0; h < layers_ * kv_heads_; ++h) {
            std::copy_n(keys_.data() + h * padded_ * head_dim_, panels * head_dim_,
                        larger.keys_.data() + h * larger.padded_ * head_dim_);
            std::copy_n(values_.data() + h * padded_ * head_dim_, length_ * head_dim_,
                        larger.values_.data() + h * larger.padded_ * head_dim_);
        }
        larger.length_ = length_;
        *this = std::move(larger);
    }

private:
    index layers_;
    index kv_heads_;
    index head_dim_;
    index capacity_;
    index padded_;
    index length_ = 0;
    buffer<T> keys_;    // (layers, g, padded/16, e, 16)
    buffer<T> values_;  // (layers, g, padded, e)
};

DFLASH_END_NAMESPACE
