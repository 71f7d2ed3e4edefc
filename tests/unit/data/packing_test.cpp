#include "data/packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"

namespace zt::data {
namespace {

using Lengths = std::vector<std::int64_t>;

PackedDocuments packed(const Lengths& lengths, std::int64_t room) {
  return pack(static_cast<std::int64_t>(lengths.size()), room,
              [&](std::int64_t d) { return lengths[static_cast<std::size_t>(d)]; });
}

// Lengths as instruction data have them: many short, few long.
Lengths random_lengths(std::size_t count, std::int64_t longest, std::uint64_t seed) {
  const RandomStream random{seed, Purpose::sampling, 0, 0};
  Lengths lengths;
  for (std::size_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(random.u64(i)) * 0x1p-64;
    lengths.push_back(1 + static_cast<std::int64_t>(u * u * u * static_cast<double>(longest - 1)));
  }
  return lengths;
}

TEST_CASE(
    "packing: every document is in exactly one row, no row is overfull, and the order is that of the "
    "source") {
  for (const std::size_t count : {0u, 1u, 2u, 100u, 4096u, 4097u, 20000u}) {
    CAPTURE(count);
    const Lengths lengths = random_lengths(count, 512, count);
    const PackedDocuments rows = packed(lengths, 512);
    std::set<std::int64_t> seen;
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      std::int64_t sum = 0;
      CHECK_FALSE(rows.row(r).empty());
      CHECK(std::ranges::is_sorted(rows.row(r)));
      for (const std::int64_t d : rows.row(r)) {
        sum += lengths[static_cast<std::size_t>(d)];
        CHECK(seen.insert(d).second);
      }
      CHECK(sum <= 512);
    }
    CHECK(seen.size() == count);
  }
}

TEST_CASE("packing: best fit decreasing finds the exact packing of complementary lengths") {
  // 9+1, 8+2, ... : five full rows, whatever the order.
  CHECK(packed({1, 2, 3, 4, 5, 5, 6, 7, 8, 9}, 10).rows() == 5);
  CHECK(packed({9, 1, 8, 2, 7, 3, 6, 4, 5, 5}, 10).rows() == 5);
  CHECK(packed({10, 10, 10}, 10).rows() == 3);
  CHECK(packed({4, 4, 4, 4}, 10).rows() == 2);
}

TEST_CASE(
    "packing: never more than 11/9 of the fewest possible rows, and nearly full for many short documents") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Lengths lengths = random_lengths(3000, 1024, seed);
    const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const std::int64_t rows = packed(lengths, 1024).rows(), fewest = (sum + 1023) / 1024;
    CAPTURE(seed);
    CHECK(rows <= fewest * 11 / 9 + 1);
    CHECK(static_cast<double>(sum) / static_cast<double>(rows * 1024) > 0.98);
  }
}

TEST_CASE("packing: the same documents give the same rows") {
  const Lengths lengths = random_lengths(10000, 300, 7);
  const PackedDocuments a = packed(lengths, 512), b = packed(lengths, 512);
  CHECK(a.documents == b.documents);
  CHECK(a.begins == b.begins);
}

}  // namespace
}  // namespace zt::data
