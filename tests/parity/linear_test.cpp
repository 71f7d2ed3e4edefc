#include "reference/linear.h"

#include <cmath>

#include "parity/parity.h"

namespace zt::parity {
namespace {

struct Case {
  Dtype dtype, out;
  std::int64_t N, I, O, gap;
  bool w_is_IO, accumulate, bias;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::int64_t shapes[][3] = {{1, 1, 1},    {1, 65, 3},    {3, 1, 65},   {2, 3, 1},
                                    {65, 3, 17},  {17, 16, 64},  {64, 65, 1},  {33, 63, 130},
                                    {1, 257, 96}, {129, 64, 48}, {5, 300, 257}};
  for (const Dtype dtype : formats())
    for (const auto& [N, I, O] : shapes)
      for (const bool w_is_IO : {false, true})
        for (const bool accumulate : {false, true})
          for (const bool bias : {false, true}) {
            all.push_back({dtype, dtype, N, I, O, accumulate ? 5 : 0, w_is_IO, accumulate, bias});
            if (dtype != Dtype::f32)
              all.push_back({dtype, Dtype::f32, N, I, O, 3, w_is_IO, accumulate, bias});
          }
  // Backends may compute in tiles of these numbers of rows, columns and terms.
  const std::int64_t large[][3] = {{513, 3, 514}, {3, 2049, 2}, {2049, 2, 3}};
  for (const Dtype dtype : formats())
    for (const auto& [N, I, O] : large)
      for (const bool w_is_IO : {false, true})
        for (const bool accumulate : {false, true})
          for (const Dtype out : {dtype, Dtype::f32})
            all.push_back({dtype, out, N, I, O, 1, w_is_IO, accumulate, true});
  return all;
}

std::string text(const Case& c) {
  return cat(name(c.dtype), " to ", name(c.out), " N ", c.N, " I ", c.I, " O ", c.O, " gap ", c.gap, " IO ",
             c.w_is_IO, " accumulate ", c.accumulate, " bias ", c.bias);
}

Guarded weight(const Case& c) {
  Guarded w(c.dtype, c.w_is_IO ? c.I : c.O, c.w_is_IO ? c.O : c.I);
  w.fill_normal(2);
  return w;
}

Vec as_OI(const Case& c, const Vec& w) { return c.w_is_IO ? reference::transposed(w, c.I, c.O) : w; }

// Terms of a product's sum in any order, then bias and the value added to.
Bound bound(Dtype out, std::int64_t terms, double left, double right, double added) {
  const double size = double(terms) * left * right;
  return {out, sum_steps(terms) + 3, size + added,
          "a sum of products in fp32 and one rounding to the output"};
}

void check_forward(kernels::Kernels& k, const Case& c) {
  INFO(text(c));
  Guarded x(c.dtype, c.N, c.I, c.gap), w = weight(c), b(c.dtype, 1, c.O), y(c.out, c.N, c.O, c.gap);
  x.fill_normal(1);
  b.fill_normal(3);
  if (c.accumulate) y.fill_normal(4);
  Vec exact = c.accumulate ? y.values() : reference::zeros(c.N * c.O);
  const double added = largest(b.values()) + (c.accumulate ? largest(exact) : 0);
  reference::linear(x.values(), as_OI(c, w.values()), c.bias ? b.values() : Vec(), c.I, c.O, &exact);
  const Vec x_before = x.values();
  k.linear({x, w, c.bias ? b.view() : View(), y, c.w_is_IO, c.accumulate});
  check_close("y", y, exact, bound(c.out, c.I, largest(x.values()), largest(w.values()), added));
  check_equal("x", x, x_before);
}

void check_backward(kernels::Kernels& k, const Case& c) {
  INFO(text(c));
  Guarded x(c.dtype, c.N, c.I, c.gap), w = weight(c), dy(c.dtype, c.N, c.O, c.gap),
                                       dx(c.out, c.N, c.I, c.gap);
  Guarded dw(Dtype::f32, c.w_is_IO ? c.I : c.O, c.w_is_IO ? c.O : c.I), db(Dtype::f32, 1, c.O);
  x.fill_normal(1);
  dy.fill_normal(5);
  if (c.accumulate) dx.fill_normal(6);
  dw.fill_normal(7);
  db.fill_normal(8);
  Vec dx_exact = c.accumulate ? dx.values() : reference::zeros(c.N * c.I);
  Vec dw_exact = as_OI(c, dw.values()), db_exact = db.values();
  reference::linear_backward(x.values(), as_OI(c, w.values()), dy.values(), c.I, c.O, &dx_exact, &dw_exact,
                             &db_exact);
  if (c.w_is_IO) dw_exact = reference::transposed(dw_exact, c.O, c.I);
  k.linear_backward({x, w, dy, dx, dw, c.bias ? db.view() : View(), c.w_is_IO, c.accumulate});
  const double g = largest(dy.values());
  check_close("dx", dx, dx_exact, bound(c.out, c.O, g, largest(w.values()), 8));
  check_close("dw", dw, dw_exact, bound(Dtype::f32, c.N, g, largest(x.values()), 8));
  // Columns are summed row by row in blocks of 64 rows.
  if (c.bias)
    check_close("db", db, db_exact,
                {Dtype::f32, double(c.N) + 2, double(c.N) * g + 8, "a sum of N terms, in order"});
}

}  // namespace

void check_linear(kernels::Kernels& k) {
  for (const Case& c : cases()) check_forward(k, c);
}
void check_linear_backward(kernels::Kernels& k) {
  for (const Case& c : cases()) check_backward(k, c);
}

namespace {

TEST_CASE("linear: the reference's gradients are the finite differences of its forward") {
  constexpr std::int64_t N = 3, I = 5, O = 4;
  Guarded x(Dtype::f32, N, I), w(Dtype::f32, O, I), b(Dtype::f32, 1, O), dy(Dtype::f32, N, O);
  x.fill_normal(1);
  w.fill_normal(2);
  b.fill_normal(3);
  dy.fill_normal(4);
  const auto loss = [&](const Vec& x_, const Vec& w_, const Vec& b_) {
    Vec y = reference::zeros(N * O);
    reference::linear(x_, w_, b_, I, O, &y);
    return dot(y, dy.values());
  };
  Vec dx = reference::zeros(N * I), dw = reference::zeros(O * I), db = reference::zeros(O);
  reference::linear_backward(x.values(), w.values(), dy.values(), I, O, &dx, &dw, &db);
  const Bound near{Dtype::i32, 1, 10, "the loss is linear: only cancellation of central differences"};
  CHECK(differs(finite_differences([&](const Vec& v) { return loss(v, w.values(), b.values()); }, x.values()),
                dx, near) == "");
  CHECK(differs(finite_differences([&](const Vec& v) { return loss(x.values(), v, b.values()); }, w.values()),
                dw, near) == "");
  CHECK(differs(finite_differences([&](const Vec& v) { return loss(x.values(), w.values(), v); }, b.values()),
                db, near) == "");
}

// y = x w^T + b for single numbers.
double product_of(kernels::Kernels& k, double x, double w, double b, Dtype out = Dtype::f16) {
  Guarded x_11(Dtype::f16, 1, 1), w_11(Dtype::f16, 1, 1), b_1(Dtype::f16, 1, 1), y_11(out, 1, 1);
  k.linear({x_11.fill(x), w_11.fill(w), b_1.fill(b), y_11});
  return y_11.get(0, 0);
}

TEST_CASE(
    "linear: float16 products overflow to infinity at 65520, reach 2^-24, and pass on what isn't finite") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    CHECK(product_of(*k, 1, 65504, 0) == 65504);
    CHECK(product_of(*k, 1, 65504, 15) == 65504);  // 65519: nearer to 65504 than to 65536
    CHECK(product_of(*k, 1, 65504, 16) == INFINITY);
    CHECK(product_of(*k, -1, 65504, -16) == -INFINITY);
    CHECK(product_of(*k, 256, 256, 0) == INFINITY);
    CHECK(product_of(*k, 256, 256, 0, Dtype::f32) == 65536);
    CHECK(product_of(*k, 256, 256, -64) == 65472);  // the sum is rounded once, at its end
    CHECK(product_of(*k, 0x1p-12, 0x1p-12, 0) == 0x1p-24);
    CHECK(product_of(*k, 0x1p-12, 0x1p-13, 0) == 0);  // a tie between 0 and 2^-24 goes to the even 0
    CHECK(product_of(*k, 0x1.8p-12, 0x1p-13, 0) == 0x1p-24);
    CHECK(product_of(*k, 0x1p-24, 0x1p-24, 0, Dtype::f32) == 0x1p-48);
    CHECK(product_of(*k, INFINITY, 2, 0) == INFINITY);
    CHECK(std::isnan(product_of(*k, INFINITY, 0, 0)));
    CHECK(std::isnan(product_of(*k, NAN, 1, 0)));
  }
}

