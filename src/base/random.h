// Counter-based random numbers: a pure function of a key and a counter, so nothing has to be saved or
// replayed.
#pragma once

#include <array>
#include <cstdint>

namespace zt {

// Philox4x32-10: four random 32-bit words from a 128-bit counter and a 64-bit key.
// Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {std::uint32_t(p1 >> 32) ^ c[1] ^ k[0], std::uint32_t(p1), std::uint32_t(p0 >> 32) ^ c[3] ^ k[1],
         std::uint32_t(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

// What a stream of random numbers is for. Two purposes never share numbers.
enum class Purpose : std::uint32_t { init = 1, dropout = 2, data_order = 3, sampling = 4, test = 5 };

// Names one stream of random words: f(seed, purpose, a, b) and then an index.
struct RandomStream {
  std::uint64_t seed = 0;
  Purpose purpose = Purpose::test;
  std::uint32_t a = 0, b = 0;  // e.g. step and block

  // Four words at a 64-bit index.
  std::array<std::uint32_t, 4> words(std::uint64_t index) const {
    return philox({std::uint32_t(index), std::uint32_t(index >> 32), a, b},
                  {std::uint32_t(seed) ^ (std::uint32_t(purpose) * 0x9E3779B9u), std::uint32_t(seed >> 32)});
  }
  std::uint64_t u64(std::uint64_t index) const {
    const auto w = words(index);
    return std::uint64_t{w[1]} << 32 | w[0];
  }
};

// Uniform in [0, 1) with 24 bits.
inline float uniform(std::uint32_t word) { return float(word >> 8) * 0x1p-24f; }

// Two standard normal numbers from two words (Box & Muller 1958).
std::array<float, 2> normal_pair(std::uint32_t w0, std::uint32_t w1);

}  // namespace zt
