#include "kernels/cuda_kernels.h"
#include "kernels/elementwise.cuh"

namespace zt::kernels {
namespace {

template <typename X, typename Y>
struct CastOp {
  DeviceRows<const X> x;
  DeviceRows<Y> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float v[kVec];
    load(x.at(row, col), count, v);
    store(y.at(row, col), count, v);
  }
};

template <typename T, typename B>
struct AddOp {
  DeviceRows<const T> a;
  DeviceRows<const B> b;
  DeviceRows<T> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float left[kVec], right[kVec];
    load(a.at(row, col), count, left);
    load(b.at(row, col), count, right);
#pragma unroll
    for (int i = 0; i < kVec; ++i) left[i] += right[i];
    store(y.at(row, col), count, left);
  }
};

template <typename T, typename B>
void add_typed(const Add& s) {
  launch_elements<kWidest<T, B>>(
      "add", AddOp<T, B>{DeviceRows<const T>(s.a), DeviceRows<const B>(s.b), DeviceRows<T>(s.y)},
      {s.a, s.b, s.y});
}

}  // namespace

void CudaKernels::cast(const Cast& a) {
  require(has_shape(a.y, a.x.rows, a.x.cols), "cast", "shapes of x and y differ");
  with_device_type(a.x.dtype, "cast", [&](auto from) {
    with_device_type(a.y.dtype, "cast", [&](auto to) {
      using X = decltype(from);
      using Y = decltype(to);
      launch_elements<kWidest<X, Y>>("cast", CastOp<X, Y>{DeviceRows<const X>(a.x), DeviceRows<Y>(a.y)},
                                     {a.x, a.y});
    });
  });
}

void CudaKernels::add(const Add& a) {
  require(has_shape(a.b, a.a.rows, a.a.cols) && has_shape(a.y, a.a.rows, a.a.cols), "add",
          "shapes of a, b and y differ");
  require(a.a.dtype == a.y.dtype && (a.b.dtype == a.y.dtype || a.b.dtype == Dtype::f32), "add",
          "a and y must be of one format, b of theirs or f32");
  with_device_type(a.y.dtype, "add", [&](auto type) {
    using T = decltype(type);
    if (a.b.dtype == a.y.dtype)
      add_typed<T, T>(a);
    else
      add_typed<T, float>(a);
  });
}

}  // namespace zt::kernels
