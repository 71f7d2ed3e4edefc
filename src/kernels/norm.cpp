#include "kernels/norm.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

// Partial sums of the gradients of g and b: part p owns row p. Grows to the largest width seen, at most
// Parts::kParts rows.
float* partial_sums(std::int64_t floats) {
  static thread_local std::vector<float> scratch;
  if (std::int64_t(scratch.size()) < floats) scratch.resize(std::size_t(floats));
  return scratch.data();
}

// sum_D += the parts' rows, which are gathered in the first of them, in order.
void add_parts(float* parts_PD, std::int64_t parts, std::int64_t stride, std::int64_t D, float* sum_D) {
  for (std::int64_t p = 1; p < parts; ++p) {
    const float* const part_D = parts_PD + p * stride;
#pragma omp simd
    for (std::int64_t d = 0; d < D; ++d) parts_PD[d] += part_D[d];
  }
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) sum_D[d] += parts_PD[d];
}

template <typename T>
void rms_norm_group(const T* x_D, const T* g_D, T* y_D, float* r_out, std::int64_t D, float eps) {
  float squares = 0.f;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t d = 0; d < D; ++d) squares += float(x_D[d]) * float(x_D[d]);
  const float r = 1.f / std::sqrt(squares / float(D) + eps);
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) y_D[d] = rounded_to<T>(float(x_D[d]) * r * float(g_D[d]));
  *r_out = r;
}

// With h = x r:  dx = r (g dy - h mean(g dy h)),  dg = dy h (only with kSums).
template <bool kAccumulate, bool kSums, typename T>
void rms_norm_group_backward(const T* x_D, const T* g_D, const T* dy_D, T* dx_D, float* dg_D, float r,
                             std::int64_t D) {
  float dot = 0.f;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t d = 0; d < D; ++d) dot += float(dy_D[d]) * float(g_D[d]) * float(x_D[d]);
  const float along = dot * r / float(D);
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) {
    const float h = float(x_D[d]) * r, dy = float(dy_D[d]);
    const float dx = r * (dy * float(g_D[d]) - h * along);
    dx_D[d] = rounded_to<T>(kAccumulate ? float(dx_D[d]) + dx : dx);
    if constexpr (kSums) dg_D[d] += dy * h;
  }
}

// The mean first, then the variance around it: a single pass would cancel where |mean| >> deviation.
template <typename T>
void layer_norm_group(const T* x_D, const T* g_D, const T* b_D, T* y_D, float* mean_out, float* r_out,
                      std::int64_t D, float eps) {
  float sum = 0.f, squares = 0.f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t d = 0; d < D; ++d) sum += float(x_D[d]);
  const float mean = sum / float(D);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t d = 0; d < D; ++d) squares += (float(x_D[d]) - mean) * (float(x_D[d]) - mean);
  const float r = 1.f / std::sqrt(squares / float(D) + eps);
  if (b_D != nullptr) {
#pragma omp simd
    for (std::int64_t d = 0; d < D; ++d)
      y_D[d] = rounded_to<T>((float(x_D[d]) - mean) * r * float(g_D[d]) + float(b_D[d]));
  } else {
#pragma omp simd
    for (std::int64_t d = 0; d < D; ++d) y_D[d] = rounded_to<T>((float(x_D[d]) - mean) * r * float(g_D[d]));
  }
  *mean_out = mean;
  *r_out = r;
}

// With h = (x - m) r:  dx = r (g dy - mean(g dy) - h mean(g dy h)),  dg = dy h,  db = dy (both only with
// kSums).
template <bool kAccumulate, bool kSums, typename T>
void layer_norm_group_backward(const T* x_D, const T* g_D, const T* dy_D, T* dx_D, float* dg_D, float* db_D,
                               float mean, float r, std::int64_t D) {
  float sum = 0.f, dot = 0.f;
#pragma omp simd reduction(+ : sum, dot)
  for (std::int64_t d = 0; d < D; ++d) {
    const float gdy = float(dy_D[d]) * float(g_D[d]);
    sum += gdy;
    dot += gdy * (float(x_D[d]) - mean);
  }
  const float level = sum / float(D), along = dot * r / float(D);
#pragma omp simd
  for (std::int64_t d = 0; d < D; ++d) {
    const float h = (float(x_D[d]) - mean) * r, dy = float(dy_D[d]);
    const float dx = r * (dy * float(g_D[d]) - level - h * along);
    dx_D[d] = rounded_to<T>(kAccumulate ? float(dx_D[d]) + dx : dx);
    if constexpr (kSums) {
      dg_D[d] += dy * h;
      db_D[d] += dy;
    }
  }
}

