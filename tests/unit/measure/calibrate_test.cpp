#include "measure/calibrate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "comm/threads.h"
#include "device/cores.h"
#include "measure/rounds.h"

namespace zt::measure {
namespace {

// No processor does more than 10^16 operations, or moves more than 10^14 bytes, a second on one rank.
constexpr double kMostFlops = 1e16, kMostBytes = 1e14;

plan::Node quick_node(int size) {
  plan::Node node;
  comm::run_threads(size, 60, [&](comm::Communicator& ranks) {
    device::compute_with(device::threads_of_rank(size));
    Options options;
    options.quick = true;
    plan::Node mine = measure_node(ranks, options);
    if (ranks.rank() == 0) node = std::move(mine);
  });
  return node;
}

}  // namespace

TEST_CASE("calibrate: every kernel of a step has rates that a machine can have, within seconds") {
  const double start = now();
  for (const int size : {1, 2}) {
    CAPTURE(size);
    const plan::Node node = quick_node(size);
    CHECK(node.ranks == size);
    CHECK(node.threads == device::threads_of_rank(size));
    CHECK(node.memory_bandwidth > 1e6);
    CHECK(node.memory_bandwidth < kMostBytes);
    CHECK(node.call_seconds > 0);
    CHECK(node.call_seconds < 1e-2);
    for (const auto dtype : {recipe::ModelDtype::float32, recipe::ModelDtype::bfloat16}) {
      std::set<plan::Kernel> seen;
      for (const plan::Rate& r : node.rates) {
        if (r.dtype != dtype) continue;
        seen.insert(r.kernel);
        CHECK(r.per_second > 0);
        CHECK(r.per_second < (plan::counts_flops(r.kernel) ? kMostFlops : kMostBytes));
        CHECK(r.m > 0);
        CHECK(r.n > 0);
      }
      for (const auto& word : plan::words(plan::Kernel{})) {
        CAPTURE(word.text);
        CHECK(seen.contains(word.value));
      }
    }
  }
  CHECK(now() - start < 120);  // one, on a machine with nothing else to do
}

TEST_CASE("calibrate: a cluster that was measured is read back as it was") {
  plan::Cluster cluster;
  cluster.name = "here";
  cluster.about = "a: processor, with # signs";
  cluster.calibrated = "2026-11-30T04:00:00Z";
  cluster.peak_float32 = cluster.peak_bfloat16 = cluster.peak_float16 = 1.25e11;
  cluster.host_memory = std::int64_t{1} << 36;
  cluster.library_bytes = 12345678;
  cluster.disk_write = 1e8 / 3;
  cluster.disk_read = 2e9;
  put_node(cluster, quick_node(1));
  CHECK(plan::parse_cluster(plan::cluster_text(cluster), "test") == cluster);
}

TEST_CASE("calibrate: a node replaces the entry for its number of ranks, and entries stay in order") {
  plan::Cluster cluster;
  for (const int ranks : {4, 1, 2, 4, 1}) put_node(cluster, {.ranks = ranks, .threads = 7});
  put_node(cluster, {.ranks = 2, .threads = 9});
  REQUIRE(cluster.nodes.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(cluster.nodes[i].ranks == (1 << i));
    CHECK(cluster.nodes[i].threads == (i == 1 ? 9 : 7));
  }
}

TEST_CASE("calibrate: the peaks are those of products in each number format") {
  comm::run_threads(1, 60, [](comm::Communicator& ranks) {
    const Peaks p = measure_peaks(ranks);
    for (const double peak : {p.float32, p.bfloat16, p.float16}) {
      CHECK(peak > 1e7);
      CHECK(peak < kMostFlops);
    }
  });
}

}  // namespace zt::measure
