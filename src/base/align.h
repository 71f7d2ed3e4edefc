// Sizes rounded up to whole units of alignment.
#pragma once

#include <cstdint>

namespace zt {

// The smallest multiple of `unit` that holds `bytes`.
constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace zt
