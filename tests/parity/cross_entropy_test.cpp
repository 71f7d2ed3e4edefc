#include "reference/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "parity/parity.h"

namespace zt::parity {
namespace {

struct Case {
  Dtype dtype;
  std::int64_t N, D, V, C, gap;
  int unsupervised;  // every how many tokens one is not supervised; 1: all
};

struct Buffers {
  explicit Buffers(const Case& c)
      : x(c.dtype, c.N, c.D, c.gap),
        w(c.dtype, c.V, c.D),
        targets(Dtype::i32, 1, c.N),
        dx(c.dtype, c.N, c.D, c.gap),
        dw(Dtype::f32, c.V, c.D),
        losses(Dtype::f32, 1, c.N),
        logits(Dtype::f32, c.C, c.V),
        dlogits(c.dtype, c.C, c.V) {
    x.fill_normal(1);
    w.fill_normal(2);
    targets.fill_ids(3, c.V);
    dw.fill_normal(4);
    for (std::int64_t n = 0; n < c.N; ++n)
      if (c.unsupervised > 0 && n % c.unsupervised == 0) targets.set(0, n, n % 2 == 0 ? -1 : -100);
  }
  kernels::CrossEntropyHead call(float grad_scale) {
    return {x, w, targets, grad_scale, dx, dw, losses, &loss, logits, dlogits};
  }
  Guarded x, w, targets, dx, dw, losses, logits, dlogits;
  double loss = NAN;
};

// Of a softmax's logits: products of D terms; then exp, log and sums that together add about 8 roundings.
double logit_error(const Case& c, const Buffers& b) {
  return (sum_steps(c.D) + 8) * (double(c.D) * largest(b.x.values()) * largest(b.w.values()) + 1);
}

void check_case(kernels::Kernels& k, const Case& c) {
  INFO(name(c.dtype), " N ", c.N, " D ", c.D, " V ", c.V, " C ", c.C, " unsupervised ", c.unsupervised);
  constexpr float kGradScale = 0.37f;
  Buffers b(c);
  Vec dw = b.dw.values();
  const reference::Head exact =
      reference::cross_entropy_head(b.x.values(), b.w.values(), b.targets.values(), double(kGradScale), c.D);
  for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += exact.dw[i];
  k.cross_entropy_head(b.call(kGradScale));

  // dlogits are probabilities with the relative error of their exponent, rounded to x's format.
  const double error = logit_error(c, b), rounding = unit_of(c.dtype) * 0x1p24;
  const double steps = 2 * error + rounding;
  check_close("losses", b.losses, exact.losses, {Dtype::f32, 2 * error, 1, "the logits' error, twice"});
  CHECK(b.loss == doctest::Approx(exact.loss).epsilon(2 * error * 0x1p-24 * double(c.N)));
  check_close("dx", b.dx, exact.dx,
              {c.dtype, steps + sum_steps(c.V), 2 * kGradScale * largest(b.w.values()),
               "probabilities sum to 1, so the terms' magnitudes sum to at most 2 max |w|"});
  check_close("dw", b.dw, dw,
              {Dtype::f32, steps + double(c.N), double(c.N) * largest(b.x.values()) + 5,
               "a sum over N tokens of probabilities times x"});
}

}  // namespace

void check_cross_entropy_head(kernels::Kernels& k) {
  for (const Dtype dtype : formats()) {
    for (const std::int64_t V : {1, 2, 15, 16, 17, 65, 257, 1500})
      for (const std::int64_t C : {1, 3, 8}) check_case(k, {dtype, 7, 5, V, C, C == 3 ? 4 : 0, 3});
    check_case(k, {dtype, 70, 33, 100, 32, 0, 0});
    check_case(k, {dtype, 9, 3, 20, 2, 0, 1});
    check_case(k, {dtype, 1, 1, 10, 64, 0, 0});
  }
}

namespace {

TEST_CASE("cross entropy: the reference's gradients are the finite differences of its loss") {
  Buffers b({Dtype::f32, 5, 4, 6, 2, 0, 3});
  const Vec x = b.x.values(), w = b.w.values(), t = b.targets.values();
  const auto exact = reference::cross_entropy_head(x, w, t, 1, 4);
  const auto loss = [&](const Vec& x_, const Vec& w_) {
    return reference::cross_entropy_head(x_, w_, t, 1, 4).loss;
  };
  const Bound near{Dtype::i32, 1, 100, "truncation and cancellation of central differences, about 1e-9"};
  CHECK(differs(finite_differences([&](const Vec& v) { return loss(v, w); }, x), exact.dx, near) == "");
  CHECK(differs(finite_differences([&](const Vec& v) { return loss(x, v); }, w), exact.dw, near) == "");
}

TEST_CASE("cross entropy: a zero head has the loss ln V for each supervised token") {
  for (const Backend& backend : backends()) {
    for (const Dtype dtype : formats()) {
      for (const std::int64_t V : {1, 2, 65, 1500}) {
        Buffers b({dtype, 12, 8, V, 5, 0, 4});
        b.w.fill(0);
        backend.make()->cross_entropy_head(b.call(1.f));
        CHECK(b.loss == doctest::Approx(9 * std::log(double(V))).epsilon(1e-7));
        check_equal("dx", b.dx, Vec(12 * 8, 0));
      }
    }
  }
}

TEST_CASE("cross entropy: chunks without a supervised token give zeros and touch no weight") {
  for (const Backend& backend : backends()) {
    Buffers b({Dtype::f32, 6, 3, 10, 2, 2, 1});
    b.w.fill(NAN);
    const Vec dw = b.dw.values();
    backend.make()->cross_entropy_head(b.call(1.f));
    CHECK(b.loss == 0);
    check_equal("dx", b.dx, Vec(18, 0));
    check_equal("dw", b.dw, dw);
    check_equal("losses", b.losses, Vec(6, 0));
  }
}

TEST_CASE("cross entropy: evaluation gives the loss of training, and a frozen head the same dx") {
  for (const Backend& backend : backends()) {
    for (const Dtype dtype : formats()) {
      const auto k = backend.make();
      Buffers train({dtype, 11, 6, 40, 4, 0, 5}), other({dtype, 11, 6, 40, 4, 0, 5});
      k->cross_entropy_head(train.call(0.5f));
      kernels::CrossEntropyHead call = other.call(0.5f);
      call.dw_VD = View();
      k->cross_entropy_head(call);
      CHECK(other.loss == train.loss);
      check_equal("dx", other.dx, train.dx.values());
      other.loss = NAN;
      call.dx_ND = call.dlogits_CV = call.loss_N = View();
      k->cross_entropy_head(call);
      CHECK(other.loss == train.loss);
    }
  }
}

// Eight tokens, V = 4, all weights 0: dlogits are S / tokens times 1/4, or -3/4 at the target.
Buffers flat_head(kernels::Kernels& k, Dtype dtype, float grad_scale) {
  Buffers b({dtype, 8, 1, 4, 4, 0, 0});
  b.x.fill(1);
  b.w.fill(0);
  b.dw.fill(0);
  b.targets.fill(2);
  k.cross_entropy_head(b.call(grad_scale));
  return b;
}

TEST_CASE("cross entropy: a loss scale carries what float16 alone loses, and infinities show one too large") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    const Vec exact = {0.25 * 8, 0.25 * 8, -0.75 * 8, 0.25 * 8};
    const auto scaled = [&](double factor) {
      Vec dw = exact;
      for (double& x : dw) x *= factor;
      return dw;
    };
    // 2^-24 / 4 is below half of float16's smallest number; scaled by 2^16 it is exact.
    check_equal("lost", flat_head(*k, Dtype::f16, 0x1p-24f).dw, {0, 0, -0x1p-21, 0});
    check_equal("carried", flat_head(*k, Dtype::f16, 0x1p-8f).dw, scaled(0x1p-8));
    check_equal("needs none", flat_head(*k, Dtype::bf16, 0x1p-24f).dw, scaled(0x1p-24));
    // 3/4 x 2^16 fits, 3/4 x 2^17 doesn't; 1/4 x 2^17 does.
    check_equal("largest", flat_head(*k, Dtype::f16, 0x1p16f).dw, scaled(0x1p16));
    check_equal("too large", flat_head(*k, Dtype::f16, 0x1p17f).dw, {0x1p18, 0x1p18, -INFINITY, 0x1p18});
  }
}

