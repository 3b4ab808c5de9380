// Rows turned into columns, so that a kernel finds the elements of all rows of a tile side by side.
#pragma once

#include <cstring>

#include <dflash/vocabulary.hpp>

DFLASH_BEGIN_NAMESPACE

namespace cpu {

namespace detail {

using f32x4 = float __attribute__((vector_size(16)));

inline f32x4 load4(const void* p) noexcept {
    f32x4 v;
    std::memcpy(&v, p, sizeof(v));
    return v;
}
inline void store4(void* p, f32x4 v) noexcept {
    std::memcpy(p, &v, sizeof(v));
}

/// Four rows at a time: out[k * width + r] = x[r * stride + k] for r < 4. Elements are moved, never computed with.
template <class T>
inline void interleave_four(const T* x, index stride, index count, T* out, index width) noexcept {
    static_assert(sizeof(T) == sizeof(float));
    index k = 0;
    for (; k + 4 <= count; k += 4) {
        const f32x4 a = load4(x + k);
        const f32x4 b = load4(x + stride + k);
        const f32x4 c = load4(x + 2 * stride + k);
        const f32x4 d = load4(x + 3 * stride + k);
        const f32x4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        const f32x4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const f32x4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        const f32x4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        store4(out + k * width, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
        store4(out + (k + 1) * width, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
        store4(out + (k + 2) * width, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
        store4(out + (k + 3) * width, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
    }
    for (; k < count; ++k) {
        for (index r = 0; r < 4; ++r) {
            out[k * width + r] = x[r * stride + k];
        }
    }
}

}  // namespace detail

/// out(count, width): column r is row r of x for r < rows, and 0 for the columns after. rows <= width.
/// T: float, or words of two 16-bit elements.
template <class T>
inline void interleave(const T* x, index stride, index rows, index count, T* out, index width) noexcept {
    index r = 0;
    for (; r + 4 <= rows; r += 4) {
        detail::interleave_four(x + r * stride, stride, count, out + r, width);
    }
    for (; r < width; ++r) {
        for (index k = 0; k < count; ++k) {
            out[k * width + r] = r < rows ? x[r * stride + k] : T{};
        }
    }
}

}  // namespace cpu

DFLASH_END_NAMESPACE
