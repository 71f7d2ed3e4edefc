// Which source each sample of a run comes from.
#pragma once

#include <cstdint>
#include <vector>

namespace zt::data {

// Whole-number shares in the proportion of `weights` (above 0): exact for weights of up to six decimal places.
std::vector<std::int64_t> shares_of(const std::vector<double>& weights);

struct Draw {
  std::size_t source = 0;
  std::int64_t number = 0;  // how many earlier draws came from this source
};

// A fixed sequence of draws in which, after any n of them, each source has had floor or ceiling of n x its share.
//
// Source: Tijdeman 1980, "The chairman assignment problem", Discrete Mathematics 32: no source is ever further than
// 1 - 1 / (2k - 2) from its due, k sources.
class Mixture {
 public:
  // shares[s] > 0; their sum is at most 2^40.
  explicit Mixture(std::vector<std::int64_t> shares);
  // Draw number n, from 0. Fast when asked in rising order, else at most kStride steps from a known place; going far
  // ahead walks there once. Not for several threads at once.
  Draw at(std::int64_t n) const;

 private:
  static constexpr std::int64_t kStride = 4096;
  struct Place {
    std::int64_t n = 0;                // draws so far
    std::vector<std::int64_t> counts;  // of each source
  };
  std::size_t next(const Place& place) const;
  void step(Place& place) const;

  std::vector<std::int64_t> shares_;
  std::int64_t sum_ = 0;
  mutable Place here_;
  mutable std::vector<Place> known_;  // every kStride draws
};

}  // namespace zt::data
