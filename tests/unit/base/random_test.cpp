#include "base/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

namespace zt {
namespace {

using Counter = std::array<std::uint32_t, 4>;

TEST_CASE("philox: gives the known answers of the Random123 library") {
  // kat_vectors of Random123 (Salmon et al. 2011), lines "philox4x32 10".
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random stream: every part of its name and every bit of the index changes the words") {
  const RandomStream base{.seed = 1, .purpose = Purpose::dropout, .a = 2, .b = 3};
  std::set<Counter> seen;
  int made = 0;
  const auto add = [&](const RandomStream& stream, std::uint64_t index) {
    seen.insert(stream.words(index));
    ++made;
  };
  add(base, 0);
  for (int bit = 0; bit < 64; ++bit) add(base, std::uint64_t{1} << bit);
  for (int bit = 0; bit < 64; ++bit) {
    RandomStream other = base;
    other.seed ^= std::uint64_t{1} << bit;
    add(other, 0);
  }
  for (int bit = 0; bit < 32; ++bit) {
    RandomStream other = base;
    other.a ^= 1u << bit;
    add(other, 0);
    other = base;
    other.b ^= 1u << bit;
    add(other, 0);
  }
  for (const Purpose p : {Purpose::init, Purpose::data_order, Purpose::sampling, Purpose::test}) {
    RandomStream other = base;
    other.purpose = p;
    add(other, 0);
  }
  CHECK(int(seen.size()) == made);
}

TEST_CASE("random stream: u64 is the first two words, low word first") {
  const RandomStream stream{.seed = 9};
  const auto w = stream.words(5);
  CHECK(stream.u64(5) == (std::uint64_t{w[1]} << 32 | w[0]));
}

TEST_CASE("uniform: stays in [0, 1), reaches both ends, and is exact in f32") {
  CHECK(uniform(0) == 0.f);
  CHECK(uniform(0xffffffff) == 1.f - 0x1p-24f);
  CHECK(uniform(0xff) == 0.f);
  CHECK(uniform(0x80000000) == 0.5f);
}

TEST_CASE("uniform: a million words fill ten bins evenly") {
  const RandomStream stream{.seed = 3};
  constexpr int kCount = 1'000'000;
  int bins[10] = {};
  for (std::uint64_t i = 0; i < kCount / 4; ++i)
    for (const std::uint32_t word : stream.words(i)) ++bins[int(uniform(word) * 10)];
  double chi_squared = 0;
  for (const int n : bins) chi_squared += (n - kCount / 10.0) * (n - kCount / 10.0) / (kCount / 10.0);
  CHECK(chi_squared < 27.9);  // 99.9 % quantile for 9 degrees of freedom
}

TEST_CASE("normal pair: has the moments and the tail of a normal distribution") {
  const RandomStream stream{.seed = 4};
  constexpr int kPairs = 500'000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0;
  int beyond_two = 0;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const auto words = stream.words(i);
    const auto [x, y] = normal_pair(words[0], words[1]);
    for (const double z : {double(x), double(y)}) {
      sum += z, squares += z * z, cubes += z * z * z, fourths += z * z * z * z;
      beyond_two += std::abs(z) > 2;
    }
    products += double(x) * double(y);
  }
  constexpr double kN = 2.0 * kPairs, kError = 1e-3;  // 1 / sqrt(n); limits are five standard errors
  CHECK(std::abs(sum / kN) < 5 * kError);
  CHECK(std::abs(squares / kN - 1) < 5 * std::sqrt(2.0) * kError);
  CHECK(std::abs(cubes / kN) < 5 * std::sqrt(15.0) * kError);
  CHECK(std::abs(fourths / kN - 3) < 5 * std::sqrt(96.0) * kError);
  CHECK(std::abs(products / kPairs) < 5 * std::sqrt(2.0) * kError);
  CHECK(std::abs(beyond_two / kN - 0.0455003) < 5 * 0.21 * kError);
}

TEST_CASE("normal pair: is finite for every word") {
  for (const std::uint32_t w0 : {0u, 1u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu})
    for (const std::uint32_t w1 : {0u, 0x40000000u, 0xffffffffu})
      for (const float z : normal_pair(w0, w1)) {
        CHECK(std::isfinite(z));
        CHECK(std::abs(z) < 6.67f);  // sqrt(-2 ln 2^-32) = 6.6604
      }
}

}  // namespace
}  // namespace zt
