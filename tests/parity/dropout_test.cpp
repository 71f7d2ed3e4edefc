#include "reference/dropout.h"

#include <cmath>

#include "parity/parity.h"

namespace zt::parity {
namespace {

constexpr RandomStream kStream{.seed = 0x123456789abcdef0, .purpose = Purpose::dropout, .a = 7, .b = 3};

struct Case {
  Dtype dtype;
  std::int64_t N, D, gap, first_row;
  float p;
};

constexpr const char* kWhy = "1 / (1 - p) and the product round once each";

void check_case(kernels::Kernels& k, const Case& c) {
  INFO(name(c.dtype), " N ", c.N, " D ", c.D, " gap ", c.gap, " first row ", c.first_row, " p ", c.p);
  Guarded x(c.dtype, c.N, c.D, c.gap), y(c.dtype, c.N, c.D, c.gap);
  x.fill_normal(1);
  const Vec exact = reference::dropout(x.values(), c.D, double(c.p), kStream, c.first_row);
  k.dropout({x, y, c.p, kStream, c.first_row, false});
  check_close("y", y, exact, {c.dtype, 3, 0, kWhy});

  y.fill_normal(2);
  Vec sum = y.values();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += exact[i];
  k.dropout({x, y, c.p, kStream, c.first_row, true});
  check_close("y +=", y, sum, {c.dtype, 4, largest(exact), kWhy});

  k.dropout({x, x, c.p, kStream, c.first_row, false});
  check_close("y over x", x, exact, {c.dtype, 3, 0, kWhy});
}

}  // namespace

void check_dropout(kernels::Kernels& k) {
  for (const Dtype dtype : formats()) {
    for (const std::int64_t D : ragged())
      for (const std::int64_t first_row : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 40})
        check_case(k, {dtype, 4, D, D % 2 == 0 ? 0 : 3, first_row, 0.25f});
    for (const float p : {0.f, 0.1f, 0.5f, 0.999f}) check_case(k, {dtype, 300, 66, 0, 1, p});
  }
}

namespace {

TEST_CASE("dropout: without dropping, values pass unchanged") {
  for (const Backend& backend : backends()) {
    Guarded x(Dtype::f32, 3, 50), y(Dtype::f32, 3, 50);
    x.fill_normal(1);
    backend.make()->dropout({x, y, 0.f, kStream, 0, false});
    check_equal("y", y, x.values());
  }
}

TEST_CASE("dropout: the share of kept elements is 1 - p, and the mean is kept") {
  for (const Backend& backend : backends()) {
    for (const float p : {0.1f, 0.5f, 0.9f}) {
      CAPTURE(p);
      constexpr std::int64_t kRows = 500, kCols = 401;
      Guarded x(Dtype::f32, kRows, kCols), y(Dtype::f32, kRows, kCols);
      x.fill(1);
      backend.make()->dropout({x, y, p, kStream, 0, false});
      double kept = 0, total = 0;
      for (const double v : y.values()) kept += v != 0, total += v;
      const double n = kRows * kCols, deviation = std::sqrt(n * double(p) * (1 - double(p)));
      CHECK(std::abs(kept - n * (1 - double(p))) < 5 * deviation);
      CHECK(std::abs(total - n) < 5 * deviation / (1 - double(p)));
    }
  }
}

TEST_CASE("dropout: rows with numbers get the mask of those numbers") {
  std::vector<std::int32_t> numbers = {3, 0, 1 << 30, 4};
  for (const Backend& backend : backends())
    for (const std::int64_t first_row : {std::int64_t{0}, std::int64_t{1} << 40}) {
      const auto k = backend.make();
      Guarded x(Dtype::f32, 4, 50), y(Dtype::f32, 4, 50), one(Dtype::f32, 1, 50);
      x.fill_normal(1);
      k->dropout({x, y, 0.5f, kStream, first_row, false, View(numbers.data(), 1, 4)});
      const Vec all = y.values();
      for (std::int64_t n = 0; n < 4; ++n) {
        k->dropout({x.view().slice(n, 1), one, 0.5f, kStream, first_row + numbers[std::size_t(n)], false});
        check_equal("y", one, Vec(all.begin() + n * 50, all.begin() + (n + 1) * 50));
      }
      CHECK_THROWS_AS(k->dropout({x, y, 0.5f, kStream, 0, false, View(numbers.data(), 1, 3)}), Error);
    }
}

TEST_CASE("dropout: rows computed in pieces get the mask they get together, and other streams another") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    Guarded x(Dtype::f32, 40, 37), whole(Dtype::f32, 40, 37), pieces(Dtype::f32, 40, 37);
    x.fill(1);
    k->dropout({x, whole, 0.5f, kStream, 100, false});
    for (const std::int64_t first : {0, 7, 8, 31}) {
      const std::int64_t count = (first == 0 ? 7 : first == 7 ? 8 : first == 8 ? 31 : 40) - first;
      k->dropout({x.view().slice(first, count), pieces.view().slice(first, count), 0.5f, kStream, 100 + first,
                  false});
    }
    check_equal("pieces", pieces, whole.values());
    for (const RandomStream& other :
         {RandomStream{1, Purpose::dropout, 7, 3}, RandomStream{kStream.seed, Purpose::test, 7, 3},
          RandomStream{kStream.seed, Purpose::dropout, 8, 3},
          RandomStream{kStream.seed, Purpose::dropout, 7, 4}}) {
      k->dropout({x, pieces, 0.5f, other, 100, false});
      CHECK(pieces.values() != whole.values());
    }
  }
}

}  // namespace
}  // namespace zt::parity
