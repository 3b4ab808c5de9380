// Attention over a contiguous layer, following numerics::attend_row. Included once per instruction set.
//
// A tile is up to tile_rows query vectors that read the same KV head: neighbouring (row, head of the group) pairs.
// Tiles share loads of keys and values; each vector keeps its own range, maximum, sum and chains.

/// The query vectors of one tile and what has been joined of them so far.
struct attend_tile {
    index count;  // vectors
    key_range keys[tile_rows];
    float m[tile_rows];
    float l[tile_rows];
    bool started[tile_rows];
    index width;  // vectors, rounded up to a tile
    float* q;     // scaled queries in the order of linear: (chunks of 128, 128, width)
    float* o;     // (count, e16) joined outputs
    float* o_c;   // (count, e16) outputs of the current chunk
};

/// Rows of v between the one that is read and the one that is asked for.
inline constexpr index value_ahead = 64;

/// o_c: the chains over v continued for `count` positions. v: the first row; p: its weights, (positions, width).
template <std::size_t Rows, std::size_t Panels>
void value_tile(const float* v, index e, index d, const float* p, index width, index count, float* o_c,
                index o_stride) {
    v16 acc[Rows][Panels];
    columns_f32 source[Panels];
    DFLASH_CPU_UNROLL
    for (index c = 0; c < index{Panels}; ++c) {
        source[c].data = v + d + c * 16;
        source[c].stride = e;
        DFLASH_CPU_UNROLL
        for (index r = 0; r < index{Rows}; ++r) {
            acc[r][c] = load(o_c + r * o_stride + d + c * 16);
        }
    }
    chain(source, p, width, count, value_ahead * e * index{sizeof(float)}, acc);
    DFLASH_CPU_UNROLL
    for (index r = 0; r < index{Rows}; ++r) {
        DFLASH_CPU_UNROLL
        for (index c = 0; c < index{Panels}; ++c) {
            store(o_c + r * o_stride + d + c * 16, acc[r][c]);
        }
    }
}

template <std::size_t Rows>
void value_rows(const float* v, index e, const float* p, index width, index count, float* o_c, index o_stride) {
    constexpr int step = tile_panels(static_cast<int>(Rows));
    constexpr index columns = index{step} * 16;
    index d = 0;
    for (; d + columns <= e; d += columns) {
        value_tile<Rows, step>(v, e, d, p, width, count, o_c, o_stride);
    }
    for (; d < e; d += 16) {
        v16 acc[Rows][1];
        last_columns_f32 source[1];
        source[0] = {v + d, e, (std::min)(index{16}, e - d)};
        DFLASH_CPU_UNROLL
        for (index r = 0; r < index{Rows}; ++r) {
            acc[r][0] = load(o_c + r * o_stride + d);
        }
        chain(source, p, width, count, value_ahead * e * index{sizeof(float)}, acc);
        DFLASH_CPU_UNROLL
        for (index r = 0; r < index{Rows}; ++r) {
            store(o_c + r * o_stride + d, acc[r][0]);
        }
    }
}

/// value_rows for the smallest tile with room for `rows` rows.
template <std::size_t Tile = 0>
void value_group(const float* v, index e, const float* p, index width, index rows, index count, float* o_c,
                 index o_stride) {
    constexpr int tile = row_tiles[Tile];
    if constexpr (tile < tile_rows) {
        if (rows > tile) {
            value_group<Tile + 1>(v, e, p, width, rows, count, o_c, o_stride);
            return;
        }
    }
    // A pass over few columns uses a small part of each row: a block of rows stays in the first cache for the next
    // pass, and memory is asked for row after row.
    constexpr index block = tile_panels(tile) < 4 ? 64 : numerics::key_chunk;
    for (index i = 0; i < count; i += block) {
        value_rows<tile>(v + i * e, e, p + i * width, width, (std::min)(block, count - i), o_c, o_stride);
    }
}

inline float exp_scalar(float x) {
    alignas(64) float lanes[16];
    store(lanes, exp(splat(x)));
    return lanes[0];
}

/// Scores of one vector to weights: p = exp(s - max), +0 where invisible; returns the maximum and the sum.
/// s: (256) scores of the chunk, of which first .. last - 1 are visible; only whole panels around those are used.
inline void softmax_chunk(float* s, index first, index last, float& m_c, float& l_c) {
    const index begin = first / 32 * 32;
    const index end = (last + 31) / 32 * 32;
    const v16 lowest = splat(-numerics::infinity);
    v16 top = lowest;
    for (index i = begin; i < end; i += 16) {
        const index from = (std::min)((std::max)(first - i, index{0}), index{16});
        const index to = (std::min)((std::max)(last - i, from), index{16});
        top = larger(top, keep_lanes(load(s + i), from, to, lowest));
    }
    m_c = fold_max(top);
    const v16 peak = splat(m_c);
    v16 low = zero();
    v16 high = zero();
    for (index i = begin; i < end; i += 16) {
        const index from = (std::min)((std::max)(first - i, index{0}), index{16});
        const index to = (std::min)((std::max)(last - i, from), index{16});
        const v16 p = keep_lanes(exp(sub(load(s + i), peak)), from, to, zero());
        store(s + i, p);
        if (i % 32 == 0) {
            low = add(low, p);
        } else {
            high = add(high, p);
        }
    }
    l_c = 0.0F + fold_add(add(low, high));
}

