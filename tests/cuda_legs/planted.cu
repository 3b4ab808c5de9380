// Kernels that are not exact, one fault each, and some that are: for lint_finds_faults.py.
#include <cuda_fp16.h>

#include "canary.cuh"

// ---- exact ----------------------------------------------------------------------------------------------------------
__global__ void exact_operations(float* x, int* n, unsigned short* h) {
    x[0] = __fmaf_rn(x[1], x[2], x[3]) / x[4] - sqrtf(x[5]);
    x[6] = rintf(x[7]) + static_cast<float>(n[0]) * fabsf(x[8]);
    n[1] = static_cast<int>(x[9]);
    x[10] = x[11] < x[12] ? fmaxf(x[13], -x[14]) : __half2float(__ushort_as_half(h[0]));
    n[2] = atomicAdd(n, 1);
}

// ---- not exact, whatever the flags ----------------------------------------------------------------------------------
__global__ void fast_exponential(float* x) {
    x[0] = __expf(x[1]);
}
__global__ void fast_logarithm(float* x) {
    x[0] = __logf(x[1]);
}
__global__ void fast_division(float* x) {
    x[0] = __fdividef(x[1], x[2]);
}
__global__ void reciprocal_root(float* x) {
    x[0] = rsqrtf(x[1]);
}
__global__ void float_reduction(float* x) {
    atomicAdd(x, x[1]);
}
__global__ void float_atomic(float* x) {
    x[0] = atomicAdd(x + 1, x[2]);
}
__global__ void toward_zero(float* x) {
    x[0] = __fadd_rz(x[1], x[2]);
}
__global__ void saturated(float* x) {
    x[0] = __saturatef(x[1] + x[2]);
}
__global__ void half_sum(__half* x) {
    x[0] = __hadd(x[1], x[2]);
}
__global__ void double_sum(double* x) {
    x[0] = x[1] + x[2];
}
__global__ void unrounded_sum(float* x) {
    asm volatile("{ .reg .f32 t; add.f32 t, %1, %2; mov.f32 %0, t; }" : "=f"(x[0]) : "f"(x[1]), "f"(x[2]));
}
__global__ void matrix_product(float* x, const unsigned* a) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]));
}

// ---- exact only with the right flags --------------------------------------------------------------------------------
__global__ void sum(float* x) {
    x[0] = x[1] + x[2];
}
__global__ void quotient(float* x) {
    x[0] = x[1] / x[2];
}
__global__ void root(float* x) {
    x[0] = sqrtf(x[1]);
}
