#include "reference/norm.h"

#include <cmath>

#include "parity/parity.h"

namespace zt::parity {
namespace {

constexpr float kEps = 1e-5f;

struct Shape {
  Dtype dtype;
  std::int64_t N, H, D, gap;
};

// Widths around the vectors' for few rows; many rows (several parts of the gradient sums) for some widths.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const Dtype dtype : formats()) {
    for (const std::int64_t D : ragged())
      for (const std::int64_t H : {1, 3}) all.push_back({dtype, 3, H, D, H == 1 ? 0 : 5});
    for (const std::int64_t N : {1, 15, 16, 17, 257, 1100}) all.push_back({dtype, N, 1, 33, 3});
  }
  return all;
}

// Everything a norm takes and gives, filled; r and mean are those of x, rounded to f32 as a forward saves
// them.
struct Buffers {
  Buffers(const Shape& s, bool centred)
      : x(s.dtype, s.N, s.H * s.D, s.gap),
        g(s.dtype, 1, s.D),
        b(s.dtype, 1, s.D),
        y(s.dtype, s.N, s.H * s.D, s.gap),
        dy(s.dtype, s.N, s.H * s.D, s.gap),
        dx(s.dtype, s.N, s.H * s.D, s.gap),
        mean(Dtype::f32, s.N, s.H),
        r(Dtype::f32, s.N, s.H),
        dg(Dtype::f32, 1, s.D),
        db(Dtype::f32, 1, s.D) {
    x.fill_normal(1, 2.0, 0.5);
    g.fill_normal(2, 0.5, 1.0);
    b.fill_normal(3, 0.5);
    dy.fill_normal(4);
    dx.fill_normal(5);
    dg.fill_normal(6);
    db.fill_normal(7);
    saved = reference::norm(x.values(), g.values(), centred ? b.values() : Vec(), kEps, centred);
  }
  // |x - mean| r |g| + |b| and what a mean of that size rounds to.
  double size() const {
    return (largest(x.values()) * largest(saved.r) + 1) * largest(g.values()) + largest(b.values());
  }
  void save() {
    mean.assign(saved.mean);
    r.assign(saved.r);
  }
  Guarded x, g, b, y, dy, dx, mean, r, dg, db;
  reference::Norm saved;
};

constexpr const char* kForwardWhy =
    "one rounding to the output; mean and variance are sums of D terms in fp32";

void check_forward(kernels::Kernels& k, const Shape& s, bool centred, bool in_place) {
  Buffers a(s, centred);
  const Vec x = a.x.values();
  Guarded& y = in_place ? a.x : a.y;
  if (centred)
    k.layer_norm({a.x, a.g, a.b, y, a.mean, a.r, kEps});
  else
    k.rms_norm({a.x, a.g, y, a.r, kEps});
  check_close("y", y, a.saved.y, {s.dtype, sum_steps(s.D) + 4, a.size(), kForwardWhy});
  check_close("r", a.r, a.saved.r, {Dtype::f32, sum_steps(s.D) + 4, 0, "r is relative: a sum of positives"});
  if (centred)
    check_close("mean", a.mean, a.saved.mean, {Dtype::f32, sum_steps(s.D), largest(x), "a sum of D terms"});
  if (!in_place) check_equal("x", a.x, x);
}

void forward_row(kernels::Kernels& k, bool centred) {
  for (const Shape& s : shapes()) {
    for (const bool in_place : {false, true}) {
      INFO(name(s.dtype), " N ", s.N, " H ", s.H, " D ", s.D, " in place ", in_place);
      check_forward(k, s, centred, in_place);
    }
  }
}

void run_backward(kernels::Kernels& k, Buffers& a, View dx, bool centred, bool accumulate) {
  if (centred)
    k.layer_norm_backward({a.x, a.g, a.mean, a.r, a.dy, dx, a.dg, a.db, accumulate});
  else
    k.rms_norm_backward({a.x, a.g, a.r, a.dy, dx, a.dg, accumulate});
}

Vec sum(const Vec& a, const Vec& b) {
  Vec out = a;
  for (std::size_t i = 0; i < a.size(); ++i) out[i] += b[i];
  return out;
}

