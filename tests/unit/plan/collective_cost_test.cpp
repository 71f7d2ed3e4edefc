#include "plan/collective_cost.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

constexpr double kGamma = 3e-11;
// Inside a node and between nodes of H100s: NVLink; eight NDR400.
const Link kInside{.bandwidth = 450e9, .latency = 3e-6}, kBetween{.bandwidth = 400e9, .latency = 5e-6};
const std::vector<double> kCounts = {2, 3, 4, 5, 7, 8, 16, 100, 1000, 1024, 1000000};
const std::vector<double> kSizes = {0, 1, 1000, 33e6, 1e9, std::exp2(62)};

bool near(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b));
}
bool very_near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

double message(double bytes, const Link& link) { return link.latency + bytes / link.bandwidth; }

TEST_CASE("collectives: a ring takes as long as its messages, one after another") {
  for (const double ranks : {2., 3., 4., 7., 100., 1024.}) {
    for (const double bytes : kSizes) {
      CAPTURE(ranks);
      CAPTURE(bytes);
      double gather = 0, scatter = 0;
      for (int hop = 1; hop < ranks; ++hop) {
        gather += message(bytes / ranks, kInside);
        scatter += message(bytes / ranks, kInside) + bytes / ranks * kGamma;
      }
      CHECK(very_near(ring_seconds(ranks, bytes, kInside), gather));
      CHECK(very_near(pairwise_seconds(ranks, bytes, kInside), gather));
      CHECK(very_near(ring_reduce_scatter_seconds(ranks, bytes, kInside, kGamma), scatter));
      CHECK(very_near(ring_all_reduce_seconds(ranks, bytes, kInside, kGamma), gather + scatter));
    }
  }
}

TEST_CASE("collectives: doubling sends slices of twice the size each time, halving the other way round") {
  for (const int power : {1, 2, 3, 10}) {
    const double ranks = std::exp2(power);
    for (const double bytes : kSizes) {
      double gather = 0, scatter = 0, whole = 0;
      for (int round = 0; round < power; ++round) {
        const double part = bytes / ranks * std::exp2(round);
        gather += message(part, kBetween);
        scatter += message(part, kBetween) + part * kGamma;
        whole += message(bytes, kBetween) + bytes * kGamma;
      }
      CHECK(very_near(doubling_seconds(ranks, bytes, kBetween), gather));
      CHECK(very_near(halving_seconds(ranks, bytes, kBetween, kGamma), scatter));
      CHECK(very_near(rabenseifner_seconds(ranks, bytes, kBetween, kGamma), gather + scatter));
      CHECK(very_near(doubling_all_reduce_seconds(ranks, bytes, kBetween, kGamma), whole));
    }
  }
}

TEST_CASE("collectives: other numbers than powers of two take the rounds of the next one") {
  const Link latency_only{.bandwidth = 1e30, .latency = 1};
  const struct {
    double ranks, rounds;
  } rows[] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {1000, 10}, {1024, 10}, {1025, 11}, {1000000, 20}};
  for (const auto& row : rows) {
    CAPTURE(row.ranks);
    CHECK(doubling_seconds(row.ranks, 8, latency_only) == doctest::Approx(row.rounds));
    CHECK(halving_seconds(row.ranks, 8, latency_only) == doctest::Approx(row.rounds));
    CHECK(rabenseifner_seconds(row.ranks, 8, latency_only) == doctest::Approx(2 * row.rounds));
    CHECK(doubling_all_reduce_seconds(row.ranks, 8, latency_only) == doctest::Approx(row.rounds));
    CHECK(ring_seconds(row.ranks, 8, latency_only) == doctest::Approx(row.ranks - 1));
  }
}

TEST_CASE("collectives: for little an all-reduce of few messages is best, for much one of few bytes") {
  for (const double ranks : {8., 100., 1024.}) {
    const double little = 64, much = 1e10;
    CHECK(doubling_all_reduce_seconds(ranks, little, kBetween) <
          rabenseifner_seconds(ranks, little, kBetween));
    CHECK(rabenseifner_seconds(ranks, little, kBetween) < ring_all_reduce_seconds(ranks, little, kBetween));
    CHECK(rabenseifner_seconds(ranks, much, kBetween) < doubling_all_reduce_seconds(ranks, much, kBetween));
  }
}

