// Everything above the lanes. Included once per instruction set, inside its namespace and target region.

#include <dflash/cpu/kernels/linear.inl>

#include <dflash/cpu/kernels/attend.inl>
#include <dflash/cpu/kernels/rows.inl>

/// The kernels of this instruction set.
inline constexpr kernel_table table = {&linear, &rms_norm, &rope,     &silu_mul, &add_rows,
                                       &attend, max_group, tile_rows, &tile_for};
