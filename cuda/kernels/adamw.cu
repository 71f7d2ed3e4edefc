#include "kernels/adamw_factors.h"
#include "kernels/cuda_kernels.h"
#include "kernels/elementwise.cuh"
#include "kernels/reduce.cuh"

namespace zt::kernels {
namespace {

// kPublish: w gets p rounded.
template <typename G, typename W, bool kPublish>
struct AdamWOp {
  DeviceRows<float> p, m, v;
  DeviceRows<const G> g;
  DeviceRows<W> w;
  AdamWFactors f;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float ps[kVec], ms[kVec], vs[kVec], gs[kVec];
    load(p.at(row, col), count, ps);
    load(m.at(row, col), count, ms);
    load(v.at(row, col), count, vs);
    load(g.at(row, col), count, gs);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float scaled = f.grad_scale * gs[i];
      ms[i] = f.beta1 * ms[i] + f.fresh1 * scaled;
      vs[i] = f.beta2 * vs[i] + f.fresh2 * scaled * scaled;
      ps[i] = f.keep * ps[i] - f.step * ms[i] / (sqrtf(vs[i]) * f.root2 + f.eps);
    }
    store(m.at(row, col), count, ms);
    store(v.at(row, col), count, vs);
    store(p.at(row, col), count, ps);
    if constexpr (kPublish) store(w.at(row, col), count, ps);
  }
};

template <typename G, typename W, bool kPublish>
void adamw_typed(const AdamW& a) {
  using Master = DeviceRows<float>;
  const AdamWOp<G, W, kPublish> op{Master(a.p_n),        Master(a.m_n),
                                   Master(a.v_n),        DeviceRows<const G>(a.g_n),
                                   DeviceRows<W>(a.w_n), AdamWFactors(a)};
  constexpr int kVec = kWidest<G, W, float>;
  const bool aligned = all_aligned({a.p_n, a.m_n, a.v_n, a.g_n, a.w_n}, kVec);
  launch_rows<kVec>("adamw", op, 1, a.p_n.size(), aligned);
}

template <typename G>
void adamw_of(const AdamW& a) {
  if (!a.w_n) return adamw_typed<G, G, false>(a);
  with_device_type(a.w_n.dtype, "adamw", [&](auto type) { adamw_typed<G, decltype(type), true>(a); });
}

// Parts of a sum of squares: as many as keep a large GPU busy, each of at least one block's bytes.
constexpr int kSquareThreads = 256;
constexpr std::int64_t kSquareParts = 1024;

template <int kVec, typename T>
__global__ void __launch_bounds__(kSquareThreads)
    square_parts(const T* x_n, const std::int64_t n, double* sums) {
  __shared__ double spare[kSquareThreads / kWarp];
  const std::int64_t step = std::int64_t{gridDim.x} * kSquareThreads * kVec;
  double sum = 0;
#pragma unroll 1
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kSquareThreads + threadIdx.x) * kVec; i < n; i += step) {
    float x[kVec];
    load(x_n + i, int(min(std::int64_t{kVec}, n - i)), x);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum += double(x[j]) * double(x[j]);
  }
  sum = block_sum(sum, spare);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSquareThreads)
    sum_of_parts(const double* sums, const int parts, double* result) {
  __shared__ double spare[kSquareThreads / kWarp];
  double sum = 0;
  for (int i = int(threadIdx.x); i < parts; i += kSquareThreads) sum += sums[i];
  sum = block_sum(sum, spare);
  if (threadIdx.x == 0) *result = sum;
}

template <int kVec, typename T>
void launch_squares(const T* x_n, std::int64_t n, double* sums, double* result) {
  const cudaStream_t stream = cuda::current_stream();
  const std::int64_t each = kSquareThreads * kVec;
  const int parts = int(std::min(kSquareParts, (n + each - 1) / each));
  if (parts > 0) square_parts<kVec><<<parts, kSquareThreads, 0, stream>>>(x_n, n, sums);
  sum_of_parts<<<1, kSquareThreads, 0, stream>>>(sums, parts, result);
  cuda::check(cudaGetLastError(), "sum_squares");
}

}  // namespace

void CudaKernels::adamw(const AdamW& a) {
  const std::int64_t n = a.p_n.size();
  for (const View& v : {a.p_n, a.m_n, a.v_n})
    require(is_vector(v, n) && v.dtype == Dtype::f32, "adamw",
            "p, m and v must be f32 vectors of one length");
  require(is_vector(a.g_n, n) && (!a.w_n || is_vector(a.w_n, n)), "adamw",
          "p, m, v, g and w must be vectors of one length");
  require(a.g_n.dtype == Dtype::f32 || a.g_n.dtype == Dtype::bf16, "adamw", "g must be f32 or bf16");
  require(a.t >= 1, "adamw", "t counts from 1");
  if (a.g_n.dtype == Dtype::f32)
    adamw_of<float>(a);
  else
    adamw_of<__nv_bfloat16>(a);
}

void CudaKernels::sum_squares(const SumSquares& a) {
  const std::int64_t n = a.x_n.size();
  require(a.result != nullptr && is_vector(a.x_n, n), "sum_squares",
          "takes a vector and a place for its result");
  double* const sums = scratch().first<double>(kSquareParts, "sum_squares");
  with_device_type(a.x_n.dtype, "sum_squares", [&](auto type) {
    using T = decltype(type);
    const T* const x_n = static_cast<const T*>(a.x_n.data);
    constexpr int kVec = kWidest<T>;
    if (all_aligned({View(a.x_n.data, a.x_n.dtype, 1, n)}, kVec))
      launch_squares<kVec>(x_n, n, sums, a.result);
    else
      launch_squares<1>(x_n, n, sums, a.result);
  });
}

}  // namespace zt::kernels
