#include "kernels/cpu_math.h"

#include <doctest/doctest.h>

#include <cmath>

namespace zt::kernels {
namespace {

float exp_of_one(float x) { return exp_of(splat(x))[3]; }

TEST_CASE("cpu math: e^x is within 2 ulp of the exact value where results are normal numbers") {
  double worst = 0;
  for (int i = 0; i < 400'000; ++i) {
    const float x = -87.3f + float(i) * (175.6f / 400'000);
    const double exact = std::exp(double(x));
    int exponent = 0;
    std::frexp(exact, &exponent);
    worst = std::max(worst, std::abs(double(exp_of_one(x)) - exact) / std::ldexp(1.0, exponent - 24));
  }
  CHECK(worst < 2);
}

TEST_CASE("cpu math: e^x is 1 at 0, 0 far below, infinite far above, and NaN of NaN") {
  CHECK(exp_of_one(0.f) == 1.f);
  CHECK(exp_of_one(-0.f) == 1.f);
  for (const float x : {-87.4f, -1000.f, -3e38f, -INFINITY}) CHECK(exp_of_one(x) == 0.f);
  for (const float x : {88.4f, 1000.f, 3e38f, INFINITY}) CHECK(exp_of_one(x) == INFINITY);
  CHECK(std::isnan(exp_of_one(NAN)));
}

TEST_CASE("cpu math: a transposed block is its rows as columns, and lanes are joined in the order of rows") {
  Floats x[kLanes], sums[kLanes];
  for (int i = 0; i < kLanes; ++i)
    for (int l = 0; l < kLanes; ++l) x[i][l] = sums[i][l] = float(100 * i + l);
  transpose(x);
  for (int i = 0; i < kLanes; ++i)
    for (int l = 0; l < kLanes; ++l) CHECK(x[i][l] == float(100 * l + i));
  Floats most[kLanes];
  std::copy(sums, sums + kLanes, most);
  const Floats sum = sums_of(sums), largest = largest_of(most);
  for (int i = 0; i < kLanes; ++i) {
    CHECK(sum[i] == float(1600 * i + 120));
    CHECK(largest[i] == float(100 * i + 15));
  }
}

TEST_CASE(
    "cpu math: storing as f16 rounds as zt::f16 does, and loading gives its value, for numbers of all "
    "sizes") {
  int wrong = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 16 * 251) {
    float from[kLanes];
    for (int i = 0; i < kLanes; ++i)
      from[i] = std::bit_cast<float>(std::uint32_t(bits + std::uint64_t(i) * 251));
    f16 stored[kLanes];
    store(stored, load(from));
    for (int i = 0; i < kLanes; ++i) wrong += stored[i].bits != f16(from[i]).bits;
  }
  CHECK(wrong == 0);
  for (int bits = 0; bits < 65536; bits += kLanes) {
    f16 from[kLanes];
    for (int i = 0; i < kLanes; ++i) from[i].bits = std::uint16_t(bits + i);
    const Floats wide = load(from);
    for (int i = 0; i < kLanes; ++i)
      wrong += std::isnan(float(from[i])) ? !std::isnan(wide[i]) : wide[i] != float(from[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("cpu math: storing as bf16 rounds as zt::bf16 does, NaN and infinity included") {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65'521) {
    const float x = std::bit_cast<float>(std::uint32_t(bits));
    bf16 stored[kLanes];
    store(stored, splat(x));
    CHECK(stored[5].bits == bf16(x).bits);
  }
}

TEST_CASE("cpu math: some lanes are read and written without touching the others") {
  for (int count = 0; count <= kLanes; ++count) {
    float from[kLanes], to[kLanes + 1];
    for (int i = 0; i < kLanes; ++i) from[i] = float(i + 1);
    for (float& t : to) t = -1;
    store_some(to, load_some(from, count), count);
    for (int i = 0; i <= kLanes; ++i) CHECK(to[i] == (i < count ? float(i + 1) : -1.f));
  }
}

}  // namespace
}  // namespace zt::kernels