/// One chunk of 256 positions for all vectors of a tile.
inline void attend_chunk(attend_tile& tile, const float* keys, const float* values, index e, index chunk) {
    const index o_stride = (e + 15) / 16 * 16;
    alignas(64) float s[tile_rows * numerics::key_chunk];

    // Ranges within the chunk, and the panels that somebody sees.
    key_range range[tile_rows];
    index begin = numerics::key_chunk;
    index end = 0;
    index common_first = 0;
    index common_last = numerics::key_chunk;
    for (index t = 0; t < tile.count; ++t) {
        const index first = (std::max)(tile.keys[t].first - chunk, index{0});
        const index last = (std::min)(tile.keys[t].last - chunk, numerics::key_chunk);
        range[t] = {first, (std::max)(first, last)};
        common_first = (std::max)(common_first, range[t].first);
        common_last = (std::min)(common_last, range[t].last);
        if (first < last) {
            begin = (std::min)(begin, first);
            end = (std::max)(end, last);
        }
    }
    if (begin >= end) {
        return;
    }
    begin = begin / 16 * 16;
    end = (end + 15) / 16 * 16;

    // A tile may be wider than the number of vectors; what the rest computes is never looked at.
    for (index t = 0; t < tile.width; ++t) {
        for (index i = begin / 32 * 32; i < (end + 31) / 32 * 32; i += 16) {
            store(s + t * numerics::key_chunk + i, zero());
        }
    }
    const index panel_stride = panel_f32::panel_stride(e);
    const index group = group_for(tile.count);
    const index ahead = group * panel_stride * index{sizeof(float)};  // the panels that come next
    for (index key = begin; key < end; key += group * 16) {
        if (!tile.started[0] && key - begin < value_ahead) {  // of later chunks the first rows have been asked for
            for (index byte = 0; byte < group * 16 * e * index{sizeof(float)}; byte += 64) {
                fetch_line(values + (chunk + key) * e, byte);
            }
        }
        const index panels = (std::min)(group, (end - key) / 16);
        const float* panel = keys + (chunk + key) / 16 * panel_stride;
        for (index k = 0; k < e; k += numerics::dot_chunk) {
            chunk_group<panel_f32>({panel + panel_f32::offset(k), panel_stride, panels, tile.q + k * tile.width,
                                    (std::min)(numerics::dot_chunk, e - k), s + key, numerics::key_chunk, ahead},
                                   tile.count);
        }
    }

    float m_c[tile_rows];
    float l_c[tile_rows];
    for (index t = 0; t < tile.count; ++t) {
        if (range[t].first < range[t].last) {
            softmax_chunk(s + t * numerics::key_chunk, range[t].first, range[t].last, m_c[t], l_c[t]);
        }
    }
    for (index i = 0; i < tile.width * o_stride; i += 16) {
        store(tile.o_c + i, zero());
    }
    alignas(64) float p[tile_rows * numerics::key_chunk];
    interleave(s + begin, numerics::key_chunk, tile.width, end - begin, p + begin * tile.width, tile.width);

    // Keys that all vectors see are shared; what lies before and after goes one vector at a time, in the same order.
    const float* v = values + chunk * e;
    const auto alone = [&](index t, index first, index last) {
        if (first < last) {
            value_group(v + first * e, e, p + first * tile.width + t, tile.width, 1, last - first,
                        tile.o_c + t * o_stride, o_stride);
        }
    };
    const bool shared = common_first < common_last;
    for (index t = 0; t < tile.count; ++t) {
        alone(t, range[t].first, shared ? common_first : range[t].last);
    }
    if (shared) {
        value_group(v + common_first * e, e, p + common_first * tile.width, tile.width, tile.count,
                    common_last - common_first, tile.o_c, o_stride);
        for (index t = 0; t < tile.count; ++t) {
            alone(t, common_last, range[t].last);
        }
    }

    for (index t = 0; t < tile.count; ++t) {
        if (range[t].first >= range[t].last) {
            continue;  // this vector sees nothing here, whatever the others see
        }
        float* o = tile.o + t * o_stride;
        const float* o_c = tile.o_c + t * o_stride;
        if (!tile.started[t]) {
            for (index d = 0; d < o_stride; d += 16) {
                store(o + d, add(zero(), load(o_c + d)));
            }
            tile.m[t] = m_c[t];
            tile.l[t] = l_c[t];
            tile.started[t] = true;
            continue;
        }
        const float top = m_c[t] > tile.m[t] ? m_c[t] : tile.m[t];
        const float a = exp_scalar(tile.m[t] - top);
        const float b = exp_scalar(m_c[t] - top);
        for (index d = 0; d < o_stride; d += 16) {
            const v16 joined = mul(add(zero(), load(o_c + d)), splat(b));
            store(o + d, fma(load(o + d), splat(a), joined));
        }
        tile.l[t] = numerics::fma(tile.l[t], a, l_c[t] * b);
        tile.m[t] = top;
    }
}

