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

// IEEE half. Storage only.
struct f16 {
  std::uint16_t bits;
  f16() = default;
  explicit f16(float x);
  explicit operator float() const;
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
