#include "measure/rounds.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/threads.h"

namespace zt::measure {

TEST_CASE("rounds: the median is the middle value, or the mean of the middle two") {
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 100, 2}) == 3);
}

TEST_CASE("rounds: what ranks measured is averaged number by number, on every rank") {
  comm::run_threads(3, 10, [](comm::Communicator& ranks) {
    const double r = ranks.rank();
    CHECK(mean_over_ranks(ranks, {r, 10 * r + 1}) == std::vector<double>{1, 11});
  });
}

TEST_CASE("rounds: a call is timed as long as it takes, whichever rank is asked") {
  for (const int size : {1, 2}) {
    CAPTURE(size);
    comm::run_threads(size, 10, [](comm::Communicator& ranks) {
      const double seconds =
          seconds_of(ranks, {0.02, 3}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(4)); });
      CHECK(seconds > 0.004);
      CHECK(seconds < 0.04);
    });
  }
}

TEST_CASE("rounds: all ranks make the same number of calls, so that calls may be collectives") {
  std::atomic<int> calls[2] = {};
  comm::run_threads(2, 10, [&](comm::Communicator& ranks) {
    seconds_of(ranks, {0.01, 3}, [&] {
      if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++calls[ranks.rank()];
    });
  });
  CHECK(calls[0] == calls[1]);
  CHECK(calls[0] > 5);
}

}  // namespace zt::measure
