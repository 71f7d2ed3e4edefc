#include "kernels/activation.h"

#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"
#include "kernels/vector_math.h"

namespace zt::kernels {
namespace {

constexpr float kRoot = 0.797884560802865f;  // sqrt(2 / pi)
constexpr float kCube = 0.044715f;

// 1/2 (1 + tanh(u)) is the logistic function of 2u, which keeps its relative accuracy where 1 + tanh(u)
// cancels.
inline float gelu(float x) { return x * fast_sigmoid(2.f * kRoot * x * (1.f + kCube * x * x)); }

// Beyond |x| = 10 the slope is 0 or 1 to within 1e-35, and the clamp keeps the products finite.
inline float gelu_slope(float wide) {
  const float x = clamped(wide, -10.f, 10.f);
  const float e = fast_exp(-2.f * kRoot * x * (1.f + kCube * x * x));
  const float s = 1.f / (1.f + e);
  return s + x * (2.f * kRoot) * (1.f + 3.f * kCube * x * x) * s * (e * s);
}

// The logistic function at x and at -x. Below -87 it is 0 to within 1e-37, and the clamp keeps e finite.
struct Silu {
  explicit Silu(float wide) : x(wide < -87.f ? -87.f : wide) {
    const float e = fast_exp(-x);
    s = 1.f / (1.f + e);
    rest = e * s;
  }
  float value() const { return x * s; }
  float slope() const { return s + x * s * rest; }
  float x, s, rest;
};

template <typename T>
void gelu_typed(const Gelu& a) {
  const Rows<const T> x(a.x_NF);
  const Rows<T> y(a.y_NF);
  for_pieces({a.x_NF, a.y_NF}, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const T* const from = x[row] + first;
    T* const to = y[row] + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = rounded_to<T>(gelu(float(from[i])));
  });
}

template <typename T>
void gelu_backward_typed(const GeluGrad& a) {
  const Rows<const T> x(a.x_NF), dy(a.dy_NF);
  const Rows<T> dx(a.dx_NF);
  for_pieces({a.x_NF, a.dy_NF, a.dx_NF}, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const T *const x_F = x[row] + first, *const dy_F = dy[row] + first;
    T* const dx_F = dx[row] + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      dx_F[i] = rounded_to<T>(float(dy_F[i]) * gelu_slope(float(x_F[i])));
  });
}

template <typename T>
void swiglu_typed(const SwiGlu& a) {
  const Rows<const T> gate(a.gate_NF), up(a.up_NF);
  const Rows<T> y(a.y_NF);
  for_pieces({a.gate_NF, a.up_NF, a.y_NF}, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const T *const gate_F = gate[row] + first, *const up_F = up[row] + first;
    T* const y_F = y[row] + first;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      y_F[i] = rounded_to<T>(Silu{float(gate_F[i])}.value() * float(up_F[i]));
  });
}

template <typename T>
void swiglu_backward_typed(const SwiGluGrad& a) {
  const Rows<const T> gate(a.gate_NF), up(a.up_NF), dy(a.dy_NF);
  const Rows<T> dgate(a.dgate_NF), dup(a.dup_NF);
  for_pieces({a.gate_NF, a.up_NF, a.dy_NF, a.dgate_NF, a.dup_NF},
             [&](std::int64_t row, std::int64_t first, std::int64_t count) {
               const T *const gate_F = gate[row] + first, *const up_F = up[row] + first;
               const T* const dy_F = dy[row] + first;
               T *const dgate_F = dgate[row] + first, *const dup_F = dup[row] + first;
#pragma omp simd
               for (std::int64_t i = 0; i < count; ++i) {
                 const Silu gate_silu{float(gate_F[i])};
                 const float u = float(up_F[i]), d = float(dy_F[i]);
                 dgate_F[i] = rounded_to<T>(d * u * gate_silu.slope());
                 dup_F[i] = rounded_to<T>(d * gate_silu.value());
               }
             });
}

bool same_shape(const View& model, std::initializer_list<View> others) {
  return std::all_of(others.begin(), others.end(),
                     [&](const View& v) { return has_shape(v, model.rows, model.cols); });
}

}  // namespace

void CpuKernels::gelu(const Gelu& a) {
  require(same_shape(a.x_NF, {a.y_NF}), "gelu", "shapes of x and y differ");
  with_type(a.x_NF.dtype, "gelu", [&](auto type) { gelu_typed<decltype(type)>(a); });
}

void CpuKernels::gelu_backward(const GeluGrad& a) {
  require(same_shape(a.x_NF, {a.dy_NF, a.dx_NF}), "gelu_backward", "shapes of x, dy and dx differ");
  with_type(a.x_NF.dtype, "gelu_backward", [&](auto type) { gelu_backward_typed<decltype(type)>(a); });
}

void CpuKernels::swiglu(const SwiGlu& a) {
  require(same_shape(a.gate_NF, {a.up_NF, a.y_NF}), "swiglu", "shapes of gate, up and y differ");
  with_type(a.gate_NF.dtype, "swiglu", [&](auto type) { swiglu_typed<decltype(type)>(a); });
}

void CpuKernels::swiglu_backward(const SwiGluGrad& a) {
  require(same_shape(a.gate_NF, {a.up_NF, a.dy_NF, a.dgate_NF, a.dup_NF}), "swiglu_backward",
          "shapes of gate, up, dy, dgate and dup differ");
  with_type(a.gate_NF.dtype, "swiglu_backward", [&](auto type) { swiglu_backward_typed<decltype(type)>(a); });
}

}  // namespace zt::kernels
