#include "kernels/rope.h"

#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

template <typename T>
void rotate(T* x_d, const float* cos_d2, const float* sin_d2, float sign, std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float c = cos_d2[i], s = sign * sin_d2[i];
    const float low = float(x_d[i]), high = float(x_d[i + half]);
    x_d[i] = rounded_to<T>(low * c - high * s);
    x_d[i + half] = rounded_to<T>(high * c + low * s);
  }
}

template <typename T>
void rope_typed(const Rope& a) {
  const std::int64_t N = a.x_NHd.rows, d = a.head_size, H = a.x_NHd.cols / d;
  const Rows<T> x(a.x_NHd);
  const Rows<const float> cosines(a.cos_Pd2), sines(a.sin_Pd2);
  const std::int32_t* const positions_N = a.positions_N.as<std::int32_t>();
  const float sign = a.inverse ? -1.f : 1.f;
#pragma omp parallel for schedule(static) if (N * H * d > kWorthThreads)
  for (std::int64_t n = 0; n < N; ++n) {
    const float *const cos_d2 = cosines[positions_N[n]], *const sin_d2 = sines[positions_N[n]];
    for (std::int64_t h = 0; h < H; ++h) rotate(x[n] + h * d, cos_d2, sin_d2, sign, d / 2);
  }
}

}  // namespace

void CpuKernels::rope(const Rope& a) {
  require(a.head_size > 0 && a.head_size % 2 == 0 && a.x_NHd.cols % a.head_size == 0, "rope",
          "head_size must be even and divide the columns of x");
  require(is_vector(a.positions_N, a.x_NHd.rows), "rope", "needs one position for each row of x");
  require(a.cos_Pd2.cols == a.head_size / 2 && has_shape(a.sin_Pd2, a.cos_Pd2.rows, a.cos_Pd2.cols), "rope",
          "tables of cos and sin need head_size / 2 columns");
  with_type(a.x_NHd.dtype, "rope", [&](auto type) { rope_typed<decltype(type)>(a); });
}

}  // namespace zt::kernels
