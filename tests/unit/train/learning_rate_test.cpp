#include "train/learning_rate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace zt::train {

using recipe::LrSchedule;
using recipe::ScheduleName;

static std::vector<double> rates(const LrSchedule& schedule, double peak, std::int64_t T) {
  std::vector<double> list;
  for (std::int64_t t = 1; t <= T; ++t) list.push_back(learning_rate(schedule, peak, t, T));
  return list;
}

// A final fall belongs to wsd alone.
static std::optional<std::int64_t> fall_of(ScheduleName name, std::int64_t steps) {
  return name == ScheduleName::wsd ? std::optional(steps) : std::nullopt;
}

static void check_rates(const LrSchedule& schedule, double peak, const std::vector<double>& expected) {
  const std::vector<double> actual = rates(schedule, peak, static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i + 1);
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

// Step 1 is above 0, step W has the peak.
TEST_CASE(
    "learning rate: warm-up of four steps to 1e-3 is exactly 2.5e-4, 5e-4, 7.5e-4, 1e-3, for every "
    "schedule") {
  for (const ScheduleName name :
       {ScheduleName::cosine, ScheduleName::linear, ScheduleName::constant, ScheduleName::wsd}) {
    const LrSchedule schedule{name, 4, 0.1, fall_of(name, 10)};
    const std::vector<double> all = rates(schedule, 1e-3, 100);
    CHECK(std::vector(all.begin(), all.begin() + 4) == std::vector{2.5e-4, 5e-4, 7.5e-4, 1e-3});
  }
}

// The rows of the manual's worked table, by hand: peak 1, lowest 0.1.
TEST_CASE("learning rate: the worked table, ten steps with two of warm-up") {
  // cosine: 0.55 + 0.45 cos(pi r), r = (t - 2) / 8.
  const double a = std::sqrt(2 + std::sqrt(2)) / 2, b = std::sqrt(2) / 2, c = std::sqrt(2 - std::sqrt(2)) / 2;
  check_rates({ScheduleName::cosine, 2, 0.1, std::nullopt}, 1.0,
              {0.5, 1, 0.55 + 0.45 * a, 0.55 + 0.45 * b, 0.55 + 0.45 * c, 0.55, 0.55 - 0.45 * c,
               0.55 - 0.45 * b, 0.55 - 0.45 * a, 0.1});
  check_rates({ScheduleName::linear, 2, 0.1, std::nullopt}, 1.0,
              {0.5, 1, 0.8875, 0.775, 0.6625, 0.55, 0.4375, 0.325, 0.2125, 0.1});
  check_rates({ScheduleName::constant, 2, 0.1, std::nullopt}, 1.0, {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  check_rates({ScheduleName::wsd, 2, 0.1, 3}, 1.0, {0.5, 1, 1, 1, 1, 1, 1, 0.7, 0.4, 0.1});
}

TEST_CASE("learning rate: after decay_steps a cosine or linear schedule stays at its lowest") {
  check_rates({ScheduleName::linear, 0, 0.5, 4}, 2.0, {1.75, 1.5, 1.25, 1, 1, 1});
  check_rates({ScheduleName::cosine, 0, 0.0, 2}, 2.0, {1, 0, 0, 0});
}

TEST_CASE("learning rate: every edge is finite, above 0 and at most the peak") {
  for (const ScheduleName name :
       {ScheduleName::cosine, ScheduleName::linear, ScheduleName::constant, ScheduleName::wsd}) {
    for (const std::int64_t T : {1, 2, 3, 10, 11}) {
      for (const std::int64_t W : {std::int64_t{0}, std::int64_t{1}, T - 1, T}) {
        CAPTURE(static_cast<int>(name));
        CAPTURE(T);
        CAPTURE(W);
        const std::vector<double> all =
            rates({name, W, 0.1, fall_of(name, std::max<std::int64_t>(1, T - W))}, 3e-4, T);
        for (const double rate : all) {
          CHECK(std::isfinite(rate));
          CHECK(rate > 0);
          CHECK(rate <= 3e-4);
        }
        if (W > 0) CHECK(all[static_cast<std::size_t>(W) - 1] == 3e-4);
        if (W < T && name != ScheduleName::constant) CHECK(all.back() == doctest::Approx(3e-5));
      }
    }
  }
}

}  // namespace zt::train
