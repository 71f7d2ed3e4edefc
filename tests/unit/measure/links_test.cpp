#include "measure/links.h"

#include <doctest/doctest.h>

#include "comm/threads.h"
#include "measure/timed_ranks.h"

namespace zt::measure {

TEST_CASE("links: a line is found again, from messages of 4 KB to 64 MB alike") {
  for (const double bandwidth : {1e8, 2.5e10}) {
    for (const double latency : {0.0, 3e-6, 1e-3}) {
      CAPTURE(bandwidth);
      CAPTURE(latency);
      std::vector<double> bytes, seconds;
      for (double b = 4096; b < 1e8; b *= 4) {
        bytes.push_back(b);
        seconds.push_back(latency + b / bandwidth);
      }
      const plan::Link link = fit_link(bytes, seconds);
      CHECK(link.bandwidth == doctest::Approx(bandwidth).epsilon(1e-6));
      CHECK(link.latency == doctest::Approx(latency).epsilon(1e-6));
    }
  }
}

TEST_CASE("links: an odd time neither makes a latency negative nor a bandwidth endless") {
  // Large messages slower than in proportion: the line through them meets small ones below zero.
  const plan::Link steep = fit_link({1e3, 1e6, 2e6}, {1e-7, 1e-3, 3e-3});
  CHECK(steep.latency == 0);
  CHECK(steep.bandwidth > 1e8);
  CHECK(steep.bandwidth < 1e10);
  // Large messages that came sooner than small ones.
  const plan::Link falling = fit_link({1e3, 1e6}, {2e-3, 1e-3});
  CHECK(falling.bandwidth == doctest::Approx(1e9));
  CHECK(falling.latency == doctest::Approx(1e-3));
}

TEST_CASE("links: collectives and lanes of ranks are measured, and one rank has none") {
  Options quick;
  quick.quick = true;
  for (const int size : {1, 2, 3}) {
    CAPTURE(size);
    comm::run_threads(size, 60, [&](comm::Communicator& ranks) {
      const Moving moving = measure_moving(ranks, quick);
      for (const plan::Link& link : {moving.gather, moving.reduce}) {
        CHECK((link.bandwidth > 0) == (size > 1));
        CHECK(link.bandwidth < 1e12);
        CHECK(link.latency >= 0);
        CHECK(link.latency < 1);
      }
      for (const double speed : {moving.overlap_compute, moving.overlap_comm}) {
        CHECK(speed >= 0.2);
        CHECK(speed <= 1);
      }
      if (size == 1) CHECK(moving.overlap_compute == 1);
    });
  }
}

TEST_CASE("timed ranks: collectives give what they give, and are counted by the bytes a rank gets") {
  comm::run_threads(3, 60, [](comm::Communicator& ranks) {
    TimedRanks timed(ranks);
    CHECK(timed.rank() == ranks.rank());
    CHECK(timed.transport() == "threads");
    std::vector<float> whole(3 * 16, 0.f);
    for (int i = 0; i < 16; ++i) whole[std::size_t(16 * ranks.rank() + i)] = float(ranks.rank() + 1);
    timed.all_gather(whole.data(), 64);
    for (int r = 0; r < 3; ++r) CHECK(whole[std::size_t(16 * r)] == float(r + 1));
    timed.reduce_scatter(whole.data(), Dtype::f32, Dtype::bf16, 16);
    CHECK(whole[std::size_t(16 * ranks.rank())] == float(3 * (ranks.rank() + 1)));
    timed.all_reduce(whole.data(), Dtype::f32, Dtype::f32, 16);
    double mine = ranks.rank(), all[3];
    timed.exchange<double>({&mine, 1}, all);
    CHECK(all[2] == 2);
    timed.broadcast(&mine, sizeof mine, 1);
    CHECK(mine == 1);
    REQUIRE(timed.gathers.size() == 1);
    CHECK(timed.gathers.at(2 * 64).calls == 2);
    REQUIRE(timed.reductions.size() == 2);
    CHECK(timed.reductions.at(2 * 32).calls == 1);
    CHECK(timed.reductions.at(2 * 64).calls == 1);
    CHECK(timed.reductions.at(2 * 64).seconds > 0);
  });
}

}  // namespace zt::measure
