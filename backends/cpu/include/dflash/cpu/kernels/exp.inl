// numerics::exp in sixteen lanes, the same bits. For instruction sets whose lanes have rint and integer shifts.

DFLASH_CPU_INLINE v16 exp(v16 x) {
    using c = numerics::exp_constants;
    const v16 n = rint(mul(x, splat(c::log2e)));
    v16 r = fma(n, splat(-c::ln2_hi), x);
    r = fma(n, splat(-c::ln2_lo), r);
    v16 g = splat(c::g[5]);
    g = fma(g, r, splat(c::g[4]));
    g = fma(g, r, splat(c::g[3]));
    g = fma(g, r, splat(c::g[2]));
    g = fma(g, r, splat(c::g[1]));
    g = fma(g, r, splat(c::g[0]));
    const v16 y = shift_exponent(add(splat(1.0F), fma(mul(r, r), g, r)), n);
    const v16 bounded =
        if_greater(splat(c::low), x, zero(), if_greater(x, splat(c::high), splat(numerics::infinity), y));
    return if_nan(x, x, bounded);
}