TEST_CASE("linear: columns of a wider matrix are read and written in place") {
  for (const Backend& backend : backends()) {
    for (const Dtype dtype : formats()) {
      CAPTURE(name(dtype));
      Guarded x(dtype, 9, 40), w(dtype, 8, 10), wide(dtype, 9, 24), narrow(dtype, 9, 8), part(dtype, 9, 10);
      x.fill_normal(1);
      w.fill_normal(2);
      wide.fill(7);
      const auto k = backend.make();
      k->linear({x.view().columns(20, 10), w, View(), wide.view().columns(8, 8)});
      for (int r = 0; r < 9; ++r)
        for (int c = 0; c < 10; ++c) part.set(r, c, x.get(r, 20 + c));
      k->linear({part, w, View(), narrow});
      for (int r = 0; r < 9; ++r)
        for (int c = 0; c < 24; ++c) CHECK(wide.get(r, c) == (c < 8 || c >= 16 ? 7 : narrow.get(r, c - 8)));
    }
  }
}

TEST_CASE("linear: no tokens leave sums as they are, and absent outputs are not wanted") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded x(Dtype::f32, 4, 3), w(Dtype::f32, 2, 3), y(Dtype::f32, 4, 2), dw(Dtype::f32, 2, 3),
        db(Dtype::f32, 1, 2);
    w.fill(1);
    dw.fill(5);
    db.fill(6);
    k->linear({x.view().slice(0, 0), w, View(), y.view().slice(0, 0)});
    k->linear_backward({x.view().slice(0, 0), w, y.view().slice(0, 0), x.view().slice(0, 0), dw, db});
    check_equal("dw", dw, Vec(6, 5));
    check_equal("db", db, Vec(2, 6));
    y.fill(1);
    k->linear_backward({View(), w, y, x, View(), View()});
    check_equal("dx", x, Vec(12, 2));
  }
}

