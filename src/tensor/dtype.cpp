#include "tensor/dtype.h"

namespace zt {

const char* name(Dtype d) {
  switch (d) {
    case Dtype::f32: return "float32";
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
    case Dtype::i32: return "int32";
  }
  return "?";
}

bool parse_dtype(const std::string& text, Dtype* dtype) {
  for (Dtype d : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    if (text == name(d)) {
      *dtype = d;
      return true;
    }
  }
  return false;
}

f16::f16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(u >> 16 & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = sign | 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    bits = sign | 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 lets the adder round at 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u));
  } else {
    bits =
        static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13));
  }
}

f16::operator float() const {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = float(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

}  // namespace zt