// Calls group(n, h) for each of the N x H groups, in parallel.
template <typename F>
void for_groups(std::int64_t N, std::int64_t H, [[maybe_unused]] std::int64_t D, F group) {
#pragma omp parallel for schedule(static) if (N * H * D > kWorthThreads)
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t h = 0; h < H; ++h) group(n, h);
}

// Calls group(n, h, sums) likewise, where sums points to the `width` partial sums of the part n is in, and
// hands the parts to add_up(parts, count).
template <typename F, typename G>
void for_groups_with_sums(std::int64_t N, std::int64_t H, std::int64_t width, F group, G add_up) {
  const Parts parts(N);
  const std::int64_t stride = (width + 15) / 16 * 16;
  float* const all_sums = partial_sums(parts.count * stride);
#pragma omp parallel for schedule(static) if (N * H * width > kWorthThreads)
  for (std::int64_t p = 0; p < parts.count; ++p) {
    float* const sums = all_sums + p * stride;
    std::fill(sums, sums + width, 0.f);
    for (std::int64_t n = parts.first(p); n < parts.end(p); ++n)
      for (std::int64_t h = 0; h < H; ++h) group(n, h, sums);
  }
  if (parts.count > 0) add_up(all_sums, parts.count, stride);
}

template <typename T>
void rms_norm_typed(const RmsNorm& a) {
  const std::int64_t D = a.g_D.cols, H = a.r_NH.cols;
  const Rows<const T> x(a.x_ND), g(a.g_D);
  const Rows<T> y(a.y_ND);
  const Rows<float> r(a.r_NH);
  for_groups(a.x_ND.rows, H, D, [&](std::int64_t n, std::int64_t h) {
    rms_norm_group(x[n] + h * D, g[0], y[n] + h * D, r[n] + h, D, a.eps);
  });
}

template <bool kAccumulate, typename T>
void rms_norm_backward_typed(const RmsNormGrad& a) {
  const std::int64_t D = a.g_D.cols, H = a.r_NH.cols;
  const Rows<const T> x(a.x_ND), g(a.g_D), dy(a.dy_ND);
  const Rows<T> dx(a.dx_ND);
  const Rows<const float> r(a.r_NH);
  const Rows<float> dg(a.dg_D);
  const auto group = [&]<bool kSums>(std::bool_constant<kSums>, std::int64_t n, std::int64_t h, float* sums) {
    rms_norm_group_backward<kAccumulate, kSums>(x[n] + h * D, g[0], dy[n] + h * D, dx[n] + h * D, sums,
                                                r[n][h], D);
  };
  if (!dg)
    return for_groups(a.x_ND.rows, H, D,
                      [&](std::int64_t n, std::int64_t h) { group(std::false_type(), n, h, nullptr); });
  for_groups_with_sums(
      a.x_ND.rows, H, D,
      [&](std::int64_t n, std::int64_t h, float* sums) { group(std::true_type(), n, h, sums); },
      [&](float* sums, std::int64_t parts, std::int64_t stride) {
        add_parts(sums, parts, stride, D, dg[0]);
      });
}

template <typename T>
void layer_norm_typed(const LayerNorm& a) {
  const std::int64_t D = a.g_D.cols, H = a.r_NH.cols;
  const Rows<const T> x(a.x_ND), g(a.g_D), b(a.b_D);
  const Rows<T> y(a.y_ND);
  const Rows<float> mean(a.mean_NH), r(a.r_NH);
  for_groups(a.x_ND.rows, H, D, [&](std::int64_t n, std::int64_t h) {
    layer_norm_group(x[n] + h * D, g[0], b[0], y[n] + h * D, mean[n] + h, r[n] + h, D, a.eps);
  });
}

