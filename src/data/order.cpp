#include "data/order.h"

#include <bit>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

namespace zt::data {

std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t seed, std::uint32_t epoch) {
  if (i < 0 || i >= n) throw Error(Blame::bug, cat("position ", i, " of ", n, " rows was asked for"));
  const int half = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;
  if (half == 0) return 0;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const RandomStream random{seed, Purpose::data_order, epoch, 0};
  auto x = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = x >> half, right = x & mask;
    for (std::uint64_t round = 0; round < 10; ++round) {
      const std::uint64_t mixed = left ^ (random.u64(round << 60 | right) & mask);
      left = right;
      right = mixed;
    }
    x = left << half | right;
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

}  // namespace zt::data
