// Matrix products: fma chains along k, lanes over outputs, tiles of rows and panels. Included once per instruction set.
//
// Every output is one dot_chain whatever the tile: chunks of 128 along k, each chunk its own chain, chunk sums added to
// the total in order. Tiles only choose which chains run side by side.

// ---- where the lanes come from -------------------------------------------------------------------------------------

/// Asks for the cache line `ahead` bytes behind p, which may lie outside every array: asking is not reading. By
/// address, because pointers may not be formed there. While a core multiplies, the hardware does not look ahead far
/// enough by itself. It does bring lines from the second cache to the first; asking for the first one here would hold
/// its few places for outstanding lines.
DFLASH_CPU_INLINE void fetch_line(const void* p, index ahead) {
    constexpr int second_cache = 2;
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead);
    __builtin_prefetch(reinterpret_cast<const void*>(address), 0, second_cache);  // NOLINT(performance-no-int-to-ptr)
}

/// Weights or keys in panels: (k, 16) floats.
struct panel_f32 {
    static constexpr bool paired = false;
    using element = float;
    using input = float;
    static constexpr index chunk_inputs = numerics::dot_chunk;
    static constexpr index panel_stride(index k) { return offset(k); }
    static constexpr index offset(index k) { return k * 16; }
    const float* data;
    DFLASH_CPU_INLINE v16 at(index k) const { return load(data + k * 16); }
    DFLASH_CPU_INLINE void fetch(index k, index ahead) const { fetch_line(data + k * 16, ahead); }
};

/// Weights in panels of words: (k/2, 16), element k in the high half, k + 1 in the low half.
struct panel_bf16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    using input = float;
    static constexpr index chunk_inputs = numerics::dot_chunk;
    static constexpr index panel_stride(index k) { return offset(k + 1); }
    static constexpr index offset(index k) { return k / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    DFLASH_CPU_INLINE void fetch(index k, index ahead) const { fetch_line(data + k / 2 * 16, ahead); }
    static DFLASH_CPU_INLINE v16 high(w16 a) { return bf16_high(a); }
    static DFLASH_CPU_INLINE v16 low(w16 a) { return bf16_low(a); }
};

struct panel_f16 {
    static constexpr bool paired = true;
    using element = std::uint32_t;
    using input = float;
    static constexpr index chunk_inputs = numerics::dot_chunk;
    static constexpr index panel_stride(index k) { return offset(k + 1); }
    static constexpr index offset(index k) { return k / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    DFLASH_CPU_INLINE void fetch(index k, index ahead) const { fetch_line(data + k / 2 * 16, ahead); }
    static DFLASH_CPU_INLINE v16 high(w16 a) { return f16_high(a); }
    static DFLASH_CPU_INLINE v16 low(w16 a) { return f16_low(a); }
};

/// Sixteen neighbouring columns of row-major rows.
struct columns_f32 {
    static constexpr bool paired = false;
    const float* data;
    index stride;
    DFLASH_CPU_INLINE v16 at(index k) const { return load(data + k * stride); }
    DFLASH_CPU_INLINE void fetch(index k, index ahead) const {
        fetch_line(data, k * stride * index{sizeof(float)} + ahead);
    }
};

/// At most sixteen columns, the last ones of their row: what lies behind them is not read.
struct last_columns_f32 {
    static constexpr bool paired = false;
    const float* data;
    index stride;
    index count;
    DFLASH_CPU_INLINE v16 at(index k) const { return load_part(data + k * stride, count); }
    DFLASH_CPU_INLINE void fetch(index, index) const {}
};

// ---- one tile ------------------------------------------------------------------------------------------------------

/// acc[r][p] = fma(w[p][k], x[k][r], acc[r][p]) for k = 0 .. count - 1, ascending. x: row k at x + k * width.
/// ahead: bytes from what is read to what is asked for.
template <class Source, std::size_t Rows, std::size_t Panels>
DFLASH_CPU_INLINE void chain(const Source (&w)[Panels], const float* x, index width, index count, index ahead,
                             v16 (&acc)[Rows][Panels]) {
    if constexpr (Source::paired) {
        index k = 0;
        for (; k + 1 < count; k += 2) {
            v16 high[Panels];
            v16 low[Panels];
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                const w16 words = w[p].words(k);
                w[p].fetch(k, ahead);
                high[p] = Source::high(words);
                low[p] = Source::low(words);
            }
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                const v16 x0 = splat(x[r]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(high[p], x0, acc[r][p]);
                }
            }
            x += width;
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                const v16 x1 = splat(x[r]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(low[p], x1, acc[r][p]);
                }
            }
            x += width;
        }
        if (k < count) {  // an odd end: the low half is no element, and 0 * x would not be nothing for an infinite x
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                const v16 high = Source::high(w[p].words(k));
                DFLASH_CPU_UNROLL
                for (index r = 0; r < index{Rows}; ++r) {
                    acc[r][p] = fma(high, splat(x[r]), acc[r][p]);
                }
            }
        }
    } else {
        for (index k = 0; k < count; ++k) {
            v16 row[Panels];
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                row[p] = w[p].at(k);
                w[p].fetch(k, ahead);
            }
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                const v16 xk = splat(x[r]);
                DFLASH_CPU_UNROLL
                for (index p = 0; p < index{Panels}; ++p) {
                    acc[r][p] = fma(row[p], xk, acc[r][p]);
                }
            }
            x += width;
        }
    }
}

