#include <cmath>

#include "kernels/cross_entropy.h"
#include "kernels/cuda_kernels.h"
#include "kernels/reduce.cuh"

namespace zt::kernels {
namespace {

constexpr int kThreads = 512;  // two blocks on a processor keep enough bytes in flight

// A chunk of tokens.
template <typename T>
struct Chunk {
  DeviceRows<const float> logits;
  DeviceRows<T> dlogits;  // absent: evaluation; may be the logits
  const std::int32_t* targets;
  double* losses;  // one a row
  float* loss_N;   // may be absent
  std::int64_t V;
  float grad_scale;
};

// The largest of some numbers and the sum of e^(x - largest). With none: -inf and 0.
// Source: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", alg. 3.
struct Exponents {
  float most, sum;

  __device__ static Exponents none() { return {-INFINITY, 0.f}; }
  template <int kVec>
  __device__ void add(const float (&x)[kVec], int count) {
    float top = most;
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      if (i < count) top = larger(top, x[i]);
    if (top == -INFINITY) return;
    sum *= expf(most - top);
    most = top;
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      if (i < count) sum += expf(x[i] - top);
  }
  __device__ void add(const Exponents& other) {
    const float top = larger(most, other.most);
    if (top == -INFINITY) return;
    sum = sum * expf(most - top) + other.sum * expf(other.most - top);
    most = top;
  }
  // NaN stays in the sum.
  __device__ static float larger(float a, float b) { return a > b ? a : b; }
};

__device__ inline Exponents warp_exponents(Exponents mine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    Exponents other;
    other.most = __shfl_xor_sync(kAllLanes, mine.most, step);
    other.sum = __shfl_xor_sync(kAllLanes, mine.sum, step);
    mine.add(other);
  }
  return mine;
}

// Those of a row, in every thread of the block.
template <int kVec>
__device__ Exponents row_exponents(const float* x_V, std::int64_t V, Exponents* spare) {
  Exponents mine = Exponents::none();
  for (std::int64_t v = std::int64_t{threadIdx.x} * kVec; v < V; v += kThreads * kVec) {
    float x[kVec];
    const int count = int(min(std::int64_t{kVec}, V - v));
    load(x_V + v, count, x);
    mine.add(x, count);
  }
  mine = warp_exponents(mine);
  const int lane = int(threadIdx.x) % kWarp;
  if (lane == 0) spare[threadIdx.x / kWarp] = mine;
  __syncthreads();
  return warp_exponents(lane < kThreads / kWarp ? spare[lane] : Exponents::none());
}

// d_v = grad_scale (e^{x_v - lse} - [v = target]); d may be x: each thread reads what it then writes.
template <int kVec, typename T>
__device__ void put_gradient(const float* x_V, T* d_V, std::int64_t V, float lse, std::int64_t target,
                             float grad_scale) {
  for (std::int64_t v = std::int64_t{threadIdx.x} * kVec; v < V; v += kThreads * kVec) {
    float x[kVec];
    const int count = int(min(std::int64_t{kVec}, V - v));
    load(x_V + v, count, x);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float p = expf(x[i] - lse);
      x[i] = grad_scale * (v + i == target ? p - 1.f : p);
    }
    store(d_V + v, count, x);
  }
}

template <int kVec, typename T>
__device__ void put_zeros(T* d_V, std::int64_t V) {
  const float zero[kVec] = {};
  for (std::int64_t v = std::int64_t{threadIdx.x} * kVec; v < V; v += kThreads * kVec)
    store(d_V + v, int(min(std::int64_t{kVec}, V - v)), zero);
}

// One row a block. Logits are read kRead at a time, whether gradients are wanted or not: the loss has the same bits.
template <int kRead, int kWrite, typename T>
__global__ void __launch_bounds__(kThreads) row_loss(const Chunk<T> a) {
  __shared__ Exponents spare[kThreads / kWarp];
  const std::int64_t row = blockIdx.x, target = a.targets[row];
  T* const d_V = a.dlogits.data == nullptr ? nullptr : a.dlogits.at(row, 0);
  double loss = 0;
  if (target >= 0) {
    const float* const x_V = a.logits.at(row, 0);
    const float at_target = x_V[target];
    const Exponents e =
        row_exponents<kRead>(x_V, a.V, spare);  // a barrier: at_target is read before d is written
    const double lse = double(e.most) + log(double(e.sum));
    loss = lse - double(at_target);
    if (d_V != nullptr) put_gradient<kWrite>(x_V, d_V, a.V, float(lse), target, a.grad_scale);
  } else if (d_V != nullptr) {
    put_zeros<kWrite>(d_V, a.V);
  }
  if (threadIdx.x != 0) return;
  a.losses[row] = loss;
  if (a.loss_N != nullptr) a.loss_N[row] = float(loss);
}

