#include "reference/rope.h"

#include <cmath>

#include "parity/parity.h"

namespace zt::parity {
namespace {

constexpr std::int64_t kPositions = 40;

// angle = position 10000^(-2i/d), and its cosines and sines in f32.
struct Tables {
  explicit Tables(std::int64_t d)
      : angles(std::size_t(kPositions * d / 2)),
        cosines(Dtype::f32, kPositions, d / 2, 3),
        sines(Dtype::f32, kPositions, d / 2, 3) {
    for (std::int64_t p = 0; p < kPositions; ++p) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const double angle = double(p) * std::pow(10000.0, -2.0 * double(i) / double(d));
        angles[std::size_t(p * d / 2 + i)] = angle;
        cosines.set(p, i, std::cos(angle));
        sines.set(p, i, std::sin(angle));
      }
    }
  }
  Vec of(const Vec& positions, double sign) const {
    const std::size_t half = angles.size() / kPositions;
    Vec out;
    for (const double p : positions)
      for (std::size_t i = 0; i < half; ++i) out.push_back(sign * angles[std::size_t(p) * half + i]);
    return out;
  }
  Vec angles;
  Guarded cosines, sines;
};

struct Case {
  Dtype dtype;
  std::int64_t N, H, d;
  bool inverse;
};

void check_case(kernels::Kernels& k, const Case& c) {
  INFO(name(c.dtype), " N ", c.N, " H ", c.H, " d ", c.d, " inverse ", c.inverse);
  const Tables tables(c.d);
  Guarded x(c.dtype, c.N, c.H * c.d, 7), positions(Dtype::i32, 1, c.N);
  x.fill_normal(1);
  positions.fill_ids(2, kPositions);
  const Vec angles = tables.of(positions.values(), c.inverse ? -1 : 1);
  const Vec exact = reference::rope(x.values(), angles, c.N, c.H, c.d);
  const double size = 2 * largest(x.values());
  k.rope({x, positions, tables.cosines, tables.sines, int(c.d), c.inverse});
  check_close("x", x, exact, {c.dtype, 3, size, "table, product and sum round once each"});
  CHECK(tables.cosines.damage() + tables.sines.damage() == "");
}

}  // namespace

void check_rope(kernels::Kernels& k) {
  for (const Dtype dtype : formats())
    for (const std::int64_t d : {2, 4, 6, 30, 32, 34, 64, 128})
      for (const std::int64_t N : {1, 3, 257})
        for (const bool inverse : {false, true}) check_case(k, {dtype, N, N == 257 ? 2 : 3, d, inverse});
}

namespace {

TEST_CASE("rope: a quarter turn of position 1 maps (1, 0) to (0, 1), and feature i pairs with i + d/2") {
  for (const Backend& backend : backends()) {
    Guarded x(Dtype::f32, 1, 4), position(Dtype::i32, 1, 1), cosines(Dtype::f32, 2, 2),
        sines(Dtype::f32, 2, 2);
    x.assign({1, 5, 0, 7});
    position.fill(1);
    cosines.assign({1, 1, 0, 1});
    sines.assign({0, 0, 1, 0});
    backend.make()->rope({x, position, cosines, sines, 4, false});
    check_equal("x", x, {0, 5, 1, 7});
  }
}

TEST_CASE("rope: products of rotated vectors depend on the distance of their positions only") {
  // Su et al. 2021, eq. 16.
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    const Tables tables(32);
    const auto product = [&](double at_q, double at_k) {
      Guarded q(Dtype::f32, 1, 32), key(Dtype::f32, 1, 32), p(Dtype::i32, 1, 1);
      q.fill_normal(1);
      key.fill_normal(2);
      k->rope({q, p.fill(at_q), tables.cosines, tables.sines, 32, false});
      k->rope({key, p.fill(at_k), tables.cosines, tables.sines, 32, false});
      return dot(q.values(), key.values());
    };
    CHECK(product(9, 4) == doctest::Approx(product(39, 34)).epsilon(1e-5));
    CHECK(product(9, 4) != doctest::Approx(product(9, 5)).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace zt::parity