TEST_CASE("collectives: nothing beats (N-1)/N S / B, and without latency rings reach it") {
  // nccl-tests' bus-bandwidth factors (PERFORMANCE.md): gather and scatter (n-1)/n, all-reduce 2 (n-1)/n.
  for (const double ranks : kCounts) {
    for (const double bytes : kSizes) {
      const Link fast{.bandwidth = kInside.bandwidth, .latency = 0};
      const double least = least_seconds(ranks, bytes, fast);
      CHECK(near(least, bytes / fast.bandwidth * (ranks - 1) / ranks));
      CHECK(near(ring_seconds(ranks, bytes, fast), least));
      CHECK(near(doubling_seconds(ranks, bytes, fast), least));
      CHECK(near(ring_all_reduce_seconds(ranks, bytes, fast), 2 * least));
      CHECK(near(rabenseifner_seconds(ranks, bytes, fast), 2 * least));
      CHECK(ring_seconds(ranks, bytes, kInside) > least);
      CHECK(std::isfinite(ring_all_reduce_seconds(ranks, bytes, kInside, kGamma)));
    }
  }
}

TEST_CASE("collectives: a ring reaches half of its bandwidth at N alpha B and 90 % at nine times that") {
  const struct {
    double ranks;
    Link link;
    double half_mb, half_digit, ninety_mb, ninety_digit;
  } rows[] = {
      {8, {.bandwidth = 450e9, .latency = 3e-6}, 10.8, 0.1, 97, 1},
      {128, {.bandwidth = 50e9, .latency = 5e-6}, 32, 1, 288, 1},
      {16, {.bandwidth = 1.25e9, .latency = 30e-6}, 0.6, 0.1, 5.4, 0.1},
      {16, {.bandwidth = 3.125e9, .latency = 20e-6}, 1.0, 0.1, 9, 1},
      {16, {.bandwidth = 12.5e9, .latency = 5e-6}, 1.0, 0.1, 9, 1},
  };
  for (const auto& row : rows) {
    CAPTURE(row.half_mb);
    const double half = ring_bytes_for_share(row.ranks, row.link, 0.5);
    const double ninety = ring_bytes_for_share(row.ranks, row.link, 0.9);
    CHECK(prints(half / 1e6, row.half_mb, row.half_digit));
    CHECK(prints(ninety / 1e6, row.ninety_mb, row.ninety_digit));
    CHECK(near(ring_seconds(row.ranks, half, row.link) * 0.5, least_seconds(row.ranks, half, row.link)));
    CHECK(very_near(ring_seconds(row.ranks, ninety, row.link) * 0.9,
                    least_seconds(row.ranks, ninety, row.link)));
  }
}

TEST_CASE("collectives: a broadcast in its best number of chunks beats every other, and nears S / B") {
  for (const double ranks : {3., 8., 100., 1024.}) {
    for (const double bytes : {100., 1e5, 33e6}) {
      const double best = best_broadcast_chunks(ranks, bytes, kBetween);
      const double seconds = pipelined_broadcast_seconds(ranks, bytes, kBetween, best);
      CAPTURE(ranks);
      CAPTURE(best);
      CHECK(best == std::floor(best));
      for (double chunks = 1; chunks <= 2000; ++chunks)
        CHECK(seconds <= pipelined_broadcast_seconds(ranks, bytes, kBetween, chunks) * (1 + 1e-12));
    }
    const double bytes = 1e13, chunks = best_broadcast_chunks(ranks, bytes, kBetween);
    CHECK(pipelined_broadcast_seconds(ranks, bytes, kBetween, chunks) / (bytes / kBetween.bandwidth) < 1.01);
  }
  CHECK(pipelined_broadcast_seconds(2, 1e9, kBetween, 1) == message(1e9, kBetween));
  CHECK(best_broadcast_chunks(2, 1e9, kBetween) == 1);
  CHECK(best_broadcast_chunks(8, 1000, {.bandwidth = 1e9, .latency = 0}) == 1000);
}

