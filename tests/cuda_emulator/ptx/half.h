// Number formats of 16 bits and fewer roundings than C++ knows, and bits of floats.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace zt::emulator::ptx {

template <typename To, typename From>
inline To from_bits(From bits) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  std::memcpy(&out, &bits, sizeof(To));
  return out;
}
inline std::uint32_t bits_of(float x) { return from_bits<std::uint32_t>(x); }
inline std::uint64_t bits_of(double x) { return from_bits<std::uint64_t>(x); }

enum class Rounding : std::uint8_t { nearest, zero, down, up };

// bfloat16: the upper half of a float.
struct Bf16 {
  std::uint16_t bits;
};
inline float to_float(Bf16 x) { return from_bits<float>(std::uint32_t{x.bits} << 16); }

// IEEE binary16.
struct F16 {
  std::uint16_t bits;
};
inline float to_float(F16 x) { return float(from_bits<_Float16>(x.bits)); }

// Rounds the magnitude `bits` (sign aside) so that its lowest `drop` bits vanish.
template <typename U>
inline U round_bits(U magnitude, bool negative, int drop, Rounding r) {
  const U low = magnitude & ((U{1} << drop) - 1), kept = magnitude >> drop;
  bool up = false;
  switch (r) {
    case Rounding::nearest: up = low > U{1} << (drop - 1) || (low == U{1} << (drop - 1) && (kept & 1)); break;
    case Rounding::zero: break;
    case Rounding::down: up = negative && low != 0; break;
    case Rounding::up: up = !negative && low != 0; break;
  }
  return kept + U{up};
}

inline Bf16 round_bf16(float x, Rounding r = Rounding::nearest) {
  const std::uint32_t u = bits_of(x);
  if (x != x) return {0x7fff};
  if (r == Rounding::nearest) return {std::uint16_t((u + 0x7fffu + (u >> 16 & 1)) >> 16)};
  if ((u & 0x7fffffff) == 0x7f800000) return {std::uint16_t(u >> 16)};
  return {std::uint16_t(round_bits(u & 0x7fffffffu, u >> 31, 16, r) | (u >> 31 << 15))};
}

inline F16 round_f16(float x, Rounding r = Rounding::nearest) {
  if (x != x) return {0x7fff};
  if (r == Rounding::nearest) return {from_bits<std::uint16_t>(_Float16(x))};
  const std::uint16_t sign = std::uint16_t(bits_of(x) >> 31 << 15);
  const float mag = std::fabs(x);
  std::uint16_t bits = from_bits<std::uint16_t>(_Float16(mag));
  if (std::isinf(mag)) return {std::uint16_t(sign | 0x7c00)};
  const bool away = (r == Rounding::up && sign == 0) || (r == Rounding::down && sign != 0);
  const float back = to_float(F16{bits});
  if (back > mag && !away) --bits;
  if (back < mag && away) ++bits;
  return {std::uint16_t(sign | bits)};
}

// A double holds the exact sum and product of two bf16 or f16 numbers in all but absurd cases; rounding it to a
// float to odd keeps what the second rounding needs.
inline float to_odd(double x) {
  float f = float(x);
  if (double(f) == x || x != x || std::isinf(f)) return f;
  if ((double(f) > x) == (x > 0)) f = from_bits<float>(bits_of(f) - 1);  // towards zero
  return from_bits<float>(bits_of(f) | 1);
}

template <typename H>
inline H round_half(double x) {
  if constexpr (std::is_same_v<H, Bf16>)
    return round_bf16(to_odd(x));
  else
    return round_f16(to_odd(x));
}

// Drops the lower 13 bits of the mantissa as the tensor cores do with tf32 operands.
inline float to_tf32(float x) { return from_bits<float>(bits_of(x) & 0xffffe000u); }
inline float round_tf32(float x) {
  const std::uint32_t u = bits_of(x);
  if (x != x || std::isinf(x)) return x;
  return from_bits<float>((u + 0x1000u) & 0xffffe000u);  // cvt.rna: ties away from zero
}

inline float flush(float x) {
  return (bits_of(x) & 0x7f800000u) == 0 ? from_bits<float>(bits_of(x) & 0x80000000u) : x;
}

// Runs f with the machine's rounding set.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding r) : before_(std::fegetround()) {
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(kModes[int(r)]);
  }
  ~RoundingScope() { std::fesetround(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  int before_;
};

}  // namespace zt::emulator::ptx
