#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

template <typename X, typename Y>
void cast_typed(const Cast& a) {
  const Rows<const X> x(a.x);
  const Rows<Y> y(a.y);
  for_pieces({a.x, a.y}, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const X* const from = x[row] + first;
    Y* const to = y[row] + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = rounded_to<Y>(float(from[i]));
  });
}

template <typename T>
void add_typed(const Add& s) {
  const Rows<const T> a(s.a), b(s.b);
  const Rows<T> y(s.y);
  for_pieces({s.a, s.b, s.y}, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const T *const left = a[row] + first, *const right = b[row] + first;
    T* const sum = y[row] + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = rounded_to<T>(float(left[i]) + float(right[i]));
  });
}

}  // namespace

void CpuKernels::cast(const Cast& a) {
  require(has_shape(a.y, a.x.rows, a.x.cols), "cast", "shapes of x and y differ");
  with_type(a.x.dtype, "cast", [&](auto from) {
    with_type(a.y.dtype, "cast", [&](auto to) { cast_typed<decltype(from), decltype(to)>(a); });
  });
}

void CpuKernels::add(const Add& a) {
  require(has_shape(a.b, a.a.rows, a.a.cols) && has_shape(a.y, a.a.rows, a.a.cols), "add",
          "shapes of a, b and y differ");
  with_type(a.y.dtype, "add", [&](auto type) { add_typed<decltype(type)>(a); });
}

}  // namespace zt::kernels
