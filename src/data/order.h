// The order of training: a pure function of (seed, epoch, position), so that resuming is arithmetic and every
// number of ranks sees the same rows.
#pragma once

#include <cstdint>

namespace zt::data {

// Where position `i` of 0..n-1 goes in a random permutation of n things, without building it: a
// Feistel network on the smallest even number of bits that holds n, walked until it falls inside. Sources:
// Luby & Rackoff 1988; Black & Rogaway 2002 ("cycle walking"); ten rounds as in NIST SP 800-38G, since four leave
// the places of few rows uneven.
std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t seed, std::uint32_t epoch);

// The row that global sample number `sample` (from 0) trains on, of `rows` rows: epoch after epoch, each in
// fresh order.
inline std::int64_t row_of_sample(std::int64_t sample, std::int64_t rows, std::uint64_t seed) {
  return permuted(sample % rows, rows, seed, static_cast<std::uint32_t>(sample / rows));
}

}  // namespace zt::data
