// Measures this machine into a cluster description: what training's own kernels, collectives and files take here.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "plan/cluster.h"

namespace zt::measure {

struct Options {
  std::vector<recipe::ModelDtype> dtypes = {recipe::ModelDtype::float32, recipe::ModelDtype::bfloat16};
  bool quick = false;  // a few small sizes only: seconds instead of minutes, for tests and a first look
  std::function<void(const std::string&)> say = [](const std::string&) {};  // progress, on rank 0
};

// A node with as many ranks as `ranks` has, which all measure at the same time and share one machine. Every rank must
// compute with its share of the cores already (device::compute_with). Collective; rank 0's answer is the one to
// keep.
plan::Node measure_node(comm::Communicator& ranks, const Options& options);

// A node's link to all others, by collectives among ranks of several nodes. `world` has all ranks, `node` those of this
// machine. Collective over both.
plan::Link measure_between(comm::Communicator& world, comm::Communicator& node, const Options& options);

// Product rates of one rank, while all of `ranks` multiply. Collective.
struct Peaks {
  double float32 = 0, bfloat16 = 0, float16 = 0;
};
Peaks measure_peaks(comm::Communicator& ranks);

// Bytes a second of files in `folder`: a file is written, synced, read back past the system's cache, and removed.
// Error(machine) when that is not possible.
struct DiskRates {
  double write = 0, read = 0;
};
DiskRates measure_disk(const std::filesystem::path& folder, std::int64_t bytes);

// `cluster` with this node in place of its entry for as many ranks, entries in order of ranks.
void put_node(plan::Cluster& cluster, plan::Node node);

}  // namespace zt::measure
