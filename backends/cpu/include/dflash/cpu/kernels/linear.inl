// Matrix products: fma chains along k, lanes over outputs, tiles of rows and panels. Included once per instruction set.
//
// Every output is one dot_chain whatever the tile: chunks of 128 along k, each chunk its own chain, chunk sums added to
// the total in order. Tiles only choose which chains run side by side.

// ---- where the lanes come from
// -----------------------------------------------------------------------------------------

/// Weights or keys in panels: (k, 16) floats.
struct panel_f32 {
    static constexpr bool paired = false;
    using element = float;
    static constexpr index panel_stride(index k) { return k * 16; }
    const float* data;
    DFLASH_CPU_INLINE v16 at(index k) const { return load(data + k * 16); }
};

/// Weights in panels of words: (k/2, 16), element k in the high half, k + 1 in the low half.
struct panel_bf16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    static constexpr index panel_stride(index k) { return (k + 1) / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    static DFLASH_CPU_INLINE v16 high(w16 a) { return bf16_high(a); }
    static DFLASH_CPU_INLINE v16 low(w16 a) { return bf16_low(a); }
};

struct panel_f16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    static constexpr index panel_stride(index k) { return (k + 1) / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    static DFLASH_CPU_INLINE v16 high(w16 a) { return f16_high(a); }
    static DFLASH_CPU_INLINE v16 low(w16 a) { return f16_low(a); }
};

/// Sixteen neighbouring columns of row-major rows.
struct columns_f32 {
    static constexpr bool paired = false;
    const float* data;
    index stride;
    DFLASH_CPU_INLINE v16 at(index k) const { return load(data + k * stride); }
};

/// Fewer than sixteen columns, the last ones of their row: what lies behind them is not read.
struct last_columns_f32 {
    static constexpr bool paired = false;
    const float* data;
    index stride;
    index count;
    DFLASH_CPU_INLINE v16 at(index k) const { return load_part(data + k * stride, count); }
};

// ---- one tile
// ------------------------------------------------------------------------------------------------------------

/// acc[r][p] = fma(w[p][k], x[r][k], acc[r][p]) for k = first .. last - 1, ascending. In pairs, first is even.
template <class Source, std::size_t Rows, std::size_t Panels>
DFLASH_CPU_INLINE void chain(const Source (&w)[Panels], const float* x, index x_stride, index first, index last,
                             v16 (&acc)[Rows][Panels]) {
    if constexpr (Source::paired) {
        index k = first;
        for (; k + 1 < last; k += 2) {
            v16 high[Panels];
            v16 low[Panels];
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                const w16 words = w[p].words(k);
                high[p] = Source::high(words);
                low[p] = Source::low(words);
            }
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                const v16 x0 = splat(x[r * x_stride + k]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(high[p], x0, acc[r][p]);
                }
                const v16 x1 = splat(x[r * x_stride + k + 1]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(low[p], x1, acc[r][p]);
                }
            }
        }
        if (k < last) {  // an odd end: the low half is no element, and 0 * x would not be nothing for an infinite x
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                const v16 high = Source::high(w[p].words(k));
                DFLASH_CPU_UNROLL
                for (index r = 0; r < index{Rows}; ++r) {
                    acc[r][p] = fma(high, splat(x[r * x_stride + k]), acc[r][p]);
                }
            }
        }
    } else {
        for (index k = first; k < last; ++k) {
            v16 row[Panels];
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                row[p] = w[p].at(k);
            }
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                const v16 xk = splat(x[r * x_stride + k]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(row[p], xk, acc[r][p]);
                }
            }
        }
    }
}

/// One chunk of one tile, added to the totals. total: row r, panel p at total + r * total_stride + p * 16.
template <class Source, std::size_t Rows, std::size_t Panels>
void chunk_tile(const typename Source::element* w, index panel_stride, index panels, const float* x, index x_stride,
                index first, index last, float* total, index total_stride) {
    Source source[Panels];
    DFLASH_CPU_UNROLL
    for (index p = 0; p < index{Panels}; ++p) {
        // A tile that reaches past the last panel repeats it: one tile shape serves all, and the copies go nowhere.
        source[p].data = w + (p < panels ? p : panels - 1) * panel_stride;
    }
    v16 acc[Rows][Panels];
    DFLASH_CPU_UNROLL
    for (index r = 0; r < index{Rows}; ++r) {
        DFLASH_CPU_UNROLL
        for (index p = 0; p < index{Panels}; ++p) {
            acc[r][p] = zero();
        }
    }
    chain<Source, Rows, Panels>(source, x, x_stride, first, last, acc);
    DFLASH_CPU_UNROLL
    for (index r = 0; r < index{Rows}; ++r) {
        DFLASH_CPU_UNROLL
        for (index p = 0; p < index{Panels}; ++p) {
            if (p < panels) {
                float* t = total + r * total_stride + p * 16;
                store(t, add(load(t), acc[r][p]));
            }
        }
    }
}

