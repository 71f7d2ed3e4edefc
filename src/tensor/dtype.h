// Number formats of stored values, and conversions by round-to-nearest-even.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

namespace zt {

enum class Dtype { f32, bf16, f16, i32 };

constexpr int size_of(Dtype d) { return d == Dtype::f32 || d == Dtype::i32 ? 4 : 2; }
const char* name(Dtype d);                                // "float32", "bfloat16", "float16", "int32"
bool parse_dtype(const std::string& text, Dtype* dtype);  // the recipe's words: float32 bfloat16 float16

// Upper half of an IEEE single: 8 bits of exponent, 7 of fraction.
struct bf16 {
  std::uint16_t bits;
  bf16() = default;
  explicit bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>(u >> 16 | 0x40);  // NaN stays NaN
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// IEEE half: 5 bits of exponent, 10 of fraction; largest 65504 (65520 and more round to infinity), smallest
// 2^-24. A storage format, like bf16: arithmetic is done in fp32. Both conversions choose among ready values
// instead of branching, so that loops around them can be vectorised, and agree with the processor's (F16C).
struct f16 {
  std::uint16_t bits;
  f16() = default;
  explicit f16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    // Below 2^-14: adding 0.5 lets the adder round at 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t finite =
        magnitude < 0x38800000u ? std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u : normal;
    const std::uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    const std::uint32_t beyond = magnitude > 0x7f800000u ? nan : 0x7c00u;  // from 65520 on
    bits = static_cast<std::uint16_t>(sign | (magnitude >= 0x477ff000u ? beyond : finite));
  }
  explicit operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, magnitude = bits & 0x7fffu;
    const std::uint32_t shifted = magnitude << 13;
    // Below 2^-14: the fraction as that of a number in [2^-14, 2^-13), whose leading one is taken off again.
    const float small = std::bit_cast<float>(shifted + 0x38800000u) - 0x1p-14f;
    const std::uint32_t finite =
        magnitude < 0x400u ? std::bit_cast<std::uint32_t>(small) : shifted + 0x38000000u;
    return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : shifted | 0x7f800000u));
  }
};

template <typename T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct dtype_of<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct dtype_of<f16> {
  static constexpr Dtype value = Dtype::f16;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};

}  // namespace zt