template <bool kAccumulate, typename T>
void layer_norm_backward_typed(const LayerNormGrad& a) {
  const std::int64_t D = a.g_D.cols, H = a.r_NH.cols;
  const Rows<const T> x(a.x_ND), g(a.g_D), dy(a.dy_ND);
  const Rows<T> dx(a.dx_ND);
  const Rows<const float> mean(a.mean_NH), r(a.r_NH);
  const Rows<float> dg(a.dg_D), db(a.db_D);
  const auto group = [&]<bool kSums>(std::bool_constant<kSums>, std::int64_t n, std::int64_t h, float* sums) {
    layer_norm_group_backward<kAccumulate, kSums>(x[n] + h * D, g[0], dy[n] + h * D, dx[n] + h * D, sums,
                                                  kSums ? sums + D : nullptr, mean[n][h], r[n][h], D);
  };
  if (!dg && !db)
    return for_groups(a.x_ND.rows, H, D,
                      [&](std::int64_t n, std::int64_t h) { group(std::false_type(), n, h, nullptr); });
  for_groups_with_sums(
      a.x_ND.rows, H, 2 * D,
      [&](std::int64_t n, std::int64_t h, float* sums) { group(std::true_type(), n, h, sums); },
      [&](float* sums, std::int64_t parts, std::int64_t stride) {
        if (dg) add_parts(sums, parts, stride, D, dg[0]);
        if (db) add_parts(sums + D, parts, stride, D, db[0]);
      });
}

// What the four kernels have in common: y's shape is x's, g is a vector, saved numbers are one a group.
void require_norm_shapes(const char* kernel, const View& x, const View& g, const View& y, const View& r) {
  require(g && g.rows == 1 && g.cols > 0, kernel, "g must be one row");
  if (r.rows != x.rows || r.cols * g.cols != x.cols)
    fail_contract(kernel, cat("x has ", x.rows, " rows of ", x.cols, " = groups x ", g.cols,
                              " features, but the saved numbers are ", r.rows, " x ", r.cols));
  require(has_shape(y, x.rows, x.cols), kernel, "shapes of x and y (or dx, dy) differ");
}

}  // namespace

void CpuKernels::rms_norm(const RmsNorm& a) {
  require_norm_shapes("rms_norm", a.x_ND, a.g_D, a.y_ND, a.r_NH);
  with_type(a.x_ND.dtype, "rms_norm", [&](auto type) { rms_norm_typed<decltype(type)>(a); });
}

void CpuKernels::rms_norm_backward(const RmsNormGrad& a) {
  require_norm_shapes("rms_norm_backward", a.x_ND, a.g_D, a.dy_ND, a.r_NH);
  require_norm_shapes("rms_norm_backward", a.x_ND, a.g_D, a.dx_ND, a.r_NH);
  require(!a.dg_D || is_vector(a.dg_D, a.g_D.cols), "rms_norm_backward", "shapes of g and dg differ");
  with_type(a.x_ND.dtype, "rms_norm_backward", [&](auto type) {
    using T = decltype(type);
    a.accumulate_dx ? rms_norm_backward_typed<true, T>(a) : rms_norm_backward_typed<false, T>(a);
  });
}

void CpuKernels::layer_norm(const LayerNorm& a) {
  require_norm_shapes("layer_norm", a.x_ND, a.g_D, a.y_ND, a.r_NH);
  require(has_shape(a.mean_NH, a.r_NH.rows, a.r_NH.cols), "layer_norm", "shapes of mean and r differ");
  require(!a.b_D || is_vector(a.b_D, a.g_D.cols), "layer_norm", "shapes of g and b differ");
  with_type(a.x_ND.dtype, "layer_norm", [&](auto type) { layer_norm_typed<decltype(type)>(a); });
}

void CpuKernels::layer_norm_backward(const LayerNormGrad& a) {
  require_norm_shapes("layer_norm_backward", a.x_ND, a.g_D, a.dy_ND, a.r_NH);
  require_norm_shapes("layer_norm_backward", a.x_ND, a.g_D, a.dx_ND, a.r_NH);
  require(has_shape(a.mean_NH, a.r_NH.rows, a.r_NH.cols), "layer_norm_backward",
          "shapes of mean and r differ");
  require((!a.dg_D || is_vector(a.dg_D, a.g_D.cols)) && (!a.db_D || is_vector(a.db_D, a.g_D.cols)),
          "layer_norm_backward", "shapes of g, dg and db differ");
  with_type(a.x_ND.dtype, "layer_norm_backward", [&](auto type) {
    using T = decltype(type);
    a.accumulate_dx ? layer_norm_backward_typed<true, T>(a) : layer_norm_backward_typed<false, T>(a);
  });
}

}  // namespace zt::kernels
