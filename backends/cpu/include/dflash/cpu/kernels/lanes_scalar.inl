// Sixteen lanes as an array, one correctly rounded operation per element: works everywhere, and is the plainest form of
// what the other instruction sets do.

struct v16 {
    float v[16];
};
struct w16 {
    std::uint32_t v[16];
};

inline constexpr int row_tiles[] = {1};
inline constexpr int tile_rows = 1;
constexpr int tile_panels(int) {
    return 1;
}
inline constexpr int max_group = 1;

inline v16 splat(float x) {
    v16 r;
    for (float& lane : r.v) {
        lane = x;
    }
    return r;
}
inline v16 zero() {
    return splat(0.0F);
}
inline v16 load_part(const float* p, index count) {
    v16 r = zero();
    for (index i = 0; i < count; ++i) {
        r.v[i] = p[i];
    }
    return r;
}
inline v16 load(const float* p) {
    return load_part(p, 16);
}
inline void store_part(float* p, const v16& a, index count) {
    for (index i = 0; i < count; ++i) {
        p[i] = a.v[i];
    }
}
inline void store(float* p, const v16& a) {
    store_part(p, a, 16);
}
inline v16 add(v16 a, const v16& b) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = a.v[i] + b.v[i];
    }
    return a;
}
inline v16 sub(v16 a, const v16& b) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = a.v[i] - b.v[i];
    }
    return a;
}
inline v16 mul(v16 a, const v16& b) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = a.v[i] * b.v[i];
    }
    return a;
}
inline v16 div(v16 a, const v16& b) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = numerics::divide(a.v[i], b.v[i]);
    }
    return a;
}
inline v16 fma(v16 a, const v16& b, const v16& c) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = numerics::fma(a.v[i], b.v[i], c.v[i]);
    }
    return a;
}
inline v16 larger(v16 a, const v16& b) {
    for (int i = 0; i < 16; ++i) {
        a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    }
    return a;
}
inline v16 negate(v16 a) {
    for (float& lane : a.v) {
        lane = -lane;
    }
    return a;
}
inline v16 exp(v16 a) {
    for (float& lane : a.v) {
        lane = numerics::exp(lane);
    }
    return a;
}
inline v16 keep_lanes(const v16& x, index first, index last, v16 other) {
    for (index i = first; i < last; ++i) {
        other.v[i] = x.v[i];
    }
    return other;
}
inline float fold_add(v16 a) {
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
            a.v[j] = a.v[j] + a.v[j + half];
        }
    }
    return a.v[0];
}
inline float fold_max(v16 a) {
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
            a.v[j] = a.v[j] > a.v[j + half] ? a.v[j] : a.v[j + half];
        }
    }
    return a.v[0];
}

inline w16 load_words(const std::uint32_t* p) {
    w16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = p[i];
    }
    return r;
}
inline v16 bf16_high(const w16& a) {
    v16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(bf16{static_cast<std::uint16_t>(a.v[i] >> 16)});
    }
    return r;
}
inline v16 bf16_low(const w16& a) {
    v16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(bf16{static_cast<std::uint16_t>(a.v[i] & 0xFFFFU)});
    }
    return r;
}
inline v16 f16_high(const w16& a) {
    v16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(f16{static_cast<std::uint16_t>(a.v[i] >> 16)});
    }
    return r;
}
inline v16 f16_low(const w16& a) {
    v16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = numerics::to_float(f16{static_cast<std::uint16_t>(a.v[i] & 0xFFFFU)});
    }
    return r;
}
