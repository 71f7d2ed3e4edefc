#include "launch_kernels.h"

namespace zt::emulator {
namespace {

__global__ void __launch_bounds__(128) axpy(float a, const float* x, float* y, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void reverse(const float* x, float* y, int n) {
  extern __shared__ float row[];
  const int i = int(threadIdx.x);
  row[i] = x[i];
  __syncthreads();
  y[i] = row[n - 1 - i];
}

}  // namespace

void launch_axpy(float a, const float* x, float* y, int n, int threads, cudaStream_t stream) {
  axpy<<<(n + threads - 1) / threads, threads, 0, stream>>>(a, x, y, n);
}
const void* axpy_kernel() { return reinterpret_cast<const void*>(&axpy); }

void launch_reverse(const float* x, float* y, int n, std::size_t shared_bytes, cudaStream_t stream) {
  reverse<<<1, n, shared_bytes, stream>>>(x, y, n);
}
const void* reverse_kernel() { return reinterpret_cast<const void*>(&reverse); }

}  // namespace zt::emulator
