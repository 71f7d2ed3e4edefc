// Philox4x32-10 and RandomStream of base/random.h for the device: the same words.
#pragma once

#include "base/random.h"

namespace zt::kernels {

// The key and the upper counter words of a RandomStream.
struct DeviceRandom {
  std::uint32_t key0 = 0, key1 = 0, a = 0, b = 0;

  DeviceRandom() = default;
  explicit DeviceRandom(const RandomStream& s)
      : key0(std::uint32_t(s.seed) ^ (std::uint32_t(s.purpose) * 0x9E3779B9u)),
        key1(std::uint32_t(s.seed >> 32)),
        a(s.a),
        b(s.b) {}

  // Four words at a 64-bit index. Source: Salmon et al. 2011, section 3.3.
  __device__ uint4 words(std::uint64_t index) const {
    uint4 c{std::uint32_t(index), std::uint32_t(index >> 32), a, b};
    std::uint32_t k0 = key0, k1 = key1;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.x;
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c.z;
      c = {std::uint32_t(p1 >> 32) ^ c.y ^ k0, std::uint32_t(p1), std::uint32_t(p0 >> 32) ^ c.w ^ k1,
           std::uint32_t(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }
  // The word of one element: word e % 4 at index e / 4.
  __device__ std::uint32_t word(std::uint64_t element) const {
    const uint4 w = words(element / 4);
    const std::uint32_t low = element & 1 ? w.y : w.x, high = element & 1 ? w.w : w.z;
    return element & 2 ? high : low;
  }
};

// Uniform in [0, 1) with 24 bits.
__device__ inline float device_uniform(std::uint32_t word) { return float(word >> 8) * 0x1p-24f; }

}  // namespace zt::kernels
