#include "train/balance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace zt::train {
namespace {

using Slots = std::vector<std::int64_t>;

TEST_CASE("balance: rows of one cost, and a single rank, keep their order") {
  CHECK(deal(std::vector<double>(8, 3.0), 2, 2) == Slots{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(deal(std::vector<double>{1, 9, 3, 4}, 1, 1) == Slots{0, 1, 2, 3});
  CHECK(imbalance(std::vector<double>(8, 3.0), Slots{0, 1, 2, 3, 4, 5, 6, 7}, 2, 2) == doctest::Approx(1));
}

TEST_CASE("balance: long rows come together, and each rank gets its part of them") {
  // Costs 8 8 1 1 on two ranks: in order one rank would wait for the other twice.
  const std::vector<double> costs = {8, 1, 8, 1};
  const Slots slots = deal(costs, 1, 2);
  CHECK(slots == Slots{0, 2, 1, 3});
  CHECK(imbalance(costs, slots, 1, 2) == doctest::Approx(1));
  CHECK(imbalance(costs, Slots{0, 1, 2, 3}, 1, 2) == doctest::Approx(16.0 * 2 / 18));
}

TEST_CASE("balance: every sample has one slot, and random costs are at most a few per cent from even") {
  const RandomStream random{3, Purpose::sampling, 0, 0};
  for (const int ranks : {2, 3, 4, 8}) {
    for (const std::int64_t rows : {1, 2, 4}) {
      std::vector<double> costs;
      for (std::int64_t i = 0; i < 16 * rows * ranks; ++i) {
        const double u = static_cast<double>(random.u64(static_cast<std::uint64_t>(i))) * 0x1p-64;
        costs.push_back(1 + 99 * u * u);
      }
      const Slots slots = deal(costs, rows, ranks);
      Slots sorted = slots, all(costs.size()), plain(costs.size());
      std::ranges::sort(sorted);
      std::iota(all.begin(), all.end(), 0);
      std::iota(plain.begin(), plain.end(), 0);
      CHECK(sorted == all);
      const double after = imbalance(costs, slots, rows, ranks),
                   before = imbalance(costs, plain, rows, ranks);
      CAPTURE(ranks);
      CAPTURE(rows);
      CHECK(after < 1.08);
      CHECK(after < before);
    }
  }
}

TEST_CASE("balance: samples that do not exist leave the others to all ranks") {
  const std::vector<double> costs = {5, 5, 5, 0, 0, 0, 0, 0};
  const Slots slots = deal(costs, 2, 2);
  // Three rows over the four slots of the first micro-batch, none in the second.
  CHECK(std::ranges::count_if(std::span(slots).first(4), [](std::int64_t s) { return s < 3; }) == 3);
  CHECK(std::ranges::count_if(std::span(slots).first(2), [](std::int64_t s) { return s < 3; }) >= 1);
}

}  // namespace
}  // namespace zt::train
