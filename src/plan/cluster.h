// A machine or a cluster as the simulator sees it: what one rank computes a second, what moves between ranks, and
// what there is of memory and disk. Described by hand (recipes/clusters/*.yaml) or measured (`zerotrain doctor
// --calibrate`); the key table in cluster.cpp reads and writes both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/work.h"
#include "recipe/settings.h"

namespace zt::plan {

enum class Backend : std::uint8_t { cpu, cuda };
// How a collective over several nodes goes. `exchange`: every rank sends each other rank its slice, so that all ranks of
// a node fetch the same slices over the node's one link. `ring`: every slice enters a node once, and ring and
// node links work at the same time. `hierarchical`: first between nodes, then inside.
enum class Collectives : std::uint8_t { exchange, ring, hierarchical };

inline std::vector<recipe::Word<Backend>> words(Backend) {
  return {{Backend::cpu, "cpu"}, {Backend::cuda, "cuda"}};
}
inline std::vector<recipe::Word<Collectives>> words(Collectives) {
  return {{Collectives::exchange, "exchange"},
          {Collectives::ring, "ring"},
          {Collectives::hierarchical, "hierarchical"}};
}

// One message takes `latency` seconds and its bytes / `bandwidth`.
struct Link {
  double bandwidth = 0;  // bytes a second in each direction
  double latency = 0;    // seconds a message
  friend bool operator==(const Link&, const Link&) = default;
};

// What a kernel achieves on one rank: FLOPs or bytes a second (counts_flops). Sizes of 0: at any size. Where a kernel
// has several sizes, those near the asked one in log size count most.
struct Rate {
  Kernel kernel = Kernel::product;
  recipe::ModelDtype dtype = recipe::ModelDtype::float32;
  std::int64_t m = 0, n = 0, k = 0;
  double per_second = 0;
  friend bool operator==(const Rate&, const Rate&) = default;
};

inline constexpr double kLeastStretch = 0.5, kMostStretch = 10;

// How a node behaves with so many ranks on it, all busy. Measured numbers are of one rank with the others busy too.
struct Node {
  std::int64_t ranks = 1;
  std::int64_t threads = 1;     // of each rank; only told
  double memory_bandwidth = 0;  // bytes a second, of kernels without a rate
  double call_seconds = 0;      // every kernel call takes so much longer
  double step_seconds = 0;      // every step takes so much longer: making batches, handing over to lanes
  Link gather, reduce;  // inside the node, of all_gather and reduce_scatter; bandwidth of the moved (N-1)/N
  double overlap_compute = 1;  // speed of computing while something moves
  double overlap_comm = 1;     // speed of moving while something computes
  double stretch = 1;          // whole steps take so many times what their ops take: ranks wait for the last
  std::vector<Rate> rates;
  friend bool operator==(const Node&, const Node&) = default;
};

struct Cluster {
  std::string name, about;
  std::optional<std::string> calibrated;  // when it was measured: 2026-11-30T04:00:00Z; absent: described
  Backend backend = Backend::cpu;
  double peak_float32 = 0, peak_bfloat16 = 0,
         peak_float16 = 0;         // of one rank, FLOP/s: what MFU is a share of
  std::int64_t device_memory = 0;  // bytes a rank may use; 0 on a CPU, where ranks share host_memory
  std::int64_t host_memory = 0;    // bytes of a node
  std::int64_t library_bytes = 0;  // that a rank's program and libraries hold besides the plan
  Collectives collectives = Collectives::exchange;
  Link between;                          // a node's link to all others; bandwidth 0: there is one node only
  double disk_write = 0, disk_read = 0;  // bytes a second of a node; 0: unknown
  std::vector<Node> nodes;               // by ranks
  friend bool operator==(const Cluster&, const Cluster&) = default;

  // Bytes one rank may use with so many ranks.
  std::int64_t memory_of_rank(int ranks) const;
  double peak(recipe::ModelDtype dtype) const;
  // The entry for `ranks` ranks: the fewest ranks a node that hold them all, else the fullest node, several of
  // them. Error(usage) where that needs a network and there is none.
  const Node& node_for(int ranks) const;
};

// Reads and checks the YAML text of a cluster; `where` names it in errors. Error(usage) with all faults by line.
Cluster parse_cluster(const std::string& text, const std::string& where);
// YAML that parse_cluster reads back exactly.
std::string cluster_text(const Cluster& cluster);

// A described cluster of the program by name ("h100-80gb"), or the file of that path. Error(usage) naming the nearest.
Cluster open_cluster(const std::string& name_or_path);
std::vector<std::string> cluster_names();
// Where `zerotrain doctor --calibrate` leaves this machine's cluster, and `plan` looks for it:
// $XDG_CACHE_HOME/zerotrain/HOSTNAME.yaml, or ~/.cache/...
std::string calibration_path();

}  // namespace zt::plan
