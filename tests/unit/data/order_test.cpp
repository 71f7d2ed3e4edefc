#include "data/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"

namespace zt::data {
namespace {

std::vector<std::int64_t> order(std::int64_t n, std::uint64_t seed, std::uint32_t epoch) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(permuted(i, n, seed, epoch));
  return rows;
}

TEST_CASE("order: every row comes exactly once, for every number of rows") {
  for (std::int64_t n = 1; n <= 300; ++n) {
    CAPTURE(n);
    for (const std::uint32_t epoch : {0u, 1u, 4000000000u}) {
      std::vector<std::int64_t> rows = order(n, 42, epoch);
      std::ranges::sort(rows);
      for (std::int64_t i = 0; i < n; ++i) REQUIRE(rows[std::size_t(i)] == i);
    }
  }
  for (const std::int64_t n : {65535, 65536, 65537, 100003}) {
    const std::vector<std::int64_t> rows = order(n, 7, 3);
    CHECK(std::set<std::int64_t>(rows.begin(), rows.end()).size() == std::size_t(n));
    CHECK(*std::ranges::max_element(rows) == n - 1);
  }
}

TEST_CASE("order: very many rows need no table and stay in range") {
  const std::int64_t n = (std::int64_t{1} << 40) + 12345;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t row = permuted(i * (n / 1000), n, 1, 0);
    CHECK(row >= 0);
    CHECK(row < n);
    seen.insert(row);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("order: it depends on seed and epoch and on nothing else") {
  const auto first = order(100, 42, 0);
  CHECK(order(100, 42, 0) == first);
  std::set<std::vector<std::int64_t>> different = {first};
  for (std::uint32_t epoch = 1; epoch < 50; ++epoch) different.insert(order(100, 42, epoch));
  for (std::uint64_t seed = 43; seed < 93; ++seed) different.insert(order(100, seed, 0));
  different.insert(order(100, 42 + (std::uint64_t{1} << 32), 0));
  CHECK(different.size() == 101);
}

TEST_CASE("order: a row's place is even over epochs") {
  // 10 rows, 20,000 epochs: each (row, place) 2,000 times, standard deviation 42.
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  for (std::uint32_t epoch = 0; epoch < 20000; ++epoch)
    for (std::int64_t i = 0; i < 10; ++i) ++counts[{i, permuted(i, 10, 42, epoch)}];
  CHECK(counts.size() == 100);
  for (const auto& [place, count] : counts) CHECK(std::abs(count - 2000) < 5 * 42);
}

TEST_CASE(
    "order: two epochs of twelve rows hold each row twice, in different order, whatever the batch size") {
  std::vector<std::int64_t> rows;
  for (std::int64_t sample = 0; sample < 24; ++sample) rows.push_back(row_of_sample(sample, 12, 42));
  CHECK(std::vector(rows.begin(), rows.begin() + 12) != std::vector(rows.begin() + 12, rows.end()));
  for (const auto half : {0, 12}) {
    std::set<std::int64_t> once(rows.begin() + half, rows.begin() + half + 12);
    CHECK(once.size() == 12);
  }
}

TEST_CASE("order: resuming is arithmetic: sample by sample is the same from any start") {
  // 10 rows, batch 2, 3 epochs; stopped after 4, 7 and 11 steps.
  const auto batch = [](std::int64_t step) {
    return std::pair(row_of_sample(2 * step, 10, 9), row_of_sample(2 * step + 1, 10, 9));
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> straight, resumed;
  for (std::int64_t step = 0; step < 15; ++step) straight.push_back(batch(step));
  for (const auto& [from, to] : {std::pair(0, 4), {4, 7}, {7, 11}, {11, 15}})
    for (std::int64_t step = from; step < to; ++step) resumed.push_back(batch(step));
  CHECK(resumed == straight);
}

TEST_CASE("order: a position outside is a bug and says so") {
  CHECK_THROWS_AS(permuted(5, 5, 1, 0), Error);
  CHECK_THROWS_AS(permuted(-1, 5, 1, 0), Error);
  CHECK_THROWS_AS(permuted(0, 0, 1, 0), Error);
}

}  // namespace
}  // namespace zt::data
