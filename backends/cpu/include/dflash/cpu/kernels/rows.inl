// Operations row by row: RMSNorm, RoPE, SiLU-mul, addition. Included once per instruction set.

/// numerics::sum_squares_lanes: 32 lanes are two v16.
inline float sum_squares(const float* x, index n) {
    float total = 0.0F;
    for (index start = 0; start < n; start += numerics::sum_chunk) {
        const index end = (std::min)(start + numerics::sum_chunk, n);
        v16 low = zero();
        v16 high = zero();
        index i = start;
        for (; i + 32 <= end; i += 32) {
            const v16 a = load(x + i);
            const v16 b = load(x + i + 16);
            low = fma(a, a, low);
            high = fma(b, b, high);
        }
        // Lanes without an element take in +0 * +0, which leaves them as they are: they are never -0.
        if (i < end) {
            const v16 a = load_part(x + i, (std::min)(index{16}, end - i));
            low = fma(a, a, low);
        }
        if (i + 16 < end) {
            const v16 b = load_part(x + i + 16, end - i - 16);
            high = fma(b, b, high);
        }
        total = total + fold_add(add(low, high));
    }
    return total;
}

inline void rms_norm_row(const float* x, const float* weight, float eps, index n, float* y) {
    const float mean = numerics::divide(sum_squares(x, n), static_cast<float>(n));
    const v16 r = splat(numerics::divide(1.0F, numerics::sqrt(mean + eps)));
    index i = 0;
    for (; i + 16 <= n; i += 16) {
        store(y + i, mul(mul(load(x + i), r), load(weight + i)));
    }
    if (i < n) {
        store_part(y + i, mul(mul(load_part(x + i, n - i), r), load_part(weight + i, n - i)), n - i);
    }
}

/// Items are (row, head); a whole-row norm has one head.
inline void rms_norm(const norm_job& job, index first, index last) {
    for (index item = first; item < last; ++item) {
        const index row = item / job.heads;
        const index offset = item % job.heads * job.n;
        rms_norm_row(job.x + row * job.x_stride + offset, job.weight, job.eps, job.n,
                     job.y + row * job.y_stride + offset);
    }
}

/// Items are rows.
inline void rope(const rope_job& job, index first, index last) {
    const index half = job.head_dim / 2;
    for (index row = first; row < last; ++row) {
        const float* cosines = job.cos + row * half;
        const float* sines = job.sin + row * half;
        for (index h = 0; h < job.heads; ++h) {
            float* a = job.x + row * job.x_stride + h * job.head_dim;
            float* b = a + half;
            for (index i = 0; i < half; i += 16) {
                const index count = (std::min)(index{16}, half - i);
                const bool whole = count == 16;
                const v16 c = whole ? load(cosines + i) : load_part(cosines + i, count);
                const v16 s = whole ? load(sines + i) : load_part(sines + i, count);
                const v16 x1 = whole ? load(a + i) : load_part(a + i, count);
                const v16 x2 = whole ? load(b + i) : load_part(b + i, count);
                const v16 y1 = fma(x1, c, negate(mul(x2, s)));
                const v16 y2 = fma(x2, c, mul(x1, s));
                if (whole) {
                    store(a + i, y1);
                    store(b + i, y2);
                } else {
                    store_part(a + i, y1, count);
                    store_part(b + i, y2, count);
                }
            }
        }
    }
}

DFLASH_CPU_INLINE v16 silu_mul_lanes(v16 gate, v16 up) {
    return mul(div(gate, add(splat(1.0F), exp(negate(gate)))), up);
}

/// Items are (row, block of columns).
inline void silu_mul(const silu_job& job, index first, index last) {
    for (index item = first; item < last; ++item) {
        const index row = item / job.blocks;
        const index begin = item % job.blocks * column_block;
        const index end = (std::min)(begin + column_block, job.n);
        const float* gate = job.gate_up + row * job.gate_up_stride;
        const float* up = gate + job.n;
        float* y = job.y + row * job.y_stride;
        index i = begin;
        for (; i + 16 <= end; i += 16) {
            store(y + i, silu_mul_lanes(load(gate + i), load(up + i)));
        }
        if (i < end) {
            store_part(y + i, silu_mul_lanes(load_part(gate + i, end - i), load_part(up + i, end - i)), end - i);
        }
    }
}

/// Items are (row, block of columns).
inline void add_rows(const add_job& job, index first, index last) {
    for (index item = first; item < last; ++item) {
        const index row = item / job.blocks;
        const index begin = item % job.blocks * column_block;
        const index end = (std::min)(begin + column_block, job.n);
        float* h = job.h + row * job.h_stride;
        const float* o = job.o + row * job.o_stride;
        index i = begin;
        for (; i + 16 <= end; i += 16) {
            store(h + i, add(load(h + i), load(o + i)));
        }
        if (i < end) {
            store_part(h + i, add(load_part(h + i, end - i), load_part(o + i, end - i)), end - i);
        }
    }
}
