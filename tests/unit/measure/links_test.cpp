#include "measure/links.h"

#include <doctest/doctest.h>

#include "comm/threads.h"

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
      const Links links = measure_links(ranks, quick);
      const Overlap overlap = measure_overlap(ranks, quick);
      CHECK((links.gather.bandwidth > 0) == (size > 1));
      CHECK((links.reduce.bandwidth > 0) == (size > 1));
      CHECK(links.gather.bandwidth < 1e12);
      CHECK(links.gather.latency >= 0);
      CHECK(links.gather.latency < 1);
      for (const double speed : {overlap.compute, overlap.comm}) {
        CHECK(speed > 0);
        CHECK(speed <= 1);
      }
      if (size == 1) CHECK(overlap.compute == 1);
    });
  }
}

}  // namespace zt::measure
