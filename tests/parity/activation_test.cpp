#include "reference/activation.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/vector_math.h"
#include "parity/parity.h"

namespace zt::parity {
namespace {

// x in [-12, 12], the part where the functions bend, in steps; and the far ends.
void fill_arguments(Guarded& x) {
  const double end = x.view().dtype == Dtype::f16 ? 1e4 : 1e15;  // f16: times a gradient still below 65504
  const Vec far = {0.0, -0.0, 30, -30, 88, -88, 100, -100, 1e4, -1e4, end, -end, 1e-30, -1e-30};
  Vec values;
  for (std::int64_t i = 0; i < x.size(); ++i)
    values.push_back(i % 3 == 0 && std::size_t(i / 3) < far.size()
                         ? far[std::size_t(i / 3)]
                         : std::fmod(double(i) * 0.7390851, 24) - 12);
  x.assign(values);
}

Vec map(const Vec& x, double (*f)(double)) {
  Vec out;
  for (const double v : x) out.push_back(f(v));
  return out;
}

Vec times(const Vec& a, const Vec& b) {
  Vec out = a;
  for (std::size_t i = 0; i < a.size(); ++i) out[i] *= b[i];
  return out;
}

// The argument of the exponential is off by a few roundings, which moves y by |x u s (1 - s)| of them at
// most; that product stays below 1/2.
Bound value_bound(Dtype dtype) { return {dtype, 12, 0.5, "rounding of the exponential's argument"}; }
// The slope's derivative times the argument stays below 2.
Bound slope_bound(Dtype dtype, double size) { return {dtype, 16, 2 * size, "as the value, times |dy|"}; }

template <typename F>
void sweep(F check) {
  for (const Dtype dtype : formats())
    for (const std::int64_t F_ : ragged())
      for (const std::int64_t gap : {0, 9}) {
        INFO(name(dtype), " F ", F_, " gap ", gap);
        check(dtype, F_ == 257 ? 70 : 3, F_, gap);
      }
}

}  // namespace

void check_gelu(kernels::Kernels& k) {
  sweep([&](Dtype dtype, std::int64_t N, std::int64_t F, std::int64_t gap) {
    Guarded x(dtype, N, F, gap), y(dtype, N, F, gap);
    fill_arguments(x);
    const Vec exact = map(x.values(), reference::gelu);
    k.gelu({x, y});
    check_close("y", y, exact, value_bound(dtype));
    k.gelu({x, x});
    check_close("y over x", x, exact, value_bound(dtype));
  });
}

void check_gelu_backward(kernels::Kernels& k) {
  sweep([&](Dtype dtype, std::int64_t N, std::int64_t F, std::int64_t gap) {
    Guarded x(dtype, N, F, gap), dy(dtype, N, F, gap), dx(dtype, N, F, gap);
    fill_arguments(x);
    dy.fill_normal(1);
    const Vec exact = times(dy.values(), map(x.values(), reference::gelu_slope));
    const Bound bound = slope_bound(dtype, largest(dy.values()));
    k.gelu_backward({x, dy, dx});
    check_close("dx", dx, exact, bound);
    Guarded over_x = x, over_dy = dy;
    k.gelu_backward({over_x, dy, over_x});
    check_close("dx over x", over_x, exact, bound);
    k.gelu_backward({x, over_dy, over_dy});
    check_close("dx over dy", over_dy, exact, bound);
  });
}

void check_swiglu(kernels::Kernels& k) {
  sweep([&](Dtype dtype, std::int64_t N, std::int64_t F, std::int64_t gap) {
    // gate and up are halves of one product's columns, as the layer has them.
    Guarded both(dtype, N, 2 * F, gap), y(dtype, N, F, gap);
    both.fill_normal(1, 3.0);
    Guarded gate(dtype, N, F), up(dtype, N, F);
    for (std::int64_t n = 0; n < N; ++n)
      for (std::int64_t f = 0; f < F; ++f) {
        gate.set(n, f, both.get(n, f));
        up.set(n, f, both.get(n, F + f));
      }
    const Vec exact = times(map(gate.values(), reference::silu), up.values());
    k.swiglu({both.view().columns(0, F), both.view().columns(F, F), y});
    check_close("y", y, exact, {dtype, 12, largest(up.values()), "as gelu, times |up|"});
  });
}

void check_swiglu_backward(kernels::Kernels& k) {
  sweep([&](Dtype dtype, std::int64_t N, std::int64_t F, std::int64_t gap) {
    Guarded gate(dtype, N, F, gap), up(dtype, N, F, gap), dy(dtype, N, F, gap), dgate(dtype, N, F, gap),
        dup(dtype, N, F, gap);
    fill_arguments(gate);
    up.fill_normal(1);
    dy.fill_normal(2);
    const Vec dgate_exact = times(times(dy.values(), up.values()), map(gate.values(), reference::silu_slope));
    const Vec dup_exact = times(dy.values(), map(gate.values(), reference::silu));
    const double size = largest(dy.values()) * (1 + largest(up.values()));
    k.swiglu_backward({gate, up, dy, dgate, dup});
    check_close("dgate", dgate, dgate_exact, slope_bound(dtype, size));
    check_close("dup", dup, dup_exact, slope_bound(dtype, size));
    k.swiglu_backward({gate, up, dy, gate, up});
    check_close("dgate over gate", gate, dgate_exact, slope_bound(dtype, size));
    check_close("dup over up", up, dup_exact, slope_bound(dtype, size));
  });
}

namespace {

TEST_CASE("activation: the reference's slopes are the finite differences of its values") {
  for (double x = -6; x <= 6; x += 0.37) {
    CAPTURE(x);
    const double h = 1e-5;
    CHECK((reference::gelu(x + h) - reference::gelu(x - h)) / (2 * h) ==
          doctest::Approx(reference::gelu_slope(x)).epsilon(1e-8));
    CHECK((reference::silu(x + h) - reference::silu(x - h)) / (2 * h) ==
          doctest::Approx(reference::silu_slope(x)).epsilon(1e-8));
  }
}

TEST_CASE("activation: NaN and infinity are not hidden") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  for (const Backend& backend : backends()) {
    Guarded x(Dtype::f32, 1, 2), y(Dtype::f32, 1, 2), dy(Dtype::f32, 1, 2);
    x.assign({nan, inf});
    dy.fill(1);
    const auto k = backend.make();
    k->gelu({x, y});
    check_equal("gelu", y, {nan, inf});
    k->gelu_backward({x, dy, y});
    CHECK(std::isnan(y.get(0, 0)));
    k->swiglu({x, dy, y});
    check_equal("silu", y, {nan, inf});
    dy.fill(nan);
    k->gelu_backward({x, dy, y});
    check_equal("gelu'", y, {nan, nan});
  }
}

// Distance of `actual` from the exact value in units of the spacing of f32 there (of 2^-149 when subnormal).
double ulps(float actual, double exact) {
  if (double(actual) == exact || (std::isnan(actual) && std::isnan(exact))) return 0;
  if (std::isinf(actual)) return exact > 0x1.fffffep127 ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(double(actual) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST_CASE("vector math: the exponential is within 1.02 ulp of e^x for floats of every size") {
  double worst = 0;
  float worst_at = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32);
       bits += 1021) {  // a prime: all low bits occur
    const float x = std::bit_cast<float>(std::uint32_t(bits));
    const double distance = ulps(kernels::fast_exp(x), std::exp(double(x)));
    if (!(distance <= worst)) worst = distance, worst_at = x;
  }
  CAPTURE(worst_at);
  CHECK(worst <= 1.02);
}

TEST_CASE("vector math: the exponential's ends are 0, 1, infinity and NaN") {
  using kernels::fast_exp;
  const float inf = INFINITY;
  CHECK(fast_exp(0.f) == 1.f);
  CHECK(fast_exp(-0.f) == 1.f);
  CHECK(fast_exp(inf) == inf);
  CHECK(fast_exp(-inf) == 0.f);
  CHECK(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
  CHECK(fast_exp(0x1.62e42ep6f) < inf);   // the largest argument with a finite result
  CHECK(fast_exp(0x1.62e430p6f) == inf);  // its successor
  CHECK(fast_exp(-103.f) == 0x1p-149f);   // e^-103 = 1.34 2^-149
  CHECK(fast_exp(-105.f) == 0.f);
}

TEST_CASE("vector math: the logistic function is within 3 ulp where its result is normal") {
  double worst = 0;
  for (float x = -87.f; x < 90.f; x += 0.00137f)
    worst = std::max(worst, ulps(kernels::fast_sigmoid(x), 1 / (1 + std::exp(-double(x)))));
  CHECK(worst <= 3.0);
}

}  // namespace
}  // namespace zt::parity
