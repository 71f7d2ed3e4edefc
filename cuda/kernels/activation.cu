#include "kernels/activation.h"
#include "kernels/cuda_kernels.h"
#include "kernels/elementwise.cuh"

namespace zt::kernels {
namespace {

constexpr float kRoot = 0.797884560802865f;  // sqrt(2 / pi)
constexpr float kCube = 0.044715f;

__device__ inline float clamped_at(float x, float low, float high) {
  x = x < low ? low : x;  // NaN stays NaN
  return x > high ? high : x;
}

// Within 2 ulp, and 0 for denominators beyond 2^126: an exact division would cost more than all else here together.
__device__ inline float quotient(float x, float y) { return __fdividef(x, y); }

// 1/2 (1 + tanh(u)) is the logistic function of 2u, which keeps its relative accuracy where 1 + tanh(u) cancels.
__device__ inline float gelu_of(float x) {
  return quotient(x, 1.f + expf(-2.f * kRoot * x * (1.f + kCube * x * x)));
}

// Beyond |x| = 10 the slope is 0 or 1 to within 1e-35, and the clamp keeps the products finite.
__device__ inline float gelu_slope_of(float wide) {
  const float x = clamped_at(wide, -10.f, 10.f);
  const float e = expf(-2.f * kRoot * x * (1.f + kCube * x * x));
  const float s = quotient(1.f, 1.f + e);
  return s + x * (2.f * kRoot) * (1.f + 3.f * kCube * x * x) * s * (e * s);
}

// The logistic function at x and at -x. Below -87 it is 0 to within 1e-37, and the clamp keeps e finite.
struct Silu {
  __device__ explicit Silu(float wide) : x(wide < -87.f ? -87.f : wide) {
    const float e = expf(-x);
    s = quotient(1.f, 1.f + e);
    rest = e * s;
  }
  __device__ float value() const { return x * s; }
  __device__ float slope() const { return s + x * s * rest; }
  float x, s, rest;
};

template <typename T>
struct GeluOp {
  DeviceRows<const T> x;
  DeviceRows<T> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float v[kVec];
    load(x.at(row, col), count, v);
#pragma unroll
    for (int i = 0; i < kVec; ++i) v[i] = gelu_of(v[i]);
    store(y.at(row, col), count, v);
  }
};

template <typename T>
struct GeluGradOp {
  DeviceRows<const T> x, dy;
  DeviceRows<T> dx;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float v[kVec], d[kVec];
    load(x.at(row, col), count, v);
    load(dy.at(row, col), count, d);
#pragma unroll
    for (int i = 0; i < kVec; ++i) d[i] *= gelu_slope_of(v[i]);
    store(dx.at(row, col), count, d);
  }
};

template <typename T>
struct SwiGluOp {
  DeviceRows<const T> gate, up;
  DeviceRows<T> y;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float g[kVec], u[kVec];
    load(gate.at(row, col), count, g);
    load(up.at(row, col), count, u);
#pragma unroll
    for (int i = 0; i < kVec; ++i) u[i] *= Silu(g[i]).value();
    store(y.at(row, col), count, u);
  }
};

template <typename T>
struct SwiGluGradOp {
  DeviceRows<const T> gate, up, dy;
  DeviceRows<T> dgate, dup;

  template <int kVec>
  __device__ void apply(std::int64_t row, std::int64_t col, int count) const {
    float g[kVec], u[kVec], d[kVec];
    load(gate.at(row, col), count, g);
    load(up.at(row, col), count, u);
    load(dy.at(row, col), count, d);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const Silu silu(g[i]);
      g[i] = d[i] * u[i] * silu.slope();
      u[i] = d[i] * silu.value();
    }
    store(dgate.at(row, col), count, g);
    store(dup.at(row, col), count, u);
  }
};

void require_alike(const char* kernel, std::initializer_list<View> views, const char* what) {
  const View& model = *views.begin();
  for (const View& v : views)
    require(has_shape(v, model.rows, model.cols) && v.dtype == model.dtype, kernel, what);
}

}  // namespace

void CudaKernels::gelu(const Gelu& a) {
  require_alike("gelu", {a.x_NF, a.y_NF}, "shapes of x and y differ");
  with_device_type(a.x_NF.dtype, "gelu", [&](auto type) {
    using T = decltype(type);
    launch_elements<kWidest<T>>("gelu", GeluOp<T>{DeviceRows<const T>(a.x_NF), DeviceRows<T>(a.y_NF)},
                                {a.x_NF, a.y_NF});
  });
}

void CudaKernels::gelu_backward(const GeluGrad& a) {
  require_alike("gelu_backward", {a.x_NF, a.dy_NF, a.dx_NF}, "shapes of x, dy and dx differ");
  with_device_type(a.x_NF.dtype, "gelu_backward", [&](auto type) {
    using T = decltype(type);
    using In = DeviceRows<const T>;
    launch_elements<kWidest<T>>("gelu_backward",
                                GeluGradOp<T>{In(a.x_NF), In(a.dy_NF), DeviceRows<T>(a.dx_NF)},
                                {a.x_NF, a.dy_NF, a.dx_NF});
  });
}

void CudaKernels::swiglu(const SwiGlu& a) {
  require_alike("swiglu", {a.gate_NF, a.up_NF, a.y_NF}, "shapes of gate, up and y differ");
  with_device_type(a.gate_NF.dtype, "swiglu", [&](auto type) {
    using T = decltype(type);
    using In = DeviceRows<const T>;
    launch_elements<kWidest<T>>("swiglu", SwiGluOp<T>{In(a.gate_NF), In(a.up_NF), DeviceRows<T>(a.y_NF)},
                                {a.gate_NF, a.up_NF, a.y_NF});
  });
}

void CudaKernels::swiglu_backward(const SwiGluGrad& a) {
  require_alike("swiglu_backward", {a.gate_NF, a.up_NF, a.dy_NF, a.dgate_NF, a.dup_NF},
                "shapes of gate, up, dy, dgate and dup differ");
  with_device_type(a.gate_NF.dtype, "swiglu_backward", [&](auto type) {
    using T = decltype(type);
    using In = DeviceRows<const T>;
    using Out = DeviceRows<T>;
    launch_elements<kWidest<T>>(
        "swiglu_backward",
        SwiGluGradOp<T>{In(a.gate_NF), In(a.up_NF), In(a.dy_NF), Out(a.dgate_NF), Out(a.dup_NF)},
        {a.gate_NF, a.up_NF, a.dy_NF, a.dgate_NF, a.dup_NF});
  });
}

}  // namespace zt::kernels
