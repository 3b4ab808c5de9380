// A product that meets an addition. The compiler's own contraction looks in PTX like a fused operation that was asked
// for; here none was, so that one here tells of the flags that the whole file was compiled with.
#pragma once

__global__ void contraction_canary(float* x) {
    x[0] = x[1] * x[2] + x[3];
}
