// One query against a cache (kernels/attention.h, AttentionDecode). A block takes one head; each of its warps walks
// over every sixteenth key with running maximum and sums of its own, which are joined at the end.
#include <cmath>

#include "kernels/attention_plain.cuh"
#include "kernels/attention_rows.cuh"

namespace zt::kernels {
namespace {

constexpr int kDecodeWarps = 16, kDecodeThreads = 32 * kDecodeWarps;
constexpr int kColumns = kLargestHead / 32;  // of a thread: column lane + 32 x

// A row's columns of this thread.
__device__ __forceinline__ void read_columns(float (&x)[kColumns], const HeadRows& rows, int head,
                                             int head_size, std::int64_t row) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int column = int(threadIdx.x) % 32 + 32 * c;
    x[c] = column < head_size ? read(rows, head, head_size, row, column) : 0.f;
  }
}

// Running maximum, sum and weighted sum of values of some of the keys.
struct Softmax {
  float most = -INFINITY, sum = 0.f, o[kColumns] = {};

  __device__ __forceinline__ void shrink_to(float now) {
    const float factor = now == -INFINITY ? 1.f : expf(most - now);
    sum *= factor;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) o[c] *= factor;
    most = now;
  }
  __device__ __forceinline__ void add(float score, const float (&v)[kColumns]) {
    if (!(score <= most)) shrink_to(score);
    const float p = expf(score - most);
    sum += p;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) o[c] += p * v[c];
  }
};

__global__ void __launch_bounds__(kDecodeThreads, 1)
    attention_decode_row(const __grid_constant__ AttentionCall a) {
  __shared__ float most_W[kDecodeWarps], sum_W[kDecodeWarps], o_WD[kDecodeWarps][kLargestHead];
  const int head = int(blockIdx.x), kv = head / (a.heads / a.kv_heads);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  float q[kColumns], k[kColumns], v[kColumns];
  read_columns(q, a.q, head, a.head_size, 0);
  Softmax mine;
  const int first = a.window > 0 ? max(0, a.tokens - a.window) : 0;
  for (int key = first + warp; key < a.tokens; key += kDecodeWarps) {
    read_columns(k, a.k, kv, a.head_size, key);
    read_columns(v, a.v, kv, a.head_size, key);
    float score = 0.f;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) score += q[c] * k[c];
#pragma unroll
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(~0u, score, step);
    mine.add(a.scale * score, v);
  }
  if (lane == 0) most_W[warp] = mine.most;
  __syncthreads();
  float most = most_W[0];
  for (int w = 1; w < kDecodeWarps; ++w) most = larger(most, most_W[w]);
  mine.shrink_to(most);
  if (lane == 0) sum_W[warp] = mine.sum;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) o_WD[warp][lane + 32 * c] = mine.o[c];
  __syncthreads();
  const int column = int(threadIdx.x);
  if (column >= a.head_size) return;
  float sum = 0.f, o = 0.f;
  for (int w = 0; w < kDecodeWarps; ++w) {
    sum += sum_W[w];
    o += o_WD[w][column];
  }
  write(a.o, head, a.head_size, 0, column, o / sum);
}

}  // namespace

void launch_attention_decode(const AttentionCall& call, cudaStream_t stream) {
  attention_decode_row<<<unsigned(call.heads), kDecodeThreads, 0, stream>>>(call);
  cuda::check(cudaGetLastError(), "attention_decode");
}

}  // namespace zt::kernels