TEST_CASE("collectives: one rank needs no time, and no bytes only messages, over any link") {
  for (const Link& link : {kInside, Link{}, Link{.bandwidth = 0, .latency = 1}}) {
    for (const double bytes : kSizes) {
      CHECK(ring_seconds(1, bytes, link) == 0);
      CHECK(ring_all_reduce_seconds(1, bytes, link, kGamma) == 0);
      CHECK(rabenseifner_seconds(1, bytes, link, kGamma) == 0);
      CHECK(doubling_all_reduce_seconds(1, bytes, link, kGamma) == 0);
      CHECK(pipelined_broadcast_seconds(1, bytes, link, 4) == 0);
      CHECK(hierarchical_seconds(1, 1, bytes, link, link) == 0);
      CHECK(hierarchical_all_reduce_seconds(1, 1, bytes, link, link, kGamma) == 0);
      CHECK(exchange_seconds(1, 1, bytes, link, link) == 0);
      CHECK(flat_ring_seconds(1, 1, bytes, link, link) == 0);
    }
    CHECK(ring_seconds(8, 0, link) == 7 * link.latency);
    CHECK(exchange_seconds(2, 4, 0, link, link) == 7 * link.latency);
  }
  // Without bandwidth, something takes forever.
  CHECK(ring_seconds(2, 1, Link{}) == std::numeric_limits<double>::infinity());
  CHECK(exchange_seconds(2, 2, 1, kInside, Link{}) == std::numeric_limits<double>::infinity());
}

TEST_CASE(
    "collectives: on one node all ways are the ring inside, and with one rank a node the ring between"
    "is") {
  for (const double n : kCounts) {
    for (const double bytes : kSizes) {
      const double inside = ring_seconds(n, bytes, kInside), across = ring_seconds(n, bytes, kBetween);
      CHECK(hierarchical_seconds(1, n, bytes, kInside, Link{}) == inside);
      CHECK(exchange_seconds(1, n, bytes, kInside, Link{}) == inside);
      CHECK(flat_ring_seconds(1, n, bytes, kInside, Link{}) == inside);
      CHECK(hierarchical_reduce_scatter_seconds(1, n, bytes, kInside, Link{}, kGamma) ==
            ring_reduce_scatter_seconds(n, bytes, kInside, kGamma));
      CHECK(near(hierarchical_all_reduce_seconds(1, n, bytes, kInside, Link{}, kGamma),
                 ring_all_reduce_seconds(n, bytes, kInside, kGamma)));
      CHECK(hierarchical_seconds(n, 1, bytes, Link{}, kBetween) == across);
      CHECK(near(exchange_seconds(n, 1, bytes, Link{}, kBetween), across));
      CHECK(flat_ring_seconds(n, 1, bytes, Link{}, kBetween) == across);
      CHECK(near(hierarchical_all_reduce_seconds(n, 1, bytes, Link{}, kBetween, kGamma),
                 ring_all_reduce_seconds(n, bytes, kBetween, kGamma)));
    }
  }
}

TEST_CASE("collectives: over nodes, every way takes at least the floor of S (K-1)/K into a node") {
  for (const double nodes : {2., 3., 16., 1000.}) {
    for (const double ranks : {2., 4., 7., 8.}) {
      for (const double bytes : kSizes) {
        const double floor = bytes * (nodes - 1) / nodes / kBetween.bandwidth;
        CAPTURE(nodes);
        CAPTURE(ranks);
        CAPTURE(bytes);
        const double two_level = hierarchical_seconds(nodes, ranks, bytes, kInside, kBetween);
        CHECK(two_level >= floor);
        CHECK(exchange_seconds(nodes, ranks, bytes, kInside, kBetween) >= ranks * floor);
        CHECK(flat_ring_seconds(nodes, ranks, bytes, kInside, kBetween) >= floor);
        // The four terms, each as it is written in its docstring.
        const double terms = (nodes - 1) * kBetween.latency + floor + (ranks - 1) * kInside.latency +
                             bytes * (ranks - 1) / ranks / kInside.bandwidth;
        CHECK(very_near(two_level, terms));
      }
    }
  }
}