enum class Output { fresh, in_place, added };

void check_backward(kernels::Kernels& k, const Shape& s, bool centred, Output output) {
  Buffers a(s, centred);
  a.save();
  const auto exact = reference::norm_backward(a.x.values(), a.g.values(), a.mean.values(), a.r.values(),
                                              a.dy.values(), centred);
  const Vec dx_before = a.dx.values(), dg = sum(a.dg.values(), exact.dg), db = sum(a.db.values(), exact.db);
  const double term =
      largest(a.dy.values()) * (largest(a.x.values()) + largest(a.mean.values())) * largest(a.r.values());
  const double dx_size = largest(a.r.values()) * largest(a.g.values()) * term * term + largest(dx_before);
  Guarded& dx = output == Output::in_place ? a.dy : a.dx;
  run_backward(k, a, dx, centred, output == Output::added);
  check_close("dx", dx, output == Output::added ? sum(dx_before, exact.dx) : exact.dx,
              {s.dtype, sum_steps(s.D) + 8, dx_size, "two means of D terms, then five operations"});
  // A chunk's rows are added one by one, then the chunks.
  const double steps = 4 + 64 + std::ceil(double(s.N) / 64) * double(s.H);
  check_close("dg", a.dg, dg, {Dtype::f32, steps, term * double(s.N * s.H) + 1, "a sum over N H terms"});
  if (centred)
    check_close("db", a.db, db,
                {Dtype::f32, steps, largest(a.dy.values()) * double(s.N * s.H) + 1, "the same"});
}

void backward_row(kernels::Kernels& k, bool centred) {
  for (const Shape& s : shapes()) {
    for (const Output output : {Output::fresh, Output::in_place, Output::added}) {
      INFO(name(s.dtype), " N ", s.N, " H ", s.H, " D ", s.D, " output ", int(output));
      check_backward(k, s, centred, output);
    }
  }
}

}  // namespace

void check_rms_norm(kernels::Kernels& k) { forward_row(k, false); }
void check_layer_norm(kernels::Kernels& k) { forward_row(k, true); }
void check_rms_norm_backward(kernels::Kernels& k) { backward_row(k, false); }
void check_layer_norm_backward(kernels::Kernels& k) { backward_row(k, true); }

namespace {

TEST_CASE("norm: the reference's gradients are the finite differences of its forward") {
  for (const bool centred : {false, true}) {
    CAPTURE(centred);
    Buffers a({Dtype::f32, 3, 1, 7, 0}, centred);
    const Vec x = a.x.values(), g = a.g.values(), b = a.b.values(), dy = a.dy.values();
    const auto loss = [&](const Vec& x_, const Vec& g_, const Vec& b_) {
      return dot(reference::norm(x_, g_, b_, kEps, centred).y, dy);
    };
    const auto exact = reference::norm_backward(x, g, a.saved.mean, a.saved.r, dy, centred);
    const Bound bound{Dtype::i32, 1, 10, "truncation and cancellation of central differences, about 1e-9"};
    CHECK(differs(finite_differences([&](const Vec& v) { return loss(v, g, b); }, x), exact.dx, bound) == "");
    CHECK(differs(finite_differences([&](const Vec& v) { return loss(x, v, b); }, g), exact.dg, bound) == "");
    CHECK(differs(finite_differences([&](const Vec& v) { return loss(x, g, v); }, b), exact.db, bound) == "");
  }
}

TEST_CASE("norm: a layer norm of numbers far from zero keeps its accuracy") {
  // x = 4096 + {0, 1, 2, 3}: deviation sqrt(5) / 2; squares of x would need 25 bits, one more than fp32 has.
  for (const Backend& backend : backends()) {
    Guarded x(Dtype::f32, 1, 4), g(Dtype::f32, 1, 4), y(Dtype::f32, 1, 4), mean(Dtype::f32, 1, 1),
        r(Dtype::f32, 1, 1);
    x.assign({4096, 4097, 4098, 4099});
    g.fill(1);
    backend.make()->layer_norm({x, g, View(), y, mean, r, 0.f});
    const double s = std::sqrt(5.0) / 2;
    check_close("y", y, {-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s},
                {Dtype::f32, 2, 0, "mean and squares are exact"});
    check_equal("mean", mean, {4097.5});
  }
}

TEST_CASE("norm: gradient sums do not depend on the number of threads") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const bool centred : {false, true}) {
      Vec first;
      for (const int threads : {1, 2, 3, 5}) {
        Buffers a({Dtype::f32, 700, 1, 65, 0}, centred);
        a.save();
        with_threads(threads, [&] { run_backward(*k, a, a.dx, centred, false); });
        if (threads == 1) first = a.dg.values();
        check_equal("dg", a.dg, first);
      }
    }
  }
}