// sum = or += the losses of a chunk, in an order that depends on their number only.
__global__ void __launch_bounds__(kThreads)
    sum_losses(const double* losses, const std::int64_t count, double* sum, const bool add) {
  __shared__ double spare[kThreads / kWarp];
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) mine += losses[i];
  mine = block_sum(mine, spare);
  if (threadIdx.x == 0) *sum = add ? *sum + mine : mine;
}

__global__ void no_loss(double* sum) { *sum = 0; }

template <typename T>
void chunk_loss(const Chunk<T>& a, std::int64_t rows, bool aligned, bool both_aligned) {
  constexpr int kVec = kWidest<T, float>;
  const cudaStream_t stream = cuda::current_stream();
  if (both_aligned)
    row_loss<kVec, kVec><<<unsigned(rows), kThreads, 0, stream>>>(a);
  else if (aligned)
    row_loss<kVec, 1><<<unsigned(rows), kThreads, 0, stream>>>(a);
  else
    row_loss<1, 1><<<unsigned(rows), kThreads, 0, stream>>>(a);
  cuda::check(cudaGetLastError(), "cross_entropy_head");
}

void check(const CrossEntropyHead& h) {
  const auto refuse = [](const std::string& what) { fail_contract("cross_entropy_head", what); };
  const std::int64_t N = h.x_ND.rows, D = h.x_ND.cols, V = h.w_VD.rows;
  if (h.w_VD.cols != D) refuse(cat("x has ", D, " columns, w has ", h.w_VD.cols));
  if (h.target_N.size() != N) refuse(cat(N, " tokens, ", h.target_N.size(), " targets"));
  if (h.logits_CV.cols != V || h.logits_CV.rows < 1)
    refuse(cat("logits workspace is ", h.logits_CV.rows, " x ", h.logits_CV.cols, ", V is ", V));
  if (h.loss_N && h.loss_N.size() != N) refuse(cat(N, " tokens, ", h.loss_N.size(), " losses"));
  if (h.dw_VD && !h.dx_ND) refuse("dw without dx");
  const bool narrow = h.x_ND.dtype != Dtype::f32;
  if (h.dx_ND && narrow && (h.dlogits_CV.rows < h.logits_CV.rows || h.dlogits_CV.cols != V))
    refuse(cat("dlogits workspace is ", h.dlogits_CV.rows, " x ", h.dlogits_CV.cols));
}

}  // namespace

// Chunks without a supervised token are computed like others: only the device knows the targets, and nothing waits
// for it.
void CudaKernels::cross_entropy_head(const CrossEntropyHead& h) {
  check(h);
  const std::int64_t N = h.x_ND.rows, C = h.logits_CV.rows;
  const bool backward = bool(h.dx_ND), narrow = h.x_ND.dtype != Dtype::f32;
  const cudaStream_t stream = cuda::current_stream();
  for (std::int64_t first = 0; first < N; first += C) {
    const std::int64_t rows = std::min(C, N - first);
    const View x = h.x_ND.slice(first, rows), logits = h.logits_CV.slice(0, rows);
    const View dlogits = !backward ? View{} : narrow ? h.dlogits_CV.slice(0, rows) : logits;
    linear({.x_NI = x, .w_OI = h.w_VD, .b_O = {}, .y_NO = logits});
    double* const losses = scratch().first<double>(rows, "cross_entropy_head");
    with_device_type(h.x_ND.dtype, "cross_entropy_head", [&](auto type) {
      using T = decltype(type);
      const Chunk<T> chunk{DeviceRows<const float>(logits),
                           DeviceRows<T>(dlogits),
                           h.target_N.as<const std::int32_t>() + first,
                           losses,
                           h.loss_N ? h.loss_N.as<float>() + first : nullptr,
                           h.w_VD.rows,
                           h.grad_scale};
      chunk_loss(chunk, rows, all_aligned({logits}, kWidest<T, float>),
                 all_aligned({logits, dlogits}, kWidest<T, float>));
    });
    if (h.loss_sum != nullptr) sum_losses<<<1, kThreads, 0, stream>>>(losses, rows, h.loss_sum, first > 0);
    if (backward)
      linear_backward({.x_NI = x,
                       .w_OI = h.w_VD,
                       .dy_NO = dlogits,
                       .dx_NI = h.dx_ND.slice(first, rows),
                       .dw_OI = h.dw_VD,
                       .db_O = {}});
  }
  if (N == 0 && h.loss_sum != nullptr) no_loss<<<1, 1, 0, stream>>>(h.loss_sum);
  cuda::check(cudaGetLastError(), "cross_entropy_head");
}

}  // namespace zt::kernels
