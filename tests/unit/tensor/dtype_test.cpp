#include "tensor/dtype.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/random.h"
#include "reference/rounding.h"

namespace zt {
namespace {

constexpr Dtype kAll[] = {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::i32};

// The value of a pattern by the definition in IEEE 754, clause 3.4.
double value_of(Dtype dtype, std::uint16_t bits) {
  const int fraction_bits = dtype == Dtype::bf16 ? 7 : 10, bias = dtype == Dtype::bf16 ? 127 : 15;
  const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 2 * bias + 1) return fraction == 0 ? sign * INFINITY : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <typename T>
void check_all_patterns() {
  constexpr Dtype kDtype = dtype_of<T>::value;
  int wrong_values = 0, changed = 0, lost_nans = 0;
  for (int i = 0; i < 65536; ++i) {
    T x;
    x.bits = std::uint16_t(i);
    const float wide = float(x);
    wrong_values += !same(double(wide), value_of(kDtype, x.bits));
    if (std::isnan(wide))
      lost_nans += !std::isnan(float(T(wide))) || std::signbit(float(T(wide))) != std::signbit(wide);
    else
      changed += T(wide).bits != x.bits;
  }
  CHECK(wrong_values == 0);
  CHECK(changed == 0);
  CHECK(lost_nans == 0);
}

// Finite numbers of every exponent; around each number of the format also the tie above it and the tie's
// neighbours.
template <typename T>
void check_rounding() {
  constexpr Dtype kDtype = dtype_of<T>::value;
  int checked = 0, wrong = 0;
  float wrong_at = 0;
  const auto check = [&](float x) {
    ++checked;
    if (same(double(float(T(x))), reference::rounded(kDtype, double(x)))) return;
    ++wrong;
    wrong_at = x;
  };
  const RandomStream stream{.seed = 1};
  for (std::uint64_t i = 0; i < 500'000; ++i)
    for (const std::uint32_t word : stream.words(i))
      if (const float x = std::bit_cast<float>(word); std::isfinite(x)) check(x);
  for (int i = 0; i < 65535; ++i) {
    T low, high;
    low.bits = std::uint16_t(i);
    high.bits = std::uint16_t(i + 1);
    const double a = double(float(low)), b = double(float(high));
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const float tie = float((a + b) / 2);
    for (const float x : {tie, std::nextafter(tie, -INFINITY), std::nextafter(tie, INFINITY)}) check(x);
  }
  CAPTURE(wrong_at);
  CHECK(wrong == 0);
  CHECK(checked > 2'000'000);
}

TEST_CASE("bf16, f16: each of the 65536 patterns has its IEEE value, and comes back from f32 unchanged") {
  check_all_patterns<bf16>();
  check_all_patterns<f16>();
}

TEST_CASE("bf16, f16: rounding is to the nearest, ties to even, at every exponent") {
  check_rounding<bf16>();
  check_rounding<f16>();
}

TEST_CASE("bf16, f16: numbers beyond the largest become infinity only from half a spacing above it") {
  CHECK(f16(65504.f).bits == 0x7bff);
  CHECK(f16(std::nextafter(65520.f, 0.f)).bits == 0x7bff);
  CHECK(f16(65520.f).bits == 0x7c00);
  CHECK(f16(-65520.f).bits == 0xfc00);
  CHECK(f16(1e30f).bits == 0x7c00);
  CHECK(bf16(0x1.fep127f).bits == 0x7f7f);
  CHECK(bf16(std::nextafter(0x1.ffp127f, 0.f)).bits == 0x7f7f);
  CHECK(bf16(0x1.ffp127f).bits == 0x7f80);
  CHECK(bf16(-std::numeric_limits<float>::max()).bits == 0xff80);
  CHECK(bf16(INFINITY).bits == 0x7f80);
  CHECK(f16(-INFINITY).bits == 0xfc00);
}

TEST_CASE("bf16, f16: a NaN whose payload sits in the dropped bits does not become infinity") {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
    CAPTURE(bits);
    CHECK(std::isnan(float(bf16(std::bit_cast<float>(bits)))));
    CHECK(std::isnan(float(f16(std::bit_cast<float>(bits)))));
  }
}

TEST_CASE("dtype: names are those of recipes and messages; i32 is no choice of a recipe") {
  for (const Dtype d : kAll) {
    Dtype parsed = Dtype::i32;
    CHECK(parse_dtype(name(d), &parsed) == (d != Dtype::i32));
    CHECK(parsed == d);
  }
  Dtype untouched = Dtype::f16;
  for (const char* bad : {"", "bf16", "fp32", "Float32", "float32 ", "double"})
    CHECK_FALSE(parse_dtype(bad, &untouched));
  CHECK(untouched == Dtype::f16);
}

TEST_CASE("dtype: sizes are those of the C++ types") {
  CHECK(size_of(Dtype::f32) == sizeof(float));
  CHECK(size_of(Dtype::i32) == sizeof(std::int32_t));
  CHECK(size_of(Dtype::bf16) == sizeof(bf16));
  CHECK(size_of(Dtype::f16) == sizeof(f16));
}

}  // namespace
}  // namespace zt
