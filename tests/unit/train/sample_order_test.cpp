#include "train/sample_order.h"

#include <doctest/doctest.h>

#include <set>

#include "base/random.h"

namespace zt::train {
namespace {

TEST_CASE("sample order: with nothing left out a place is a number") {
  const SampleOrder order;
  for (const std::int64_t n : {0, 1, 17, 1 << 30}) {
    CHECK(order.number(n) == n);
    CHECK(order.places_before(n) == n);
  }
}

TEST_CASE("sample order: what is left out comes nowhere, everything else once and in order") {
  const RandomStream random{.seed = 3};
  for (std::uint64_t round = 0; round < 200; ++round) {
    const auto words = random.words(round);
    SampleOrder order;
    std::set<std::int64_t> out;
    for (int cut = 0; cut < 4; ++cut) {
      const std::int64_t place = words[static_cast<std::size_t>(cut)] % 40, count = 1 + words[0] / 7 % 6;
      for (std::int64_t i = 0; i < count; ++i) out.insert(order.number(place + i));
      order.leave_out(place, count);
    }
    std::int64_t place = 0;
    for (std::int64_t number = 0; number < 100; ++number) {
      CHECK(order.places_before(number) == place);
      if (out.contains(number)) continue;
      CHECK(order.number(place) == number);
      ++place;
    }
    for (std::size_t i = 1; i < order.left_out().size(); ++i)
      CHECK(order.left_out()[i].first > order.left_out()[i - 1].first + order.left_out()[i - 1].count);
    CHECK(SampleOrder(order.left_out()).number(37) == order.number(37));
  }
}

}  // namespace
}  // namespace zt::train