/// Fills a tile with the query vectors from `first_vector` on, scaled; nothing joined yet.
inline void start_tile(attend_tile& tile, const attend_job& job, index kv_head, index first_vector) {
    const index e = job.head_dim;
    const index group = job.heads / job.kv_heads;
    tile.count = (std::min)(index{tile_rows}, job.rows * group - first_vector);
    tile.width = tile_for(tile.count);
    const index e16 = (e + 15) / 16 * 16;
    for (index t = 0; t < tile.count; ++t) {
        const index row = (first_vector + t) / group;
        const index head = kv_head * group + (first_vector + t) % group;
        tile.keys[t] = job.mask.keys(job.position + row, job.length);
        tile.started[t] = false;
        tile.m[t] = 0.0F;
        tile.l[t] = 0.0F;
        const float* q = job.q + row * job.q_stride + head * e;
        float* scaled = tile.o_c + t * e16;
        for (index d = 0; d < e; d += 16) {
            const index count = (std::min)(index{16}, e - d);
            store(scaled + d, mul(count == 16 ? load(q + d) : load_part(q + d, count), splat(job.scale)));
        }
    }
    interleave(tile.o_c, e16, tile.count, e, tile.q, tile.width);
}

inline void finish_tile(const attend_tile& tile, const attend_job& job, index kv_head, index first_vector) {
    const index e = job.head_dim;
    const index o_stride = (e + 15) / 16 * 16;
    const index group = job.heads / job.kv_heads;
    for (index t = 0; t < tile.count; ++t) {
        const index row = (first_vector + t) / group;
        const index head = kv_head * group + (first_vector + t) % group;
        float* out = job.out + row * job.out_stride + head * e;
        const float* o = tile.o + t * o_stride;
        const v16 l = splat(tile.l[t]);
        for (index d = 0; d < e; d += 16) {
            const v16 y = tile.started[t] ? div(load(o + d), l) : zero();
            store_part(out + d, y, (std::min)(index{16}, e - d));
        }
    }
}

/// Items are (KV head, a few tiles of query vectors, which take turns at each chunk while it is in the cache).
/// scratch: attend_scratch floats.
inline void attend(const attend_job& job, index first, index last, float* scratch) {
    const index e = job.head_dim;
    const index vectors = job.rows * (job.heads / job.kv_heads);
    const index span = job.tiles_per_item * tile_rows;
    const index spans = (vectors + span - 1) / span;

    attend_tile tiles[max_tiles_per_item];
    const index part = attend_scratch(e, tile_rows) / 3 / max_tiles_per_item;
    for (attend_tile& tile : tiles) {
        tile.q = scratch;
        tile.o = scratch + part;
        tile.o_c = scratch + 2 * part;
        scratch += 3 * part;
    }

    for (index item = first; item < last; ++item) {
        const index kv_head = item / spans;
        const index first_vector = item % spans * span;
        const index count = ((std::min)(span, vectors - first_vector) + tile_rows - 1) / tile_rows;
        index begin = job.length;
        index end = 0;
        for (index i = 0; i < count; ++i) {
            start_tile(tiles[i], job, kv_head, first_vector + i * tile_rows);
            for (index t = 0; t < tiles[i].count; ++t) {
                begin = (std::min)(begin, tiles[i].keys[t].first);
                end = (std::max)(end, tiles[i].keys[t].last);
            }
        }
        const float* keys = job.keys + kv_head * job.head_stride;
        const float* values = job.values + kv_head * job.head_stride;
        for (index chunk = begin / numerics::key_chunk * numerics::key_chunk; chunk < end;
             chunk += numerics::key_chunk) {
            for (index i = 0; i < count; ++i) {
                attend_chunk(tiles[i], keys, values, e, chunk);
            }
        }
        for (index i = 0; i < count; ++i) {
            finish_tile(tiles[i], job, kv_head, first_vector + i * tile_rows);
        }
    }
}
