// What configure() and the environment set.
#pragma once

#include <cstdint>

#include "cuda_emulator/emulator.h"

namespace zt::emulator {

struct Settings {
  std::uint64_t seed = 1;
  Policy policy = Policy::random;
  Order order = Order::random;
  bool check = true;
  int patience_ms = 60000;
  int devices = 8;
  std::size_t device_memory = std::size_t{16} << 30;
  bool verbose = false;
};

Settings& settings();

// Small and the same on every machine (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }

 private:
  std::uint64_t state_;
};

}  // namespace zt::emulator