TEST_CASE("cross entropy: logits far from zero neither overflow nor lose the loss") {
  // One token, x = 1, w = {1000, 999, -1000}: the loss of target 1 is 1 + ln(1 + e^-1).
  for (const Backend& backend : backends()) {
    Guarded x(Dtype::f32, 1, 1), w(Dtype::f32, 3, 1), t(Dtype::i32, 1, 1), dx(Dtype::f32, 1, 1),
        dw(Dtype::f32, 3, 1), logits(Dtype::f32, 1, 3);
    x.fill(1);
    w.assign({1000, 999, -1000});
    t.fill(1);
    dw.fill(0);
    double loss = 0;
    backend.make()->cross_entropy_head({x, w, t, 1.f, dx, dw, View(), &loss, logits, View()});
    CHECK(loss == doctest::Approx(1 + std::log1p(std::exp(-1.0))).epsilon(1e-7));
    const double p0 = 1 / (1 + std::exp(-1.0));
    check_close("dw", dw, {p0, -p0, 0},
                {Dtype::f32, 2 * 1000, 1, "the exponent is the difference of two numbers near 1000"});
  }
}

TEST_CASE("cross entropy: a target beyond the vocabulary is refused") {
  for (const Backend& backend : backends()) {
    Buffers b({Dtype::f32, 4, 3, 10, 2, 0, 0});
    b.targets.set(0, 2, 10);
    CHECK_THROWS_WITH_AS(backend.make()->cross_entropy_head(b.call(1.f)),
                         "cross_entropy_head: target 10 of token 2, V is 10", Error);
  }
}

}  // namespace
}  // namespace zt::parity
