// Gradients of the norms. A block takes a range of groups one after the other and keeps its sums for dg and db in
// shared memory, each thread those of its own features; they go to one row of partial sums a block, which are added
// in a fixed order afterwards.
#include <algorithm>

#include "base/align.h"
#include "kernels/cuda_kernels.h"
#include "kernels/norm.cuh"

namespace zt::kernels {
namespace {

constexpr std::uint32_t kParts = 512;      // four blocks for each processor of a large GPU
constexpr std::uint32_t kLeastGroups = 8;  // of a team: the partial sums stay small beside x and dy

template <typename T>
struct Backward {
  DeviceRows<const T> x;
  const T* g;
  DeviceRows<const float> mean, r;  // mean: layer norms only
  DeviceRows<const T> dy;
  DeviceRows<T> dx;
  float* parts;                       // [part][dg, then db for layer norms][padded D]
  std::uint32_t groups, heads, each;  // `each` groups a block
  int D, padded;
  bool accumulate;
};

// A thread's sums for one of dg and db: chunk after chunk, threads side by side, so that no two banks meet. db's slots
// are counted on from dg's, from one base, whose alignment nvcc knows: it splits no access then.
template <typename Team>
struct Sums {
  static constexpr int kWords = Team::kVec >= 4 ? 4 : 1;  // one access
  static constexpr int kSlots = Team::kVec / kWords;      // of a chunk
  float* shared;
  int first;  // slot: 0 for dg, kChunks kSlots for db

  __device__ float* at(int chunk, int slot, int thread) const {
    return shared + ((first + chunk * kSlots + slot) * int(blockDim.x) + thread) * kWords;
  }
  __device__ void get(int chunk, int thread, float (&x)[Team::kVec]) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      float part[kWords];
      load(static_cast<const float*>(at(chunk, s, thread)), kWords, part);
#pragma unroll
      for (int i = 0; i < kWords; ++i) x[s * kWords + i] = part[i];
    }
  }
  __device__ void put(int chunk, int thread, const float (&x)[Team::kVec]) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      float part[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) part[i] = x[s * kWords + i];
      store(at(chunk, s, thread), kWords, part);
    }
  }
  __device__ void clear() const {
    const float zero[Team::kVec] = {};
#pragma unroll
    for (int c = 0; c < Team::kChunks; ++c) put(c, int(threadIdx.x), zero);
  }
  __device__ void add(int chunk, const float (&x)[Team::kVec]) const {
    float sum[Team::kVec];
    get(chunk, int(threadIdx.x), sum);
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) sum[i] += x[i];
    put(chunk, int(threadIdx.x), sum);
  }
  // One row of partial sums from all of a block's teams, in their order. Teams that are warps meet at a barrier first.
  __device__ void write(float* row_D, int D) const {
    if (Team::number() != 0) return;
#pragma unroll
    for (int c = 0; c < Team::kChunks; ++c) {
      const int col = Team::column(c);
      if (col >= D) continue;
      float sum[Team::kVec], more[Team::kVec];
      get(c, int(threadIdx.x), sum);
      for (int team = 1; team < Team::count(); ++team) {
        get(c, team * kWarp + int(threadIdx.x), more);
#pragma unroll
        for (int i = 0; i < Team::kVec; ++i) sum[i] += more[i];
      }
      store(row_D + col, Team::kVec, sum);
    }
  }
};

// A group: x becomes h = (x - mean) r and dy becomes g dy; sums of dy h and dy are taken on the way.
template <typename Team, bool kCentred, typename T>
__device__ void load_group(const Backward<T>& a, const T* x_D, const T* dy_D, float mean, float r,
                           const Sums<Team>& dg, const Sums<Team>& db, float (&h)[Team::kChunks][Team::kVec],
                           float (&gdy)[Team::kChunks][Team::kVec]) {
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c) {
    const int col = Team::column(c);
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) h[c][i] = gdy[c][i] = 0.f;
    if (col >= a.D) continue;
    float g[Team::kVec], along[Team::kVec];
    load(x_D + col, Team::kVec, h[c]);
    load(dy_D + col, Team::kVec, gdy[c]);
    load(a.g + col, Team::kVec, g);
    if constexpr (kCentred) db.add(c, gdy[c]);
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) {
      h[c][i] = (h[c][i] - mean) * r;
      along[i] = gdy[c][i] * h[c][i];
      gdy[c][i] *= g[i];
    }
    dg.add(c, along);
  }
}

