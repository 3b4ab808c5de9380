// Sixteen lanes as two AVX registers, with FMA and F16C. Included inside the namespace and target region of its
// instruction set.

struct v16 {
    __m256 a, b;
};
struct w16 {
    __m256i a, b;
};

inline constexpr int row_tiles[] = {1, 4, 6};
inline constexpr int tile_rows = 6;
constexpr int tile_panels(int rows) {
    return rows == 1 ? 4 : 1;
}
inline constexpr int max_group = 4;

/// All bits set in lanes first .. last - 1 of eight that start at lane `offset`.
DFLASH_CPU_INLINE __m256i lane_mask(index first, index last, int offset) {
    const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(offset));
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(first)), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(last)), lane));
}

DFLASH_CPU_INLINE v16 zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
DFLASH_CPU_INLINE v16 splat(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
DFLASH_CPU_INLINE v16 load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
DFLASH_CPU_INLINE v16 load_part(const float* p, index count) {
    // The address of lanes that are not read may lie behind the array: kept inside it, since only the mask decides.
    const float* q = count > 8 ? p + 8 : p;
    return {_mm256_maskload_ps(p, lane_mask(0, count, 0)), _mm256_maskload_ps(q, lane_mask(0, count, 8))};
}
DFLASH_CPU_INLINE void store(float* p, v16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
DFLASH_CPU_INLINE void store_part(float* p, v16 x, index count) {
    float* q = count > 8 ? p + 8 : p;
    _mm256_maskstore_ps(p, lane_mask(0, count, 0), x.a);
    _mm256_maskstore_ps(q, lane_mask(0, count, 8), x.b);
}
DFLASH_CPU_INLINE v16 add(v16 x, v16 y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
DFLASH_CPU_INLINE v16 sub(v16 x, v16 y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
DFLASH_CPU_INLINE v16 mul(v16 x, v16 y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
DFLASH_CPU_INLINE v16 div(v16 x, v16 y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
DFLASH_CPU_INLINE v16 fma(v16 x, v16 y, v16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
DFLASH_CPU_INLINE v16 larger(v16 x, v16 y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
DFLASH_CPU_INLINE v16 negate(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
DFLASH_CPU_INLINE v16 rint(v16 x) {
    return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
            _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
DFLASH_CPU_INLINE __m256 shift_exponent_half(__m256 y, __m256 n) {
    const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), shift));
}
DFLASH_CPU_INLINE v16 shift_exponent(v16 y, v16 n) {
    return {shift_exponent_half(y.a, n.a), shift_exponent_half(y.b, n.b)};
}
DFLASH_CPU_INLINE v16 if_greater(v16 x, v16 bound, v16 yes, v16 no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, bound.a, _CMP_GT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, bound.b, _CMP_GT_OQ))};
}
DFLASH_CPU_INLINE v16 if_nan(v16 x, v16 yes, v16 no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))};
}
DFLASH_CPU_INLINE v16 keep_lanes(v16 x, index first, index last, v16 other) {
    return {_mm256_blendv_ps(other.a, x.a, _mm256_castsi256_ps(lane_mask(first, last, 0))),
            _mm256_blendv_ps(other.b, x.b, _mm256_castsi256_ps(lane_mask(first, last, 8)))};
}
DFLASH_CPU_INLINE float fold_add(v16 x) {
    const __m256 l8 = _mm256_add_ps(x.a, x.b);
    const __m128 l4 = _mm_add_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps(l8, 1));
    const __m128 l2 = _mm_add_ps(l4, _mm_movehl_ps(l4, l4));
    return _mm_cvtss_f32(_mm_add_ss(l2, _mm_movehdup_ps(l2)));
}
DFLASH_CPU_INLINE float fold_max(v16 x) {
    const __m256 l8 = _mm256_max_ps(x.a, x.b);
    const __m128 l4 = _mm_max_ps(_mm256_castps256_ps128(l8), _mm256_extractf128_ps(l8, 1));
    const __m128 l2 = _mm_max_ps(l4, _mm_movehl_ps(l4, l4));
    return _mm_cvtss_f32(_mm_max_ss(l2, _mm_movehdup_ps(l2)));
}

DFLASH_CPU_INLINE w16 load_words(const std::uint32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
DFLASH_CPU_INLINE v16 bf16_high(w16 x) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm256_castsi256_ps(_mm256_and_si256(x.a, mask)), _mm256_castsi256_ps(_mm256_and_si256(x.b, mask))};
}
DFLASH_CPU_INLINE v16 bf16_low(w16 x) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(x.a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(x.b, 16))};
}
/// The low halves of the words, which must be below 65536, widened.
DFLASH_CPU_INLINE v16 f16_of_words(__m256i a, __m256i b) {
    // The pack works in 128-bit halves and leaves a0-3 b0-3 a4-7 b4-7; the permutation puts them in order.
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
DFLASH_CPU_INLINE v16 f16_high(w16 x) {
    return f16_of_words(_mm256_srli_epi32(x.a, 16), _mm256_srli_epi32(x.b, 16));
}
DFLASH_CPU_INLINE v16 f16_low(w16 x) {
    const __m256i mask = _mm256_set1_epi32(0xFFFF);
    return f16_of_words(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask));
}

#include <dflash/cpu/kernels/exp.inl>