TEST_CASE("collectives: without hierarchy a node's link carries G times as much") {
  const Link inside{.bandwidth = 1e30, .latency = 0}, between{.bandwidth = 12.5e9, .latency = 0};
  for (const double ranks : {2., 8., 64.}) {
    for (const double nodes : {2., 5., 128.}) {
      const double shared = hierarchical_seconds(nodes, ranks, 1e9, inside, between);
      CHECK(very_near(exchange_seconds(nodes, ranks, 1e9, inside, between), ranks * shared));
      // A ring lets every slice in once, but for the share of the node's own first rank.
      CHECK(flat_ring_seconds(nodes, ranks, 1e9, inside, between) <= shared * nodes / (nodes - 1));
      CHECK(flat_ring_seconds(nodes, ranks, 1e9, inside, between) < 2 * shared);
    }
  }
}

TEST_CASE("collectives: an exchange counts its messages, those of all ranks of a node over the node's link") {
  for (const int nodes : {2, 3, 8}) {
    for (const int ranks : {2, 4, 5}) {
      const double bytes = 1e8, slice = bytes / (nodes * ranks);
      double seconds = 0;
      for (int peer = 0; peer < nodes * ranks; ++peer) {
        if (peer == 0) continue;
        seconds += peer < ranks ? message(slice, kInside) : message(slice * ranks, kBetween);
      }
      CHECK(very_near(exchange_seconds(nodes, ranks, bytes, kInside, kBetween), seconds));
    }
  }
}

TEST_CASE("collectives: a ring over nodes waits for its slowest link at every hop") {
  const Link near_by{.bandwidth = 4e9, .latency = 1e-6}, far{.bandwidth = 1e9, .latency = 5e-6};
  for (const double nodes : {2., 3., 1000.}) {
    for (const double ranks : {2., 5., 8.}) {
      const double n = nodes * ranks, hop = 1e8 / n / 1e9;
      CHECK(very_near(flat_ring_seconds(nodes, ranks, 1e8, near_by, far), (n - 1) * (5e-6 + hop)));
      CHECK(very_near(flat_ring_seconds(nodes, ranks, 1e8, far, near_by), (n - 1) * (5e-6 + hop)));
    }
  }
}

TEST_CASE("collectives: a two-level all-reduce is its three parts") {
  for (const double nodes : {2., 3., 16.}) {
    for (const double ranks : {2., 7., 8.}) {
      for (const double bytes : kSizes) {
        // Across, each of a node's ranks has its part of the node's link.
        const Link rail{.bandwidth = kBetween.bandwidth / ranks, .latency = kBetween.latency};
        const double parts = ring_reduce_scatter_seconds(ranks, bytes, kInside, kGamma) +
                             ring_all_reduce_seconds(nodes, bytes / ranks, rail, kGamma) +
                             ring_seconds(ranks, bytes, kInside);
        CHECK(very_near(hierarchical_all_reduce_seconds(nodes, ranks, bytes, kInside, kBetween, kGamma),
                        parts));
        const double scatter = ring_reduce_scatter_seconds(ranks, bytes, kInside, kGamma) +
                               ring_reduce_scatter_seconds(nodes, bytes / ranks, rail, kGamma);
        CHECK(very_near(hierarchical_reduce_scatter_seconds(nodes, ranks, bytes, kInside, kBetween, kGamma),
                        scatter));
      }
    }
  }
}

TEST_CASE("collectives: more bytes or a slower link never take less time") {
  const Link slow_in{.bandwidth = 200e9, .latency = 6e-6}, slow_out{.bandwidth = 50e9, .latency = 30e-6};
  for (const auto way : {&hierarchical_seconds, &exchange_seconds, &flat_ring_seconds}) {
    double before = 0;
    for (const double bytes : kSizes) {
      const double now = way(16, 8, bytes, kInside, kBetween);
      CHECK(now >= before);
      CHECK(std::isfinite(now));
      CHECK(way(16, 8, bytes, slow_in, kBetween) >= now);
      CHECK(way(16, 8, bytes, kInside, slow_out) >= now);
      before = now;
    }
    CHECK(std::isfinite(way(125000, 8, std::exp2(62), kInside, kBetween)));
  }
}

}  // namespace
}  // namespace zt::plan
