#include "data/mixture.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"

namespace zt::data {
namespace {

using Shares = std::vector<std::int64_t>;

std::vector<Draw> draws(const Mixture& mixture, std::int64_t count) {
  std::vector<Draw> all;
  for (std::int64_t n = 0; n < count; ++n) all.push_back(mixture.at(n));
  return all;
}

TEST_CASE("mixture: weights 3 to 1 give 6 and 2 of 8 draws") {
  const Mixture mixture({3, 1});
  Shares counts(2);
  for (const Draw& draw : draws(mixture, 8)) CHECK(draw.number == counts[draw.source]++);
  CHECK(counts == Shares{6, 2});
}

TEST_CASE("mixture: after any number of draws each source has had floor or ceiling of its due") {
  std::vector<Shares> cases = {{1},       {1, 1},       {3, 1},   {7, 3},         {1, 1, 1},
                               {5, 3, 2}, {1, 10, 100}, {999, 1}, {70, 20, 9, 1}, {1, 1, 1, 1, 1, 1, 1, 13}};
  const RandomStream random{1, Purpose::sampling, 0, 0};
  for (std::uint64_t i = 0; i < 30; ++i) {
    Shares shares;
    for (std::uint64_t s = 0; s < 2 + i % 7; ++s)
      shares.push_back(1 + static_cast<std::int64_t>(random.u64(i * 100 + s) % 1000));
    cases.push_back(shares);
  }
  for (const Shares& shares : cases) {
    CAPTURE(shares.size());
    const std::int64_t sum = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const Mixture mixture(shares);
    Shares counts(shares.size());
    for (std::int64_t n = 1; n <= 3000; ++n) {
      ++counts[mixture.at(n - 1).source];
      for (std::size_t s = 0; s < shares.size(); ++s) {
        const std::int64_t floor = n * shares[s] / sum, ceiling = (n * shares[s] + sum - 1) / sum;
        REQUIRE(counts[s] >= floor);
        REQUIRE(counts[s] <= ceiling);
      }
    }
  }
}

TEST_CASE("mixture: any draw can be asked for, in any order") {
  const Mixture mixture({13, 7, 1});
  const std::vector<Draw> straight = draws(mixture, 20000);
  const Mixture fresh({13, 7, 1});
  for (const std::int64_t n : {19999, 0, 4096, 4095, 12345, 8192, 1, 19998}) {
    const Draw draw = fresh.at(n);
    CHECK(draw.source == straight[static_cast<std::size_t>(n)].source);
    CHECK(draw.number == straight[static_cast<std::size_t>(n)].number);
  }
}

TEST_CASE("mixture: decimal weights are exact, others as near as a billionth") {
  CHECK(shares_of({0.7, 0.3}) == Shares{7, 3});
  CHECK(shares_of({3, 1}) == Shares{3, 1});
  CHECK(shares_of({0.25, 0.125, 0.625}) == Shares{2, 1, 5});
  CHECK(shares_of({2.5}) == Shares{1});
  const Shares thirds = shares_of({1.0 / 3, 2.0 / 3});
  CHECK(std::abs(static_cast<double>(thirds[0]) / static_cast<double>(thirds[0] + thirds[1]) - 1.0 / 3) <
        1e-9);
}

}  // namespace
}  // namespace zt::data
