// Sixteen lanes as xsimd batches of the instruction set that the build itself enables. Included inside its namespace.
//
// From xsimd come the register type, broadcasts, loads, stores, sums and products, which are single IEEE operations in
// every version. Its fma is a product and a sum on some instruction sets, so the fused one is named here; what is left
// goes element by element, through numerics.

using batch = xsimd::batch<float>;
inline constexpr index batch_size = static_cast<index>(batch::size);
inline constexpr std::size_t batches = 16 / batch::size;

struct v16 {
    batch v[batches];
};
struct w16 {
    const std::uint32_t* p;
};

inline constexpr int row_tiles[] = {1, 4};
inline constexpr int tile_rows = 4;
constexpr int tile_panels(int rows) {
    return rows == 1 ? 4 : 1;
}
inline constexpr int max_group = 4;

#if defined(__AVX512F__)
DFLASH_CPU_INLINE __m512 fused(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}
#endif
#if defined(__FMA__)
DFLASH_CPU_INLINE __m256 fused(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}
#endif
#if defined(__aarch64__)
DFLASH_CPU_INLINE float32x4_t fused(float32x4_t a, float32x4_t b, float32x4_t c) {
    return vfmaq_f32(c, a, b);
}
#endif

DFLASH_CPU_INLINE v16 splat(float x) {
    v16 r;
    for (batch& b : r.v) {
        b = batch(x);
    }
    return r;
}
DFLASH_CPU_INLINE v16 zero() {
    return splat(0.0F);
}
DFLASH_CPU_INLINE v16 load(const float* p) {
    v16 r;
    for (batch& b : r.v) {
        b = batch::load_unaligned(p);
        p += batch_size;
    }
    return r;
}
DFLASH_CPU_INLINE void store(float* p, v16 a) {
    for (const batch& b : a.v) {
        b.store_unaligned(p);
        p += batch_size;
    }
}
DFLASH_CPU_INLINE v16 add(v16 a, v16 b) {
    for (std::size_t i = 0; i < batches; ++i) {
        a.v[i] = a.v[i] + b.v[i];
    }
    return a;
}
DFLASH_CPU_INLINE v16 mul(v16 a, v16 b) {
    for (std::size_t i = 0; i < batches; ++i) {
        a.v[i] = a.v[i] * b.v[i];
    }
    return a;
}
DFLASH_CPU_INLINE v16 fma(v16 a, v16 b, v16 c) {
    for (std::size_t i = 0; i < batches; ++i) {
        a.v[i] = batch(fused(a.v[i], b.v[i], c.v[i]));
    }
    return a;
}

// ---- element by element --------------------------------------------------------------------------------------------

struct lanes16 {
    alignas(64) float v[16];
    lanes16() = default;
    explicit lanes16(v16 a) { store(v, a); }
    [[nodiscard]] v16 packed() const { return load(v); }
};

inline v16 load_part(const float* p, index count) {
    lanes16 r(zero());
    for (index i = 0; i < count; ++i) {
        r.v[i] = p[i];
    }
    return r.packed();
}
inline void store_part(float* p, v16 a, index count) {
    const lanes16 x(a);
    for (index i = 0; i < count; ++i) {
        p[i] = x.v[i];
    }
}
inline v16 sub(v16 a, v16 b) {
    lanes16 x(a);
    const lanes16 y(b);
    for (int i = 0; i < 16; ++i) {
        x.v[i] = x.v[i] - y.v[i];
    }
    return x.packed();
}
inline v16 div(v16 a, v16 b) {
    lanes16 x(a);
    const lanes16 y(b);
    for (int i = 0; i < 16; ++i) {
        x.v[i] = numerics::divide(x.v[i], y.v[i]);
    }
    return x.packed();
}
inline v16 larger(v16 a, v16 b) {
    lanes16 x(a);
    const lanes16 y(b);
    for (int i = 0; i < 16; ++i) {
        x.v[i] = x.v[i] > y.v[i] ? x.v[i] : y.v[i];
    }
    return x.packed();
}
inline v16 negate(v16 a) {
    lanes16 x(a);
    for (float& lane : x.v) {
        lane = -lane;
    }
    return x.packed();
}
inline v16 exp(v16 a) {
    lanes16 x(a);
    for (float& lane : x.v) {
        lane = numerics::exp(lane);
    }
    return x.packed();
}
inline v16 keep_lanes(v16 a, index first, index last, v16 other) {
    const lanes16 x(a);
    lanes16 r(other);
    for (index i = first; i < last; ++i) {
        r.v[i] = x.v[i];
    }
    return r.packed();
}
inline float fold_add(v16 a) {
    lanes16 x(a);
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
            x.v[j] = x.v[j] + x.v[j + half];
        }
    }
    return x.v[0];
}
inline float fold_max(v16 a) {
    lanes16 x(a);
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
            x.v[j] = x.v[j] > x.v[j + half] ? x.v[j] : x.v[j + half];
        }
    }
    return x.v[0];
}

DFLASH_CPU_INLINE w16 load_words(const std::uint32_t* p) {
    return {p};
}
inline v16 bf16_high(w16 a) {
    lanes16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::from_bits(a.p[i] & 0xFFFF0000U);
    }
    return r.packed();
}
inline v16 bf16_low(w16 a) {
    lanes16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::from_bits(a.p[i] << 16);
    }
    return r.packed();
}
inline v16 f16_high(w16 a) {
    lanes16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(f16{static_cast<std::uint16_t>(a.p[i] >> 16)});
    }
    return r.packed();
}
inline v16 f16_low(w16 a) {
    lanes16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(f16{static_cast<std::uint16_t>(a.p[i] & 0xFFFFU)});
    }
    return r.packed();
}