TEST_CASE("linear: each gradient has the same bits whichever of the others are absent") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Dtype dtype : formats()) {
      for (const bool w_is_IO : {false, true}) {
        INFO(std::string(name(dtype)), " IO ", w_is_IO);
        const Case c{dtype, dtype, 40, 33, 50, 0, w_is_IO, false, true};
        Guarded x(dtype, c.N, c.I), w = weight(c), dy(dtype, c.N, c.O),
                                    dw(Dtype::f32, w.view().rows, w.view().cols), db(Dtype::f32, 1, c.O),
                                    dx(dtype, c.N, c.I);
        x.fill_normal(1);
        dy.fill_normal(2);
        dw.fill_normal(3);
        db.fill_normal(4);
        dx.fill(5);
        Guarded all_dx = dx, all_dw = dw, all_db = db;
        k->linear_backward({x, w, dy, all_dx, all_dw, all_db, w_is_IO});
        for (int wanted = 0; wanted < 8; ++wanted) {
          CAPTURE(wanted);
          const bool want_dx = wanted & 1, want_dw = wanted & 2, want_db = wanted & 4;
          Guarded new_dx = dx, new_dw = dw, new_db = db;
          k->linear_backward({want_dw ? x.view() : View(), want_dx ? w.view() : View(), dy,
                              want_dx ? new_dx.view() : View(), want_dw ? new_dw.view() : View(),
                              want_db ? new_db.view() : View(), w_is_IO});
          check_equal("dx", new_dx, (want_dx ? all_dx : dx).values());
          check_equal("dw", new_dw, (want_dw ? all_dw : dw).values());
          check_equal("db", new_db, (want_db ? all_db : db).values());
        }
      }
    }
  }
}

TEST_CASE("linear: shapes that do not fit are refused with both numbers") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded x(Dtype::f32, 4, 3), w(Dtype::f32, 2, 5), y(Dtype::f32, 4, 2);
    CHECK_THROWS_WITH_AS(k->linear({x, w, View(), y}), "linear: w_OI is 2 x 5 with stride 5, needed 2 x 3",
                         Error);
    Guarded whole(Dtype::i32, 4, 3), whole_w(Dtype::i32, 2, 3);
    CHECK_THROWS_WITH_AS(k->linear({whole, whole_w, View(), y}), "linear: no products of int32", Error);
    Guarded half(Dtype::f16, 4, 3), half_w(Dtype::f16, 2, 3), bf(Dtype::bf16, 4, 2);
    CHECK_THROWS_WITH_AS(k->linear({half, half_w, View(), bf}), "linear: y_NO is bfloat16, needed float16",
                         Error);
  }
}

}  // namespace
}  // namespace zt::parity