TEST_CASE("norm: gradients of bf16 activations are summed in fp32") {
  // One gradient of 1 and 255 of 2^-9: 1.498046875; a bf16 sum would stay at 1 (deepspeedai/DeepSpeed#2768).
  for (const Backend& backend : backends()) {
    Buffers a({Dtype::bf16, 256, 1, 4, 0}, true);
    a.save();
    a.dy.fill(0x1p-9);
    for (int d = 0; d < 4; ++d) a.dy.set(0, d, 1);
    a.db.fill(0);
    run_backward(*backend.make(), a, a.dx, true, false);
    check_equal("db", a.db, Vec(4, 1.498046875));
  }
}

TEST_CASE("norm: biases may be absent") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Buffers a({Dtype::f32, 5, 1, 19, 0}, true);
    const auto exact = reference::norm(a.x.values(), a.g.values(), Vec(), kEps, true);
    k->layer_norm({a.x, a.g, View(), a.y, a.mean, a.r, kEps});
    check_close("y", a.y, exact.y, {Dtype::f32, sum_steps(19) + 4, a.size(), kForwardWhy});
    const auto grad = reference::norm_backward(a.x.values(), a.g.values(), a.mean.values(), a.r.values(),
                                               a.dy.values(), true);
    k->layer_norm_backward({a.x, a.g, a.mean, a.r, a.dy, a.dx, a.dg, View(), false});
    check_close("dx", a.dx, grad.dx, {Dtype::f32, sum_steps(19) + 8, 10, "as in the table"});
  }
}

TEST_CASE("norm: gradients of frozen gains and biases are left out, and the others keep their bits") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Shape& s : shapes()) {
      for (const bool accumulate : {false, true}) {
        INFO(std::string(name(s.dtype)), " N ", s.N, " H ", s.H, " D ", s.D, " accumulate ", accumulate);
        Buffers rms(s, false), layer(s, true);
        rms.save();
        layer.save();
        Buffers all = rms, none = rms;
        k->rms_norm_backward({all.x, all.g, all.r, all.dy, all.dx, all.dg, accumulate});
        k->rms_norm_backward({none.x, none.g, none.r, none.dy, none.dx, View(), accumulate});
        check_equal("dx of rms norm", none.dx, all.dx.values());
        Buffers both = layer;
        k->layer_norm_backward(
            {both.x, both.g, both.mean, both.r, both.dy, both.dx, both.dg, both.db, accumulate});
        for (const auto& [gain, bias] : {std::pair{false, false}, {false, true}, {true, false}}) {
          Buffers b = layer;
          k->layer_norm_backward({b.x, b.g, b.mean, b.r, b.dy, b.dx, gain ? b.dg.view() : View(),
                                  bias ? b.db.view() : View(), accumulate});
          check_equal("dx", b.dx, both.dx.values());
          check_equal("dg", b.dg, (gain ? both : layer).dg.values());
          check_equal("db", b.db, (bias ? both : layer).db.values());
        }
      }
    }
  }
}

TEST_CASE("norm: saved numbers of another shape are refused with both shapes") {
  for (const Backend& backend : backends()) {
    Buffers a({Dtype::f32, 6, 1, 8, 0}, false);
    Guarded flat(Dtype::f32, 1, 6);
    try {
      backend.make()->rms_norm({a.x, a.g, a.y, flat, kEps});
      FAIL("not refused");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::bug);
      CHECK(e.problem() ==
            "rms_norm: x has 6 rows of 8 = groups x 8 features, but the saved numbers are 1 x 6");
    }
  }
}

}  // namespace
}  // namespace zt::parity
