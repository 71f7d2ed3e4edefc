// Kernels of the tests of launches, each with the stub that starts it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace zt::emulator {

// y_i = a x_i + y_i for i < n; at most 128 threads a block.
void launch_axpy(float a, const float* x, float* y, int n, int threads, cudaStream_t stream);
const void* axpy_kernel();

// y_i = x_{n - 1 - i} through dynamic shared memory, one block of n threads.
void launch_reverse(const float* x, float* y, int n, std::size_t shared_bytes, cudaStream_t stream);
const void* reverse_kernel();

}  // namespace zt::emulator
