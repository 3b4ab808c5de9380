// Sixteen lanes with the dot product of bf16 pairs: AVX-512's own lanes and tiles, and one operation more.

using avx512::add;
using avx512::bf16_high;
using avx512::bf16_low;
using avx512::f16_high;
using avx512::f16_low;
using avx512::fma;
using avx512::load;
using avx512::load_part;
using avx512::load_words;
using avx512::max_group;
using avx512::row_tiles;
using avx512::splat;
using avx512::store;
using avx512::store_part;
using avx512::tile_panels;
using avx512::tile_rows;
using avx512::v16;
using avx512::w16;
using avx512::zero;

DFLASH_CPU_INLINE w16 splat_word(std::uint32_t x) {
    return {_mm512_set1_epi32(static_cast<int>(x))};
}
/// fma(low of a, low of b, fma(high of a, high of b, c)): what the machine does is checked before it is relied on.
DFLASH_CPU_INLINE v16 dot(w16 a, w16 b, v16 c) {
    return {_mm512_dpbf16_ps(c.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}
