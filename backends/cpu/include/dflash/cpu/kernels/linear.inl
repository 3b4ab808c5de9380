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
    static constexpr index panel_stride(index k) { return offset(k); }
    static constexpr index offset(index k) { return k * 16; }
    const float* data;
    DFLASH_CPU_INLINE v16 at(index k) const { return load(data + k * 16); }
};

/// Weights in panels of words: (k/2, 16), element k in the high half, k + 1 in the low half.
struct panel_bf16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    static constexpr index panel_stride(index k) { return offset(k + 1); }
    static constexpr index offset(index k) { return k / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    static DFLASH_CPU_INLINE v16 high(w16 a) { return bf16_high(a); }
    static DFLASH_CPU_INLINE v16 low(w16 a) { return bf16_low(a); }
};

struct panel_f16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    static constexpr index panel_stride(index k) { return offset(k + 1); }
    static constexpr index offset(index k) { return k / 2 * 16; }
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

/// What to fetch while a tile is worked on: one cache line of each stream per step of k. Changes nothing but time.
struct fetch_ahead {
    const std::byte* first;
    const std::byte* second;
    DFLASH_CPU_INLINE void at(index step) const {
        __builtin_prefetch(first + step * 64, 0, 2);
        __builtin_prefetch(second + step * 64, 0, 2);
    }
};
struct fetch_nothing {
    DFLASH_CPU_INLINE void at(index) const {}
};

// ---- one tile
// ------------------------------------------------------------------------------------------------------------

/// acc[r][p] = fma(w[p][k], x[r][k], acc[r][p]) for k = first .. last - 1, ascending. In pairs, first is even.
template <class Source, class Fetch, std::size_t Rows, std::size_t Panels>
DFLASH_CPU_INLINE void chain(const Source (&w)[Panels], const float* x, index x_stride, index first, index last,
                             const Fetch& fetch, v16 (&acc)[Rows][Panels]) {
    if constexpr (Source::paired) {
        index k = first;
        for (; k + 1 < last; k += 2) {
            v16 high[Panels];
            v16 low[Panels];
            fetch.at((k - first) / 2);
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
            fetch.at(k - first);
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

/// One chunk of k for one group of panels and all rows: total += x w^T over first .. last - 1.
template <class Source>
struct chunk_job {
    const typename Source::element* w;      // panel p at w + p * panel_stride
    const typename Source::element* ahead;  // where the next chunk of panel 0 lies, to be fetched meanwhile
    index panel_stride;
    index panels;
    const float* x;  // row r at x + r * x_stride, from element `first` on
    index x_stride;
    index rows;
    index first;
    index last;
    float* total;  // row r, panel p at total + r * total_stride + p * 16
    index total_stride;
};

/// The tile of rows `row` .. and panels `panel` ..; `turn` counts the tiles that read the same panels.
template <class Source, std::size_t Rows, std::size_t Panels>
void chunk_tile(const chunk_job<Source>& job, index panel, index row, index turn) {
    Source source[Panels];
    const index panels = job.panels - panel;
    const typename Source::element* w = job.w + panel * job.panel_stride;
    DFLASH_CPU_UNROLL
    for (index p = 0; p < index{Panels}; ++p) {
        // A tile that reaches past the last panel repeats it: one tile shape serves all, and the copies go nowhere.
        source[p].data = w + (p < panels ? p : panels - 1) * job.panel_stride;
    }
    v16 acc[Rows][Panels];
    DFLASH_CPU_UNROLL
    for (index r = 0; r < index{Rows}; ++r) {
        DFLASH_CPU_UNROLL
        for (index p = 0; p < index{Panels}; ++p) {
            acc[r][p] = zero();
        }
    }
    const float* x = job.x + row * job.x_stride - job.first;
    if constexpr (static_cast<int>(Rows) == tile_rows) {
        // Many rows keep a core busy for so long that the hardware does not look ahead far enough by itself. The tiles
        // of a group share the work: each fetches another panel of the next chunk, a lone one fetches two.
        const index mine = (std::min)(panel + turn, panel + index{Panels} - 1);
        const index other = job.rows < 2 * tile_rows ? panel + index{Panels} - 1 : mine;
        const fetch_ahead fetch = {reinterpret_cast<const std::byte*>(job.ahead + mine * job.panel_stride),
                                   reinterpret_cast<const std::byte*>(job.ahead + other * job.panel_stride)};
        chain(source, x, job.x_stride, job.first, job.last, fetch, acc);
    } else {
        chain(source, x, job.x_stride, job.first, job.last, fetch_nothing{}, acc);
    }
    DFLASH_CPU_UNROLL
    for (index r = 0; r < index{Rows}; ++r) {
        DFLASH_CPU_UNROLL
        for (index p = 0; p < index{Panels}; ++p) {
            if (p < panels) {
                float* t = job.total + (row + r) * job.total_stride + (panel + p) * 16;
                store(t, add(load(t), acc[r][p]));
            }
        }
    }
}

/// All panels for `Rows` rows from `row` on.
template <class Source, std::size_t Rows>
void chunk_rows(const chunk_job<Source>& job, index row) {
    constexpr int step = tile_panels(static_cast<int>(Rows));
    for (index p = 0; p < job.panels; p += step) {
        chunk_tile<Source, Rows, step>(job, p, row, 0);
    }
}

template <class Source>
void chunk_group(const chunk_job<Source>& job) {
    constexpr int step = tile_panels(tile_rows);
    const index full = job.rows / tile_rows * tile_rows;
    for (index p = 0; p < job.panels; p += step) {
        for (index r = 0; r < full; r += tile_rows) {
            chunk_tile<Source, tile_rows, step>(job, p, r, r / tile_rows);
        }
    }
    index r = full;
    if constexpr (tile_rows > 4) {
        if (job.rows - r >= 4) {
            chunk_rows<Source, 4>(job, r);
            r += 4;
        }
    }
    if constexpr (tile_rows > 2) {
        if (job.rows - r >= 2) {
            chunk_rows<Source, 2>(job, r);
            r += 2;
        }
    }
    if (r < job.rows) {
        chunk_rows<Source, 1>(job, r);
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
                const index next = k + numerics::dot_chunk;
                const auto* ahead = next < job.k ? w + Source::offset(next) : w + group_panels * panel_stride;
                chunk_group<Source>({w, ahead, panel_stride, panels, x + k / numerics::dot_chunk * job.x_chunk_stride,
                                     job.x_stride, rows, k, (std::min)(next, job.k), total, total_stride});
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
