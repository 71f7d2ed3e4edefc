// Values from one number format to another, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/dtype.h"

namespace zt {

// x rounded to the format: what the formats' constructors do, but without branches, which would keep
// the loops around it from being vectorised.
template <typename T>
inline T rounded_to(float x) {
  return T(x);
}
template <>
inline bf16 rounded_to<bf16>(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nan = (u & 0x7fffffffu) > 0x7f800000u ? 0xffffu : 0u;
  const std::uint32_t number = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  bf16 y;
  y.bits = static_cast<std::uint16_t>((number & ~nan) | ((u >> 16 | 0x40u) & nan));
  return y;
}

// Converts `count` values; `src` may be unaligned. f32, bf16 and f16 in any combination.
void convert(const void* src, Dtype src_dtype, void* dst, Dtype dst_dtype, std::int64_t count);

}  // namespace zt