/// One chunk of k for one group of panels and all rows: total += x w^T over `count` elements of k.
template <class Source>
struct chunk_job {
    const typename Source::element* w;  // panel p at w + p * panel_stride
    index panel_stride;
    index panels;
    const typename Source::input* x;  // tiles of rows one after the other, each (chunk_inputs, rows of the tile)
    index count;
    float* total;  // row r, panel p at total + r * total_stride + p * 16
    index total_stride;
    index ahead;  // bytes from what is read to what is asked for
};

/// The tile of rows `row` .. and panels `panel` ..
template <class Source, std::size_t Rows, std::size_t Panels>
void chunk_tile(const chunk_job<Source>& job, index row, index panel) {
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
    chain(source, job.x + row * Source::chunk_inputs, index{Rows}, job.count, job.ahead, acc);
    DFLASH_CPU_UNROLL
    for (index p = 0; p < index{Panels}; ++p) {
        if (p < panels) {
            float* total = job.total + row * job.total_stride + (panel + p) * 16;
            DFLASH_CPU_UNROLL
            for (index r = 0; r < index{Rows}; ++r) {
                store(total, add(load(total), acc[r][p]));
                total += job.total_stride;
            }
        }
    }
}

static_assert(tile_rows <= max_tile_rows);

/// The smallest tile with room for `rows` rows; the largest one when none has.
constexpr index tile_for(index rows) noexcept {
    for (const int tile : row_tiles) {
        if (tile >= rows) {
            return tile;
        }
    }
    return tile_rows;
}

/// Rows that a job of `rows` rows reads and writes, the unused ones of its last tile included.
constexpr index padded_rows(index rows) {
    const index full = rows / tile_rows * tile_rows;
    return rows == full ? rows : full + tile_for(rows - full);
}

/// All panels for one tile of rows, of which at most `rows` are wanted.
template <class Source, std::size_t Tile = 0>
void chunk_rows(const chunk_job<Source>& job, index row, index rows) {
    constexpr int tile = row_tiles[Tile];
    if constexpr (tile < tile_rows) {
        if (rows > tile) {
            chunk_rows<Source, Tile + 1>(job, row, rows);
            return;
        }
    }
    for (index p = 0; p < job.panels; p += tile_panels(tile)) {
        chunk_tile<Source, tile, tile_panels(tile)>(job, row, p);
    }
}

template <class Source>
void chunk_group(const chunk_job<Source>& job, index rows) {
    for (index row = 0; row < rows; row += tile_rows) {
        chunk_rows<Source>(job, row, rows - row);
    }
}

// ---- the product ---------------------------------------------------------------------------------------------------

/// Rows whose totals are kept at a time: enough that reading the weights again for the next ones costs nothing.
inline constexpr index block_rows = index{8} * tile_rows;

/// Panels that are worked on together. As few as the tiles allow: memory is read in as few streams.
constexpr index group_for(index rows) {
    const index left = rows % tile_rows;
    const index last = left == 0 ? 1 : tile_panels(static_cast<int>(tile_for(left)));
    return rows < tile_rows ? last : (std::max)(last, index{tile_panels(tile_rows)});
}

template <class Source>
void linear_panels(const linear_job& job, index first_panel, index last_panel) {
    constexpr index total_stride = index{max_group} * 16;
    alignas(64) float total[block_rows * total_stride];
    const auto* weights = static_cast<const typename Source::element*>(job.weights);
    const auto* inputs = static_cast<const typename Source::input*>(job.x);
    const index panel_stride = Source::panel_stride(job.k);

    for (index block = 0; block < job.rows; block += block_rows) {
        const index rows = (std::min)(block_rows, job.rows - block);
        const index padded = padded_rows(rows);
        const index group = group_for(rows);
        // A chunk asks for the next one of its panels, the last chunk for the first one of the panels that follow. One
        // row goes through a chunk faster than memory brings it, and wants fewer lines on their way.
        constexpr index element = sizeof(typename Source::element);
        const index chunk_ahead = rows == 1 ? 8192 / group : Source::offset(numerics::dot_chunk) * element;
        const index last_chunk = (job.k - 1) / numerics::dot_chunk * numerics::dot_chunk;
        const index next_ahead = (group * panel_stride - Source::offset(last_chunk)) * element;
        const auto* x = inputs + block * Source::chunk_inputs;
        for (index panel = first_panel; panel < last_panel; panel += group) {
            const index panels = (std::min)(group, last_panel - panel);
            const auto* w = weights + panel * panel_stride;
            for (index i = 0; i < padded * total_stride; i += 16) {
                store(total + i, zero());
            }
            for (index k = 0; k < job.k; k += numerics::dot_chunk) {
                chunk_group<Source>(
                    {w + Source::offset(k), panel_stride, panels, x + k / numerics::dot_chunk * job.x_chunk_stride,
                     (std::min)(numerics::dot_chunk, job.k - k), total, total_stride,
                     k + numerics::dot_chunk < job.k ? chunk_ahead : next_ahead},
                    rows);
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
