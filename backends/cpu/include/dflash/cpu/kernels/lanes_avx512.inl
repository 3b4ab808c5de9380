// Sixteen lanes as one AVX-512 register. Included inside the namespace and target region of its instruction set.

struct v16 {
    __m512 v;
};
struct w16 {
    __m512i v;
};

/// Rows a tile may have, and its panels: at least eight chains at a time, and no more than the registers hold.
inline constexpr int row_tiles[] = {1, 2, 4, 8, 12, 16};
inline constexpr int tile_rows = 16;
constexpr int tile_panels(int rows) {
    return rows <= 4 ? 4 : (rows <= 12 ? 2 : 1);
}
inline constexpr int max_group = 4;

DFLASH_CPU_INLINE __mmask16 first_lanes(index count) {
    return static_cast<__mmask16>((1U << static_cast<unsigned>(count)) - 1U);
}

DFLASH_CPU_INLINE v16 zero() {
    return {_mm512_setzero_ps()};
}
DFLASH_CPU_INLINE v16 splat(float x) {
    return {_mm512_set1_ps(x)};
}
DFLASH_CPU_INLINE v16 load(const float* p) {
    return {_mm512_loadu_ps(p)};
}
DFLASH_CPU_INLINE v16 load_part(const float* p, index count) {
    return {_mm512_maskz_loadu_ps(first_lanes(count), p)};
}
DFLASH_CPU_INLINE void store(float* p, v16 a) {
    _mm512_storeu_ps(p, a.v);
}
DFLASH_CPU_INLINE void store_part(float* p, v16 a, index count) {
    _mm512_mask_storeu_ps(p, first_lanes(count), a.v);
}
DFLASH_CPU_INLINE v16 add(v16 a, v16 b) {
    return {_mm512_add_ps(a.v, b.v)};
}
DFLASH_CPU_INLINE v16 sub(v16 a, v16 b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
DFLASH_CPU_INLINE v16 mul(v16 a, v16 b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
DFLASH_CPU_INLINE v16 div(v16 a, v16 b) {
    return {_mm512_div_ps(a.v, b.v)};
}
DFLASH_CPU_INLINE v16 fma(v16 a, v16 b, v16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
DFLASH_CPU_INLINE v16 larger(v16 a, v16 b) {
    return {_mm512_max_ps(a.v, b.v)};
}
DFLASH_CPU_INLINE v16 negate(v16 a) {
    return {_mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32((std::numeric_limits<int>::min)())))};
}
DFLASH_CPU_INLINE v16 rint(v16 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
DFLASH_CPU_INLINE v16 shift_exponent(v16 y, v16 n) {
    const __m512i shift = _mm512_slli_epi32(_mm512_cvtps_epi32(n.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y.v), shift))};
}
DFLASH_CPU_INLINE v16 if_greater(v16 x, v16 bound, v16 yes, v16 no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_GT_OQ), no.v, yes.v)};
}
DFLASH_CPU_INLINE v16 if_nan(v16 x, v16 yes, v16 no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), no.v, yes.v)};
}
/// Lanes first .. last - 1 of x, the others of `other`.
DFLASH_CPU_INLINE v16 keep_lanes(v16 x, index first, index last, v16 other) {
    const auto mask = static_cast<__mmask16>(first_lanes(last) & ~first_lanes(first));
    return {_mm512_mask_blend_ps(mask, other.v, x.v)};
}
/// Lane j + lane j + half, for half = 8, 4, 2, 1; lane 0.
DFLASH_CPU_INLINE float fold_add(v16 a) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
    const __m256 l8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
    const __m128 l4 = _mm_add_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps(l8, 1));
    const __m128 l2 = _mm_add_ps(l4, _mm_movehl_ps(l4, l4));
    return _mm_cvtss_f32(_mm_add_ss(l2, _mm_movehdup_ps(l2)));
}
DFLASH_CPU_INLINE float fold_max(v16 a) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
    const __m256 l8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), high);
    const __m128 l4 = _mm_max_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps(l8, 1));
    const __m128 l2 = _mm_max_ps(l4, _mm_movehl_ps(l4, l4));
    return _mm_cvtss_f32(_mm_max_ss(l2, _mm_movehdup_ps(l2)));
}

DFLASH_CPU_INLINE w16 load_words(const std::uint32_t* p) {
    return {_mm512_loadu_si512(p)};
}
DFLASH_CPU_INLINE v16 bf16_high(w16 a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))))};
}
DFLASH_CPU_INLINE v16 bf16_low(w16 a) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))};
}
DFLASH_CPU_INLINE v16 f16_high(w16 a) {
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(a.v, 16)))};
}
DFLASH_CPU_INLINE v16 f16_low(w16 a) {
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))};
}

#include <dflash/cpu/kernels/exp.inl>