// dx = r (g dy - level - h along), to dx or added to it.
template <typename Team, typename T>
__device__ void put_group(const Backward<T>& a, T* dx_D, float r, float level, float along,
                          const float (&h)[Team::kChunks][Team::kVec],
                          const float (&gdy)[Team::kChunks][Team::kVec]) {
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c) {
    const int col = Team::column(c);
    if (col >= a.D) continue;
    float dx[Team::kVec], before[Team::kVec] = {};
    if (a.accumulate) load(static_cast<const T*>(dx_D + col), Team::kVec, before);
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) dx[i] = before[i] + r * (gdy[c][i] - level - h[c][i] * along);
    store(dx_D + col, Team::kVec, dx);
  }
}

// With h = (x - m) r:  dx = r (g dy - mean(g dy) - h mean(g dy h)),  dg = dy h,  db = dy; RMS norms have m = 0 and
// no mean(g dy).
template <typename Team, bool kCentred, typename T>
__device__ void group_backward(const Backward<T>& a, std::uint32_t group, const Sums<Team>& dg,
                               const Sums<Team>& db, float* spare) {
  const std::uint32_t n = group / a.heads, head = group % a.heads;
  const std::int64_t first = std::int64_t{head} * a.D;
  const float r = *a.r.at(n, head), mean = kCentred ? *a.mean.at(n, head) : 0.f;
  float h[Team::kChunks][Team::kVec], gdy[Team::kChunks][Team::kVec];
  load_group<Team, kCentred>(a, a.x.at(n, first), a.dy.at(n, first), mean, r, dg, db, h, gdy);
  float level = 0.f, along = 0.f;
#pragma unroll
  for (int c = 0; c < Team::kChunks; ++c)
#pragma unroll
    for (int i = 0; i < Team::kVec; ++i) {
      level += gdy[c][i];
      along += gdy[c][i] * h[c][i];
    }
  level = kCentred ? Team::sum(level, spare) / float(a.D) : 0.f;
  along = Team::sum(along, spare) / float(a.D);
  put_group<Team>(a, a.dx.at(n, first), r, level, along, h, gdy);
}

template <typename Team, bool kCentred, typename T>
__global__ void __launch_bounds__(Team::kMost) norm_backward(const Backward<T> a) {
  extern __shared__ float4 shared[];
  __shared__ float spare[kNormThreads / kWarp];
  const Sums<Team> dg{reinterpret_cast<float*>(shared), 0}, db{dg.shared, Team::kChunks * Sums<Team>::kSlots};
  dg.clear();
  if constexpr (kCentred) db.clear();
  const std::uint32_t end = min(a.groups, (blockIdx.x + 1) * a.each);
#pragma unroll 1
  for (std::uint32_t group = blockIdx.x * a.each + unsigned(Team::number()); group < end;
       group += unsigned(Team::count()))
    group_backward<Team, kCentred>(a, group, dg, db, spare);
  if constexpr (Team::kIsWarp) __syncthreads();
  float* const row = a.parts + std::int64_t{blockIdx.x} * (kCentred ? 2 : 1) * a.padded;
  dg.write(row, a.D);
  if constexpr (kCentred) db.write(row + a.padded, a.D);
}

// Blocks of more than 48 KiB of dynamic shared memory must be asked for.
template <typename Kernel>
void allow_shared(const char* kernel, Kernel* function, std::size_t bytes) {
  if (bytes > std::size_t{48} * 1024)
    cuda::check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
                kernel);
}