/// All panels of a group for `Rows` rows.
template <class Source, std::size_t Rows>
void chunk_rows(const typename Source::element* w, index panel_stride, index panels, const float* x, index x_stride,
                index first, index last, float* total, index total_stride) {
    constexpr int step = tile_panels(static_cast<int>(Rows));
    for (index p = 0; p < panels; p += step) {
        chunk_tile<Source, Rows, step>(w + p * panel_stride, panel_stride, panels - p, x, x_stride, first, last,
                                       total + p * 16, total_stride);
    }
}

/// total(m, panels * 16) += the chunk first .. last - 1 of x w^T, for one group of panels.
template <class Source>
void chunk_group(const typename Source::element* w, index panel_stride, index panels, const float* x, index x_stride,
                 index rows, index first, index last, float* total, index total_stride) {
    constexpr int step = tile_panels(tile_rows);
    const index full = rows / tile_rows * tile_rows;
    for (index p = 0; p < panels; p += step) {
        for (index r = 0; r < full; r += tile_rows) {
            chunk_tile<Source, tile_rows, step>(w + p * panel_stride, panel_stride, panels - p, x + r * x_stride,
                                                x_stride, first, last, total + r * total_stride + p * 16, total_stride);
        }
    }
    index r = full;
    while (r < rows) {
        const float* xr = x + r * x_stride;
        float* tr = total + r * total_stride;
        index done = 0;
        if constexpr (tile_rows > 4) {
            if (rows - r >= 4) {
                chunk_rows<Source, 4>(w, panel_stride, panels, xr, x_stride, first, last, tr, total_stride);
                done = 4;
            }
        }
        if constexpr (tile_rows > 2) {
            if (done == 0 && rows - r >= 2) {
                chunk_rows<Source, 2>(w, panel_stride, panels, xr, x_stride, first, last, tr, total_stride);
                done = 2;
            }
        }
        if (done == 0) {
            chunk_rows<Source, 1>(w, panel_stride, panels, xr, x_stride, first, last, tr, total_stride);
            done = 1;
        }
        r += done;
    }
}

// ---- the product
// ---------------------------------------------------------------------------------------------------------

/// Rows whose totals are kept at a time: enough that reading the weights again for the next ones costs nothing.
inline constexpr index block_rows = 128;

template <class Source>
void linear_panels(const linear_job& job, index first_panel, index last_panel) {
    alignas(64) float total[block_rows * group_panels * 16];
    constexpr index total_stride = group_panels * 16;
    const auto* weights = static_cast<const typename Source::element*>(job.weights);
    const index panel_stride = Source::panel_stride(job.k);

    for (index block = 0; block < job.rows; block += block_rows) {
        const index rows = (std::min)(block_rows, job.rows - block);
        const float* x = job.x + block * job.x_stride;
        for (index panel = first_panel; panel < last_panel; panel += group_panels) {
            const index panels = (std::min)(index{group_panels}, last_panel - panel);
            const auto* w = weights + panel * panel_stride;
            for (index i = 0; i < rows * total_stride; i += 16) {
                store(total + i, zero());
            }
            for (index k = 0; k < job.k; k += numerics::dot_chunk) {
                chunk_group<Source>(w, panel_stride, panels, x, job.x_stride, rows, k,
                                    (std::min)(k + numerics::dot_chunk, job.k), total, total_stride);
            }
            for (index p = 0; p < panels; ++p) {
                const index o = (panel + p) * 16;
                const index count = (std::min)(index{16}, job.n - o);
                for (index r = 0; r < rows; ++r) {
                    v16 y = load(total + r * total_stride + p * 16);
                    if (job.bias != nullptr) {
                        y = add(y, load(job.bias + o));
                    }
                    float* out = job.y + (block + r) * job.y_stride + o;
                    if (count == 16) {
                        store(out, y);
                    } else {
                        store_part(out, y, count);
                    }
                }
            }
        }
    }
}

inline void linear(const linear_job& job, index first_panel, index last_panel) {
    switch (job.type) {
        case dtype::f32: linear_panels<panel_f32>(job, first_panel, last_panel); break;
        case dtype::bf16: linear_panels<panel_bf16>(job, first_panel, last_panel); break;
        case dtype::f16: linear_panels<panel_f16>(job, first_panel, last_panel); break;
    }
}
