// The kernels of one instruction set as a table. Included once per instruction set, after the kernels.

inline constexpr kernel_table table = {&linear,   &rms_norm, &rope,        &silu_mul,
                                       &add_rows, &attend,   group_panels, tile_rows};