template <bool kCentred, typename T>
void launch(const char* kernel, Backward<T> a, bool aligned, const CudaScratch& scratch, float* dg,
            float* db) {
  if (a.groups == 0) return;
  a.padded = int(round_up(a.D, 8));
  const std::int64_t stride = (kCentred ? 2 : 1) * std::int64_t{a.padded};
  const auto most = std::uint32_t(std::clamp<std::int64_t>(scratch.bytes / 4 / stride, 1, kParts));
  with_team<T>(kernel, a.D, aligned, [&](auto team, int threads) {
    using Chosen = decltype(team);
    const std::uint32_t teams = Chosen::kIsWarp ? std::uint32_t(threads / kWarp) : 1;
    a.each = std::max(kLeastGroups * teams, (a.groups + most - 1) / most);
    const std::uint32_t parts = (a.groups + a.each - 1) / a.each;
    a.parts = scratch.first<float>(parts * stride, kernel);
    const std::size_t bytes =
        std::size_t(threads) * Chosen::kChunks * Chosen::kVec * sizeof(float) * (kCentred ? 2 : 1);
    allow_shared(kernel, &norm_backward<Chosen, kCentred, T>, bytes);
    norm_backward<Chosen, kCentred><<<parts, unsigned(threads), bytes, cuda::current_stream()>>>(a);
    cuda::check(cudaGetLastError(), kernel);
    if (dg != nullptr) add_parts(kernel, a.parts, parts, stride, a.D, dg);
    if (db != nullptr) add_parts(kernel, a.parts + a.padded, parts, stride, a.D, db);
  });
}

bool is_sum(const View& v, std::int64_t D) { return !v || (is_vector(v, D) && v.dtype == Dtype::f32); }

}  // namespace

void CudaKernels::rms_norm_backward(const RmsNormGrad& a) {
  require_norm_shapes("rms_norm_backward", a.x_ND, a.g_D, a.dy_ND, a.r_NH);
  require_norm_shapes("rms_norm_backward", a.x_ND, a.g_D, a.dx_ND, a.r_NH);
  require(is_sum(a.dg_D, a.g_D.cols), "rms_norm_backward", "shapes of g and dg differ");
  with_device_type(a.x_ND.dtype, "rms_norm_backward", [&](auto type) {
    using T = decltype(type);
    Backward<T> b{};
    b.x = DeviceRows<const T>(a.x_ND);
    b.g = static_cast<const T*>(a.g_D.data);
    b.r = DeviceRows<const float>(a.r_NH);
    b.dy = DeviceRows<const T>(a.dy_ND);
    b.dx = DeviceRows<T>(a.dx_ND);
    b.groups = std::uint32_t(a.r_NH.size());
    b.heads = std::uint32_t(a.r_NH.cols);
    b.D = int(a.g_D.cols);
    b.accumulate = a.accumulate_dx;
    launch<false>("rms_norm_backward", b, all_aligned({a.x_ND, a.g_D, a.dy_ND, a.dx_ND}, kWidest<T>),
                  scratch(), static_cast<float*>(a.dg_D.data), nullptr);
  });
}

void CudaKernels::layer_norm_backward(const LayerNormGrad& a) {
  require_norm_shapes("layer_norm_backward", a.x_ND, a.g_D, a.dy_ND, a.r_NH);
  require_norm_shapes("layer_norm_backward", a.x_ND, a.g_D, a.dx_ND, a.r_NH);
  require(has_shape(a.mean_NH, a.r_NH.rows, a.r_NH.cols) && a.mean_NH.dtype == Dtype::f32,
          "layer_norm_backward", "shapes of mean and r differ");
  require(is_sum(a.dg_D, a.g_D.cols) && is_sum(a.db_D, a.g_D.cols), "layer_norm_backward",
          "shapes of g, dg and db differ");
  with_device_type(a.x_ND.dtype, "layer_norm_backward", [&](auto type) {
    using T = decltype(type);
    Backward<T> b{};
    b.x = DeviceRows<const T>(a.x_ND);
    b.g = static_cast<const T*>(a.g_D.data);
    b.mean = DeviceRows<const float>(a.mean_NH);
    b.r = DeviceRows<const float>(a.r_NH);
    b.dy = DeviceRows<const T>(a.dy_ND);
    b.dx = DeviceRows<T>(a.dx_ND);
    b.groups = std::uint32_t(a.r_NH.size());
    b.heads = std::uint32_t(a.r_NH.cols);
    b.D = int(a.g_D.cols);
    b.accumulate = a.accumulate_dx;
    launch<true>("layer_norm_backward", b, all_aligned({a.x_ND, a.g_D, a.dy_ND, a.dx_ND}, kWidest<T>),
                 scratch(), static_cast<float*>(a.dg_D.data), static_cast<float*>(a.db_D.data));
  });
}

}  // namespace zt::kernels
