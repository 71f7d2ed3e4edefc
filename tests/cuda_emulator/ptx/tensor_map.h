// What the emulator puts into the 128 bytes of a CUtensorMap, whose real contents are not documented. The stand-in
// for cuTensorMapEncodeTiled writes one, cp.async.bulk.tensor reads it.
#pragma once

#include <cstdint>

namespace zt::emulator::ptx {

struct TensorMap {
  static constexpr std::uint32_t kMagic = 0x5a54544d;
  std::uint32_t magic = kMagic;
  std::uint8_t rank = 0;  // 1..5
  std::uint8_t element_bytes = 0;
  std::uint8_t swizzle = 0;       // bytes: 0, 32, 64, 128
  std::uint8_t not_a_number = 0;  // 1: bytes outside the tensor are NaN instead of 0
  std::uint64_t address = 0;
  std::uint32_t size[5] = {};    // in elements, innermost first
  std::uint32_t box[5] = {};     // in elements
  std::uint64_t stride[4] = {};  // in bytes, of dimensions 1..4
};
static_assert(sizeof(TensorMap) <= 128);

}  // namespace zt::emulator::ptx
