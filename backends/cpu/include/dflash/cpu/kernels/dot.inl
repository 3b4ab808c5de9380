// Products of bf16 weights with bf16 activations, two steps of k in one instruction. Included once per instruction set
// that has such a dot product, behind linear.inl.

/// Weights in panels of words, as panel_bf16, for inputs in words: (k/2, rows of the tile).
struct panel_dot {
    using element = std::uint32_t;
    using input = std::uint32_t;
    static constexpr index chunk_inputs = numerics::dot_chunk / 2;
    static constexpr index panel_stride(index k) { return offset(k + 1); }
    static constexpr index offset(index k) { return k / 2 * 16; }
    const std::uint32_t* data;
    DFLASH_CPU_INLINE w16 words(index k) const { return load_words(data + k / 2 * 16); }
    DFLASH_CPU_INLINE void fetch(index k, index ahead) const { fetch_line(data + k / 2 * 16, ahead); }
};

/// As for other weights. An odd count ends in a word whose low halves are +0 on both sides: that step changes nothing.
template <std::size_t Rows, std::size_t Panels>
DFLASH_CPU_INLINE void chain(const panel_dot (&w)[Panels], const std::uint32_t* x, index width, index count,
                             index ahead, v16 (&acc)[Rows][Panels]) {
    for (index k = 0; k < count; k += 2) {
        w16 words[Panels];
        DFLASH_CPU_UNROLL
        for (index p = 0; p < index{Panels}; ++p) {
            words[p] = w[p].words(k);
            w[p].fetch(k, ahead);
        }
        DFLASH_CPU_UNROLL
        for (index r = 0; r < index{Rows}; ++r) {
            const w16 xk = splat_word(x[r]);
            DFLASH_CPU_UNROLL
            for (index p = 0; p < index{Panels}; ++p) {
                acc[r][p] = dot(words[p], xk, acc[r][p]);
            }
        }
        x += width;
    }
}

inline void linear_dot(const linear_job& job, index first_panel, index last_panel) {
    linear_panels<panel_dot>(job, first_panel, last_panel);
}

/// One instruction, for the check.
inline void dot_once(const std::uint32_t* a, const std::uint32_t* b, float* acc) {
    store(acc, dot(load_words(a), load_words(b), load(acc)));
}

/// Asked once per program.
inline bool machine_dot_is_chain() noexcept {
    static const bool holds = dot_is_chain(&dot_once);
    return holds;
}

constexpr kernel_table with_dot(kernel_table kernels) {
    kernels.dot = {&linear_dot, max_group, tile_rows, &tile_for};
    kernels.dot_is_chain = &machine_dot_is_chain;
    return kernels;
}
