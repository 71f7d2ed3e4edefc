#include "report/curve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace zt::report {
namespace {

TEST_CASE("curve: short ones keep every value") {
  Curve curve(64);
  for (int step = 10; step < 74; ++step) curve.add(step, 1. / step);
  const std::vector<Bin> bins = curve.bins();
  REQUIRE(bins.size() == 64);
  for (int i = 0; i < 64; ++i) {
    CHECK(bins[std::size_t(i)].step() == 10 + i);
    CHECK(bins[std::size_t(i)].mean() == 1. / (10 + i));
    CHECK(bins[std::size_t(i)].count == 1);
  }
  CHECK(curve.width() == 1);
  CHECK(curve.last() == 1. / 73);
}

TEST_CASE("curve: however long, columns are few, every value is in one, and no peak is lost") {
  for (const std::int64_t steps : {65, 1000, 99'999, 1'000'000}) {
    for (const std::int64_t stride : {1, 7}) {
      CAPTURE(steps);
      CAPTURE(stride);
      Curve curve(64);
      double sum = 0;
      for (std::int64_t step = 1; step <= steps; ++step) {
        const double value = step == steps / 3 ? 1000 : step == steps / 2 ? -1000 : std::sin(double(step));
        curve.add(step * stride, value);
        sum += value;
      }
      const std::vector<Bin> bins = curve.bins();
      CHECK(bins.size() <= 64);
      CHECK(bins.size() > (stride == 1 ? 31 : 4));
      std::int64_t count = 0;
      double total = 0, high = 0, low = 0, before = 0;
      for (const Bin& bin : bins) {
        count += bin.count, total += bin.sum;
        high = std::max(high, bin.max), low = std::min(low, bin.min);
        CHECK(bin.min <= bin.mean() + 1e-9);
        CHECK(bin.mean() <= bin.max + 1e-9);
        CHECK(bin.step() > before);
        before = bin.step();
      }
      CHECK(count == steps);
      CHECK(total == doctest::Approx(sum));
      CHECK(high == 1000);
      CHECK(low == -1000);
      CHECK(curve.max() == 1000);
      CHECK(curve.min() == -1000);
      CHECK(curve.bins(10).size() <= 10);
    }
  }
}

TEST_CASE("curve: values that are not finite are counted, and steps may come in any order or be enormous") {
  Curve curve(16);
  const double inf = std::numeric_limits<double>::infinity();
  curve.add(5, std::nan(""));
  curve.add(6, inf);
  curve.add(7, -inf);
  CHECK(curve.empty());
  CHECK(curve.not_finite() == 3);
  curve.add(9'000'000'000'000'000, 2);
  curve.add(3, 1);
  curve.add(-1, 5);
  curve.add(std::numeric_limits<std::int64_t>::max(), 3);
  CHECK(curve.count() == 3);
  CHECK(curve.last() == 3);
  CHECK(curve.bins().size() <= 16);
  CHECK(curve.max() == 3);
}

}  // namespace
}  // namespace zt::report
