// Everything above the lanes. Included once per instruction set, inside its namespace and target region.

#include <dflash/cpu/kernels/linear.inl>

#include <dflash/cpu/kernels/attend.inl>
#include <dflash/cpu/kernels/rows.inl>

/// Products with weights of any stored type.
inline void linear(const linear_job& job, index first_panel, index last_panel) {
    switch (job.type) {
        case dtype::f32: linear_panels<panel_f32>(job, first_panel, last_panel); break;
        case dtype::bf16: linear_panels<panel_bf16>(job, first_panel, last_panel); break;
        case dtype::f16: linear_panels<panel_f16>(job, first_panel, last_panel); break;
    }
}

/// The kernels of this instruction set.
inline constexpr kernel_table table = {{&linear, max_group, tile_rows, &tile_for},
                                       {},
                                       nullptr,
                                       &rms_norm,
                                       &rope,
                                       &silu_mul,
                                       &add_rows,
                                       &attend,
                                       tile_rows};
