#include "kernels/attention_rows.cuh"
#include "kernels/attention_shapes.h"

namespace zt::kernels {
namespace {

constexpr int kDeltaThreads = 256, kSharers = 16;

// One row and head by sixteen threads, a piece each.
template <typename T>
__global__ void __launch_bounds__(kDeltaThreads) attention_delta(const __grid_constant__ AttentionCall a) {
  const int row = int(blockIdx.x) * (kDeltaThreads / kSharers) + int(threadIdx.x) / kSharers,
            head = int(blockIdx.y);
  const int column = int(threadIdx.x) % kSharers * kPiece;
  float sum = 0.f;
  if (row < a.tokens && column < a.head_size) {
    float o[kPiece], grad[kPiece];
    load(a.o.head<T>(head, a.head_size) + row * a.o.stride + column, kPiece, o);
    load(a.grad.head<T>(head, a.head_size) + row * a.grad.stride + column, kPiece, grad);
#pragma unroll
    for (int i = 0; i < kPiece; ++i) sum += o[i] * grad[i];
  }
#pragma unroll
  for (int step = kSharers / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (row < a.tokens && column == 0) a.delta.head(head)[row] = sum;
}

}  // namespace

template <typename T>
void launch_attention_delta(const AttentionCall& call, cudaStream_t stream) {
  constexpr int kRows = kDeltaThreads / kSharers;
  const dim3 grid(unsigned((call.tokens + kRows - 1) / kRows), unsigned(call.heads));
  launch_with_shared("attention_backward", attention_delta<T>, grid, kDeltaThreads, 0, call, stream);
}
template void launch_attention_delta<__nv_bfloat16>(const AttentionCall&, cudaStream_t);
template void launch_attention_delta<__half>(const AttentionCall&, cudaStream_t);

}  // namespace zt::kernels
