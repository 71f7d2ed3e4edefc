#include "kernels/cuda_kernels.h"
#include "kernels/norm.cuh"

namespace zt::kernels {
namespace {

template <typename T>
struct Forward {
  DeviceRows<const T> x;
  const T *g, *b;  // b may be absent
  DeviceRows<T> y;
  DeviceRows<float> mean, r;  // mean: layer norms only
  std::uint32_t groups, heads;
  int D;
  float eps;
};

// A group of x in registers; features beyond D are 0.
template <typename Team, typename T>
__device__ void load_group(const T* x_D, int D, float (&x)[Team::kChunks][Team::kVec]) {
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c) {
    const int col = Team::column(c);
    if (col < D) {
      load(x_D + col, Team::kVec, x[c]);
    } else {
#pragma unroll
      for (int i = 0; i < Team::kVec; ++i) x[c][i] = 0.f;
    }
  }
}

// The sum of the group's numbers, or of the squares of their distances from `mean`.
template <typename Team, bool kSquares>
__device__ float group_sum(const float (&x)[Team::kChunks][Team::kVec], float mean, int D, float* spare) {
  float sum = 0.f;
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c) {
    if (Team::column(c) >= D) continue;
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) {
      const float from_mean = x[c][i] - mean;
      sum += kSquares ? from_mean * from_mean : x[c][i];
    }
  }
  return Team::sum(sum, spare);
}

// y = (x - mean) r g + b
template <typename Team, typename T>
__device__ void put_group(const Forward<T>& a, const float (&x)[Team::kChunks][Team::kVec], float mean,
                          float r, T* y_D) {
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c) {
    const int col = Team::column(c);
    if (col >= a.D) continue;
    float g[Team::kVec], b[Team::kVec] = {}, y[Team::kVec];
    load(a.g + col, Team::kVec, g);
    if (a.b != nullptr) load(a.b + col, Team::kVec, b);
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) y[i] = (x[c][i] - mean) * r * g[i] + b[i];
    store(y_D + col, Team::kVec, y);
  }
}

// One group a team. The mean first, then the variance around it: a single pass would cancel where |mean| >>
// deviation.
template <typename Team, bool kCentred, typename T>
__global__ void __launch_bounds__(Team::kMost) norm_forward(const Forward<T> a) {
  __shared__ float spare[kNormThreads / kWarp];
  const std::uint32_t group = blockIdx.x * unsigned(Team::count()) + unsigned(Team::number());
  if (group >= a.groups) return;
  const std::uint32_t n = group / a.heads, h = group % a.heads;
  const std::int64_t first = std::int64_t{h} * a.D;
  float x[Team::kChunks][Team::kVec];
  load_group<Team>(a.x.at(n, first), a.D, x);
  const float mean = kCentred ? group_sum<Team, false>(x, 0.f, a.D, spare) / float(a.D) : 0.f;
  const float squares = group_sum<Team, true>(x, mean, a.D, spare);
  const float r = 1.f / sqrtf(squares / float(a.D) + a.eps);
  put_group<Team>(a, x, mean, r, a.y.at(n, first));
  if (Team::rank() == 0) {
    *a.r.at(n, h) = r;
    if (kCentred) *a.mean.at(n, h) = mean;
  }
}

template <bool kCentred, typename T>
void launch(const char* kernel, const Forward<T>& a, bool aligned) {
  if (a.groups == 0) return;
  with_team<T>(kernel, a.D, aligned, [&](auto team, int threads) {
    using Chosen = decltype(team);
    const unsigned teams = Chosen::kIsWarp ? unsigned(threads / kWarp) : 1;
    norm_forward<Chosen, kCentred>
        <<<(a.groups + teams - 1) / teams, unsigned(threads), 0, cuda::current_stream()>>>(a);
    cuda::check(cudaGetLastError(), kernel);
  });
}

}  // namespace

void CudaKernels::rms_norm(const RmsNorm& a) {
  require_norm_shapes("rms_norm", a.x_ND, a.g_D, a.y_ND, a.r_NH);
  with_device_type(a.x_ND.dtype, "rms_norm", [&](auto type) {
    using T = decltype(type);
    const Forward<T> forward{DeviceRows<const T>(a.x_ND),
                             static_cast<const T*>(a.g_D.data),
                             nullptr,
                             DeviceRows<T>(a.y_ND),
                             DeviceRows<float>(),
                             DeviceRows<float>(a.r_NH),
                             std::uint32_t(a.r_NH.size()),
                             std::uint32_t(a.r_NH.cols),
                             int(a.g_D.cols),
                             a.eps};
    launch<false>("rms_norm", forward, all_aligned({a.x_ND, a.g_D, a.y_ND}, kWidest<T>));
  });
}

void CudaKernels::layer_norm(const LayerNorm& a) {
  require_norm_shapes("layer_norm", a.x_ND, a.g_D, a.y_ND, a.r_NH);
  require(has_shape(a.mean_NH, a.r_NH.rows, a.r_NH.cols) && a.mean_NH.dtype == Dtype::f32, "layer_norm",
          "shapes of mean and r differ");
  require(!a.b_D || (is_vector(a.b_D, a.g_D.cols) && a.b_D.dtype == a.g_D.dtype), "layer_norm",
          "shapes of g and b differ");
  with_device_type(a.x_ND.dtype, "layer_norm", [&](auto type) {
    using T = decltype(type);
    const Forward<T> forward{DeviceRows<const T>(a.x_ND),
                             static_cast<const T*>(a.g_D.data),
                             static_cast<const T*>(a.b_D.data),
                             DeviceRows<T>(a.y_ND),
                             DeviceRows<float>(a.mean_NH),
                             DeviceRows<float>(a.r_NH),
                             std::uint32_t(a.r_NH.size()),
                             std::uint32_t(a.r_NH.cols),
                             int(a.g_D.cols),
                             a.eps};
    launch<true>("layer_norm", forward, all_aligned({a.x_ND, a.g_D, a.b_D, a.y_ND}, kWidest<T>));
  });
}

}  // namespace zt::kernels
