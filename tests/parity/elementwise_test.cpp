#include <cmath>
#include <limits>

#include "parity/parity.h"
#include "reference/rounding.h"

namespace zt::parity {
namespace {

constexpr Dtype kStored[] = {Dtype::f32, Dtype::bf16, Dtype::f16};

// Normal numbers, then what rounding is hard for: ties, overflow, subnormals, not finite.
void fill_hard(Guarded& x) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Vec hard = {1 + 0x1p-8,  1 + 0x1p-7 + 0x1p-8,
                    1 + 0x1p-11, 65519.99,
                    65520,       -65520,
                    0x1p-25,     0x1.8p-25,
                    -0x1p-24,    0x1.fffffep127,
                    0x1p-133,    0x1p-134,
                    0x1p-149,    -0.0,
                    INFINITY,    -INFINITY,
                    1 + 0x1p-23, nan};
  x.fill_normal(1, 100.0);
  for (std::int64_t i = 0; i < x.size() && std::size_t(i) < hard.size(); ++i)
    x.set(i / x.view().cols, i % x.view().cols, hard[std::size_t(i)]);
}

Vec rounded(Dtype dtype, const Vec& x) {
  Vec out;
  for (const double v : x) out.push_back(reference::rounded(dtype, v));
  return out;
}

}  // namespace

void check_cast(kernels::Kernels& k) {
  for (const Dtype from : kStored)
    for (const Dtype to : kStored)
      for (const std::int64_t cols : ragged())
        for (const std::int64_t gap : {0, 3}) {
          INFO(name(from), " to ", name(to), " cols ", cols, " gap ", gap);
          Guarded x(from, 3, cols, gap), y(to, 3, cols, 0);
          fill_hard(x);
          k.cast({x, y});
          check_equal("y", y, rounded(to, x.values()));
          CHECK(x.damage() == "");
        }
}

void check_add(kernels::Kernels& k) {
  for (const Dtype dtype : formats())
    for (const std::int64_t cols : ragged())
      for (const std::int64_t gap : {0, 3}) {
        INFO(name(dtype), " cols ", cols, " gap ", gap);
        Guarded a(dtype, 70, cols, gap), b(dtype, 70, cols, 0), y(dtype, 70, cols, gap);
        a.fill_normal(1);
        b.fill_normal(2);
        Vec sum = a.values();
        const Vec right = b.values();
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
        // Two bf16 numbers may add to more than 24 bits: then fp32 rounds first. Close, not equal.
        const Bound bound{dtype, dtype == Dtype::f32 ? 0.0 : 1.0, 0, "one sum"};
        k.add({a, b, y});
        check_close("y", y, sum, bound);
        k.add({a, b, a});
        check_close("y over a", a, sum, bound);
      }
}

namespace {

TEST_CASE("cast: all 65536 patterns of bf16 and f16 survive the way to f32 and back") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      CAPTURE(name(dtype));
      std::vector<std::uint16_t> before(65536), after(65536);
      std::vector<float> wide(65536);
      for (std::size_t i = 0; i < before.size(); ++i) before[i] = std::uint16_t(i);
      k->cast({View(before.data(), dtype, 256, 256), View(wide.data(), 256, 256)});
      k->cast({View(wide.data(), 256, 256), View(after.data(), dtype, 256, 256)});
      int faults = 0;
      for (std::size_t i = 0; i < before.size(); ++i)
        faults += std::isnan(wide[i]) ? before[i] % 0x8000 <= (dtype == Dtype::bf16 ? 0x7f80 : 0x7c00)
                                      : before[i] != after[i];
      CHECK(faults == 0);
    }
  }
}

}  // namespace
}  // namespace zt::parity
