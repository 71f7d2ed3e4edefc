#include "kernels/adamw.h"

#include <algorithm>
#include <cmath>

#include "kernels/adamw_factors.h"
#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"
#include "tensor/convert.h"

namespace zt::kernels {
namespace {

template <typename G>
void update(AdamWFactors f, float* p_n, float* m_n, float* v_n, const G* g_n, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = f.grad_scale * float(g_n[i]);
    const float m = f.beta1 * m_n[i] + f.fresh1 * g;
    const float v = f.beta2 * v_n[i] + f.fresh2 * g * g;
    m_n[i] = m;
    v_n[i] = v;
    p_n[i] = f.keep * p_n[i] - f.step * m / (std::sqrt(v) * f.root2 + f.eps);
  }
}

template <typename W>
void publish(const float* p_n, W* w_n, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) w_n[i] = rounded_to<W>(p_n[i]);
}

template <typename G, typename W>
void adamw_typed(const AdamW& a) {
  const AdamWFactors factors(a);
  const Rows<float> p(a.p_n), m(a.m_n), v(a.v_n);
  const Rows<const G> g(a.g_n);
  const Rows<W> w(a.w_n);
  for_pieces({a.p_n}, [&](std::int64_t, std::int64_t first, std::int64_t count) {
    update(factors, p[0] + first, m[0] + first, v[0] + first, g[0] + first, count);
    if (w) publish(p[0] + first, w[0] + first, count);  // p is still in the first-level cache
  });
}

}  // namespace

void CpuKernels::adamw(const AdamW& a) {
  const std::int64_t n = a.p_n.size();
  require(is_vector(a.p_n, n) && is_vector(a.m_n, n) && is_vector(a.v_n, n) && is_vector(a.g_n, n) &&
              (!a.w_n || is_vector(a.w_n, n)),
          "adamw", "p, m, v, g and w must be vectors of one length");
  require(a.t >= 1, "adamw", "t counts from 1");
  with_type(a.w_n.dtype, "adamw", [&](auto type) {
    a.g_n.dtype == Dtype::bf16 ? adamw_typed<bf16, decltype(type)>(a) : adamw_typed<float, decltype(type)>(a);
  });
}

namespace {

// In parts that do not depend on the number of threads, which are added in order.
double sum_of_squares(const float* x_n, std::int64_t n) {
  const Parts parts(n, 4096);
  double sums[Parts::kParts] = {};
#pragma omp parallel for schedule(static) if (n > kWorthThreads)
  for (std::int64_t p = 0; p < parts.count; ++p) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = parts.first(p); i < parts.end(p); ++i) sum += double(x_n[i]) * double(x_n[i]);
    sums[p] = sum;
  }
  double total = 0;
  for (std::int64_t p = 0; p < parts.count; ++p) total += sums[p];
  return total;
}

}  // namespace

void CpuKernels::sum_squares(const SumSquares& a) {
  const std::int64_t n = a.x_n.size();
  require(a.result != nullptr && is_vector(a.x_n, n), "sum_squares",
          "takes a vector and a place for its result");
  if (a.x_n.dtype == Dtype::f32) {
    *a.result = sum_of_squares(a.x_n.as<const float>(), n);
    return;
  }
  // Widened so many at a time.
  constexpr std::int64_t kPiece = 1 << 15;
  widened_.resize(std::size_t(kPiece));
  const bf16* const x_n = a.x_n.as<const bf16>();
  *a.result = 0;
  for (std::int64_t first = 0; first < n; first += kPiece) {
    const std::int64_t count = std::min(kPiece, n - first);
    convert(x_n + first, Dtype::bf16, widened_.data(), Dtype::f32, count);
    *a.result += sum_of_squares(widened_.data(), count);
  }
}

}  // namespace zt::kernels
