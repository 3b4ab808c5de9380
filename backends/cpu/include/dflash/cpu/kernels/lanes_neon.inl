// Sixteen lanes as four NEON registers (AArch64). Included inside the namespace of its instruction set.

struct v16 {
    float32x4_t a, b, c, d;
};
struct w16 {
    uint32x4_t a, b, c, d;
};

inline constexpr int row_tiles[] = {1, 4, 6};
inline constexpr int tile_rows = 6;
constexpr int tile_panels(int rows) {
    return rows == 1 ? 4 : 1;
}
inline constexpr int max_group = 4;

/// All bits set in lanes first .. last - 1 of four that start at lane `offset`.
DFLASH_CPU_INLINE uint32x4_t lane_mask(index first, index last, int offset) {
    const std::int32_t numbers[4] = {offset, offset + 1, offset + 2, offset + 3};
    const int32x4_t lane = vld1q_s32(numbers);
    return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(static_cast<std::int32_t>(first))),
                     vcltq_s32(lane, vdupq_n_s32(static_cast<std::int32_t>(last))));
}

DFLASH_CPU_INLINE v16 splat(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {v, v, v, v};
}
DFLASH_CPU_INLINE v16 zero() {
    return splat(0.0F);
}
DFLASH_CPU_INLINE v16 load(const float* p) {
    return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
DFLASH_CPU_INLINE void store(float* p, v16 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
inline v16 load_part(const float* p, index count) {
    float lanes[16] = {};
    for (index i = 0; i < count; ++i) {
        lanes[i] = p[i];
    }
    return load(lanes);
}
inline void store_part(float* p, v16 x, index count) {
    float lanes[16];
    store(lanes, x);
    for (index i = 0; i < count; ++i) {
        p[i] = lanes[i];
    }
}
DFLASH_CPU_INLINE v16 add(v16 x, v16 y) {
    return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
DFLASH_CPU_INLINE v16 sub(v16 x, v16 y) {
    return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
DFLASH_CPU_INLINE v16 mul(v16 x, v16 y) {
    return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
DFLASH_CPU_INLINE v16 div(v16 x, v16 y) {
    return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
DFLASH_CPU_INLINE v16 fma(v16 x, v16 y, v16 z) {
    return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
DFLASH_CPU_INLINE v16 larger(v16 x, v16 y) {
    return {vmaxq_f32(x.a, y.a), vmaxq_f32(x.b, y.b), vmaxq_f32(x.c, y.c), vmaxq_f32(x.d, y.d)};
}
DFLASH_CPU_INLINE v16 negate(v16 x) {
    return {vnegq_f32(x.a), vnegq_f32(x.b), vnegq_f32(x.c), vnegq_f32(x.d)};
}
DFLASH_CPU_INLINE v16 rint(v16 x) {
    return {vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d)};
}
DFLASH_CPU_INLINE float32x4_t shift_exponent_part(float32x4_t y, float32x4_t n) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(y), vshlq_n_s32(vcvtq_s32_f32(n), 23)));
}
DFLASH_CPU_INLINE v16 shift_exponent(v16 y, v16 n) {
    return {shift_exponent_part(y.a, n.a), shift_exponent_part(y.b, n.b), shift_exponent_part(y.c, n.c),
            shift_exponent_part(y.d, n.d)};
}
DFLASH_CPU_INLINE v16 if_greater(v16 x, v16 bound, v16 yes, v16 no) {
    return {vbslq_f32(vcgtq_f32(x.a, bound.a), yes.a, no.a), vbslq_f32(vcgtq_f32(x.b, bound.b), yes.b, no.b),
            vbslq_f32(vcgtq_f32(x.c, bound.c), yes.c, no.c), vbslq_f32(vcgtq_f32(x.d, bound.d), yes.d, no.d)};
}
DFLASH_CPU_INLINE v16 if_nan(v16 x, v16 yes, v16 no) {
    return {vbslq_f32(vceqq_f32(x.a, x.a), no.a, yes.a), vbslq_f32(vceqq_f32(x.b, x.b), no.b, yes.b),
            vbslq_f32(vceqq_f32(x.c, x.c), no.c, yes.c), vbslq_f32(vceqq_f32(x.d, x.d), no.d, yes.d)};
}
/// Lanes first .. last - 1 of x, the others of `other`.
DFLASH_CPU_INLINE v16 keep_lanes(v16 x, index first, index last, v16 other) {
    return {vbslq_f32(lane_mask(first, last, 0), x.a, other.a), vbslq_f32(lane_mask(first, last, 4), x.b, other.b),
            vbslq_f32(lane_mask(first, last, 8), x.c, other.c), vbslq_f32(lane_mask(first, last, 12), x.d, other.d)};
}
/// Lane j + lane j + half, for half = 8, 4, 2, 1; lane 0.
DFLASH_CPU_INLINE float fold_add(v16 x) {
    const float32x4_t l4 = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t l2 = vadd_f32(vget_low_f32(l4), vget_high_f32(l4));
    return vget_lane_f32(l2, 0) + vget_lane_f32(l2, 1);
}
DFLASH_CPU_INLINE float fold_max(v16 x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.c), vmaxq_f32(x.b, x.d)));
}

DFLASH_CPU_INLINE w16 load_words(const std::uint32_t* p) {
    return {vld1q_u32(p), vld1q_u32(p + 4), vld1q_u32(p + 8), vld1q_u32(p + 12)};
}
DFLASH_CPU_INLINE v16 bf16_high(w16 x) {
    const uint32x4_t mask = vdupq_n_u32(0xFFFF0000U);
    return {vreinterpretq_f32_u32(vandq_u32(x.a, mask)), vreinterpretq_f32_u32(vandq_u32(x.b, mask)),
            vreinterpretq_f32_u32(vandq_u32(x.c, mask)), vreinterpretq_f32_u32(vandq_u32(x.d, mask))};
}
DFLASH_CPU_INLINE v16 bf16_low(w16 x) {
    return {vreinterpretq_f32_u32(vshlq_n_u32(x.a, 16)), vreinterpretq_f32_u32(vshlq_n_u32(x.b, 16)),
            vreinterpretq_f32_u32(vshlq_n_u32(x.c, 16)), vreinterpretq_f32_u32(vshlq_n_u32(x.d, 16))};
}
DFLASH_CPU_INLINE float32x4_t widen_f16(uint16x4_t bits) {
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}
DFLASH_CPU_INLINE v16 f16_high(w16 x) {
    return {widen_f16(vshrn_n_u32(x.a, 16)), widen_f16(vshrn_n_u32(x.b, 16)), widen_f16(vshrn_n_u32(x.c, 16)),
            widen_f16(vshrn_n_u32(x.d, 16))};
}
DFLASH_CPU_INLINE v16 f16_low(w16 x) {
    return {widen_f16(vmovn_u32(x.a)), widen_f16(vmovn_u32(x.b)), widen_f16(vmovn_u32(x.c)), widen_f16(vmovn_u32(x.d))};
}

#include <dflash/cpu/kernels/exp.inl>
