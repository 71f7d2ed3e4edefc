#include "reference/adamw.h"

#include <cmath>
#include <limits>

#include "parity/parity.h"
#include "reference/rounding.h"

namespace zt::parity {
namespace {

kernels::AdamW settings() {
  kernels::AdamW a;
  a.lr = 1e-2f, a.beta1 = 0.9f, a.beta2 = 0.95f, a.eps = 1e-8f, a.decay = 0.1f, a.grad_scale = 0.5f;
  return a;
}

Vec rounded(Dtype dtype, const Vec& x) {
  Vec out;
  for (const double v : x) out.push_back(reference::rounded(dtype, v));
  return out;
}

// Ten steps with a fresh gradient each, beside the fp64 loop.
void check_ten_steps(kernels::Kernels& k, std::int64_t n, Guarded w) {
  Guarded p(Dtype::f32, 1, n), m(Dtype::f32, 1, n), v(Dtype::f32, 1, n), g(Dtype::f32, 1, n);
  p.fill_normal(1);
  m.fill(0);
  v.fill(0);
  kernels::AdamW a = settings();
  reference::AdamWState exact{p.values(), m.values(), v.values()};
  const reference::AdamWSettings s{double(a.lr),  double(a.beta1), double(a.beta2),
                                   double(a.eps), double(a.decay), double(a.grad_scale)};
  a.p_n = p, a.m_n = m, a.v_n = v, a.g_n = g, a.w_n = w;
  for (a.t = 1; a.t <= 10; ++a.t) {
    g.fill_normal(std::uint64_t(100 + a.t));
    k.adamw(a);
    reference::adamw(exact, g.values(), s, int(a.t));
  }
  const Bound bound{Dtype::f32, 60, 1, "ten steps of six operations on numbers up to about 1"};
  check_close("p", p, exact.p, bound);
  check_close("m", m, exact.m, bound);
  check_close("v", v, exact.v, bound);
  CHECK(g.damage() == "");
  if (w.size() > 0) check_equal("w", w, rounded(w.view().dtype, p.values()));
}

}  // namespace

void check_adamw(kernels::Kernels& k) {
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 65, 4095, 4096, 4097, 20000}) {
    CAPTURE(n);
    check_ten_steps(k, n, Guarded());
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32})
      check_ten_steps(k, n, Guarded(dtype, 1, n));
  }
}

void check_sum_squares(kernels::Kernels& k) {
  for (const std::int64_t n : {1, 2, 3, 15, 17, 257, 4095, 4097, 300001}) {
    CAPTURE(n);
    Guarded x(Dtype::f32, 1, n);
    x.fill_normal(1, 10.0);
    long double exact = 0;  // 64 bits of significand: the judge's own roundings don't count
    for (const double value : x.values()) exact += static_cast<long double>(value) * value;
    double first = 0;
    for (const int threads : {1, 2, 3, 5}) {
      CAPTURE(threads);
      double sum = -1;
      with_threads(threads, [&] { k.sum_squares({x, &sum}); });
      if (threads == 1) first = sum;
      CHECK(sum == first);
    }
    // One of 64 parts, on 4 lanes: n / 256 roundings of 2^-53, and some to combine them.
    CHECK(std::abs(first / double(exact) - 1) < (40 + double(n) / 256) * 0x1p-53);
    CHECK(x.damage() == "");
  }
}

namespace {

TEST_CASE("adamw: the first step is the learning rate times the gradient's sign, whatever its size") {
  // m / (1 - b1) = g and sqrt(v / (1 - b2)) = |g|, so p moves by lr (Kingma & Ba 2015, section 2.1).
  for (const Backend& backend : backends()) {
    Guarded p(Dtype::f32, 1, 4), m(Dtype::f32, 1, 4), v(Dtype::f32, 1, 4), g(Dtype::f32, 1, 4);
    p.fill(1);
    m.fill(0);
    v.fill(0);
    g.assign({1e-6, -1e-6, 3, -1e10});
    kernels::AdamW a{p, m, v, g, View()};
    a.lr = 0.25f, a.eps = 0.f;
    backend.make()->adamw(a);
    check_close("p", p, {0.75, 1.25, 0.75, 1.25}, {Dtype::f32, 8, 0, "a chain of eight roundings"});
  }
}

TEST_CASE("adamw: decay shrinks weights by lr decay a step, apart from the gradient") {
  for (const Backend& backend : backends()) {
    Guarded p(Dtype::f32, 1, 2), m(Dtype::f32, 1, 2), v(Dtype::f32, 1, 2), g(Dtype::f32, 1, 2);
    p.assign({2, -4});
    for (Guarded* zero : {&m, &v, &g}) zero->fill(0);
    kernels::AdamW a{p, m, v, g, View()};
    a.lr = 0.5f, a.decay = 0.5f;
    backend.make()->adamw(a);
    check_equal("p", p, {1.5, -3});
  }
}

TEST_CASE("adamw: steps below half an ulp of the bf16 weight are kept in the master") {
  // Weight 1, lr 1e-4, ten steps of one sign: the master is 0.999; the nearest bf16 is still 1
  // (deepspeedai/DeepSpeed#4904). Ten more times as many and the weight has moved too.
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded p(Dtype::f32, 1, 1), m(Dtype::f32, 1, 1), v(Dtype::f32, 1, 1), g(Dtype::f32, 1, 1),
        w(Dtype::bf16, 1, 1);
    p.fill(1);
    m.fill(0);
    v.fill(0);
    g.fill(0.3);
    kernels::AdamW a{p, m, v, g, w};
    a.lr = 1e-4f;
    for (a.t = 1; a.t <= 10; ++a.t) k->adamw(a);
    CHECK(p.get(0, 0) == doctest::Approx(0.999).epsilon(1e-6));
    CHECK(w.get(0, 0) == 1.0);
    for (; a.t <= 100; ++a.t) k->adamw(a);
    CHECK(p.get(0, 0) == doctest::Approx(0.99).epsilon(1e-6));
    CHECK(w.get(0, 0) == 0.98828125);  // 253 / 256, the bf16 nearest to 0.99
  }
}

TEST_CASE("sum of squares: one value that is not finite makes the sum not finite, wherever it stands") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const double bad : {double(INFINITY), double(-INFINITY), std::numeric_limits<double>::quiet_NaN()}) {
      for (const std::int64_t at : {0, 17, 4096, 8999}) {
        Guarded x(Dtype::f32, 1, 9000);
        x.fill(1).set(0, at, bad);
        double sum = 0;
        k->sum_squares({x, &sum});
        CHECK_FALSE(std::isfinite(sum));
      }
    }
  }
}

TEST_CASE("sum of squares: squares beyond fp32 are no infinity, and nothing sums to 0") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded x(Dtype::f32, 1, 40);
    x.fill(0x1p100);
    double sum = 0;
    k->sum_squares({x, &sum});
    CHECK(sum == 40 * 0x1p200);
    k->sum_squares({x.view().columns(0, 0), &sum});
    CHECK(sum == 0);
  }
}

}  // namespace
}  // namespace zt::parity
