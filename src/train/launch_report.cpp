#include "train/launch_report.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

#include "base/log.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "device/cores.h"
#include "measure/cgroup.h"
#include "measure/machine.h"

namespace zt::train {
namespace {

constexpr std::size_t kMostCores = CPU_SETSIZE, kMostShown = 8;
const std::string kCure =
    "mpirun --bind-to none binds no rank, mpirun --map-by slot:PE=C and srun --cpus-per-task=C give each C "
    "cores";

// A place as ranks send it.
struct Sent {
  std::array<char, 72> host{};
  std::array<std::uint64_t, kMostCores / 64> cores{}, of_group{};
  std::int64_t threads = 1, shared = -1, shared_free = -1;
};

template <typename Bits>
void put(Bits& bits, int core) {
  if (core >= 0 && std::size_t(core) < kMostCores) bits[std::size_t(core) / 64] |= 1ULL << (core % 64);
}
template <typename Bits>
std::vector<int> numbers(const Bits& bits) {
  std::vector<int> out;
  for (std::size_t core = 0; core < kMostCores; ++core)
    if ((bits[core / 64] >> (core % 64) & 1) != 0) out.push_back(int(core));
  return out;
}

Sent my_place() {
  Sent sent;
  const measure::Machine machine = measure::this_machine();
  std::strncpy(sent.host.data(), machine.host.c_str(), sent.host.size() - 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (std::size_t core = 0; core < kMostCores; ++core)
      if (CPU_ISSET(core, &set)) put(sent.cores, int(core));
  std::vector<int> group = measure::this_group().cores;
  if (group.empty()) {
    group.resize(std::size_t(std::max<long>(1, ::sysconf(_SC_NPROCESSORS_ONLN))));
    std::iota(group.begin(), group.end(), 0);
  }
  for (const int core : group) put(sent.of_group, core);
  sent.threads = device::threads();
  sent.shared = machine.shared;
  sent.shared_free = machine.shared_free;
  return sent;
}

// ---- one node

struct Node {
  std::string host;
  std::vector<int> ranks;
};

std::vector<Node> nodes_of(const std::vector<RankPlace>& places) {
  std::vector<Node> nodes;
  for (int r = 0; r < int(places.size()); ++r) {
    const std::string& host = places[std::size_t(r)].host;
    auto node = std::ranges::find(nodes, host, &Node::host);
    if (node == nodes.end()) node = nodes.insert(nodes.end(), {host, {}});
    node->ranks.push_back(r);
  }
  return nodes;
}

std::string counted(std::size_t n, const std::string& what) { return cat(n, " ", what, n == 1 ? "" : "s"); }
std::string cores_text(const std::vector<int>& cores) {
  return cat(cores.size() == 1 ? "core " : "cores ", measure::list_of(cores));
}

std::string node_line(const Node& node, const std::vector<RankPlace>& places) {
  const RankPlace& first = places[std::size_t(node.ranks.front())];
  const bool alike = std::ranges::all_of(node.ranks, [&](int r) {
    const RankPlace& p = places[std::size_t(r)];
    return p.cores == first.cores && p.threads == first.threads;
  });
  std::string line = cat("node ", node.host, ": ", counted(node.ranks.size(), "rank"));
  if (alike) {
    line += cat(node.ranks.size() == 1 ? "" : ", each", " with ",
                counted(std::size_t(first.threads), "thread"), " on ", cores_text(first.cores));
  } else {
    for (std::size_t i = 0; i < std::min(node.ranks.size(), kMostShown); ++i) {
      const RankPlace& p = places[std::size_t(node.ranks[i])];
      line += cat(i == 0 ? ": " : "; ", "rank ", node.ranks[i], " with ",
                  counted(std::size_t(p.threads), "thread"), " on ", cores_text(p.cores));
    }
    if (node.ranks.size() > kMostShown) line += cat("; and ", node.ranks.size() - kMostShown, " more");
  }
  return line + (first.shared < 0 ? "; no /dev/shm" : cat("; /dev/shm ", human_bytes(first.shared)));
}

using Lines = std::vector<LaunchLine>;

void warn_of_threads(const Node& node, const std::vector<RankPlace>& places, Lines& lines) {
  for (const int r : node.ranks) {
    const RankPlace& p = places[std::size_t(r)];
    if (p.threads <= int(p.cores.size())) continue;
    lines.push_back(
        {cat("rank ", r, " on ", node.host, " computes with ", p.threads, " threads, but may use ",
             counted(p.cores.size(), "core"), " only (", cores_text(p.cores), "); they take turns. ", kCure,
             "; OMP_NUM_THREADS=", p.cores.size(), " asks for fewer threads"),
         true});
    return;  // its neighbours are most often alike
  }
}

// Ranks whose cores are the same ones and fewer than their threads; true where one was found.
bool warn_of_sharing(const Node& node, const std::vector<RankPlace>& places, Lines& lines) {
  std::map<std::vector<int>, std::vector<int>> by_cores;
  for (const int r : node.ranks) by_cores[places[std::size_t(r)].cores].push_back(r);
  for (const auto& [cores, ranks] : by_cores) {
    if (ranks.size() <= cores.size()) continue;
    const bool all = cores.size() >= places[std::size_t(ranks.front())].of_group.size();
    const std::string what =
        cat(counted(ranks.size(), "rank"), " on ", node.host, " (", measure::list_of(ranks), ") share ",
            cores_text(cores), " and wait for each other's turns. ");
    lines.push_back(
        {what + (all ? cat("This node has no more: start at most ", cores.size(), " there") : kCure), true});
    return true;
  }
  return false;
}

void warn_of_idle_cores(const Node& node, const std::vector<RankPlace>& places, Lines& lines) {
  std::vector<int> used, all;
  for (const int r : node.ranks) {
    const RankPlace& p = places[std::size_t(r)];
    used.insert(used.end(), p.cores.begin(), p.cores.end());
    all.insert(all.end(), p.of_group.begin(), p.of_group.end());
  }
  for (std::vector<int>* list : {&used, &all}) {
    std::ranges::sort(*list);
    const auto again = std::ranges::unique(*list);
    list->erase(again.begin(), again.end());
  }
  if (used.size() >= all.size()) return;
  lines.push_back({cat("the launcher lets ranks on ", node.host, " use ", used.size(), " of ", all.size(),
                       " cores (", measure::list_of(used), "); the others idle. ", kCure),
                   true});
}

void warn_of_messages(const std::vector<RankPlace>& places, std::int64_t wanted_each, Lines& lines) {
  const RankPlace& p = places.front();
  const std::int64_t wanted = wanted_each * std::int64_t(places.size());
  const std::string what = cat("all ranks are on ", p.host, ", but send messages, which is slower: ");
  if (p.shared_free >= wanted) {
    lines.push_back(
        {cat(what,
             "they share no memory, though it has room for them. Nodes may have one name, or ranks "
             "containers of their own: docker run --ipc=host lets those share /dev/shm"),
         true});
    return;
  }
  const std::string room = p.shared < 0
                               ? "is absent"
                               : cat("has ", human_bytes(p.shared_free), " free of ", human_bytes(p.shared));
  lines.push_back({cat(what, "they want ", human_bytes(wanted), " of /dev/shm, which ", room,
                       ". mount -o remount,size=1G /dev/shm makes it larger; for a container, docker run "
                       "--shm-size=1g"),
                   true});
}

}  // namespace

std::vector<RankPlace> places_of_ranks(comm::Communicator& comm) {
  const Sent mine = my_place();
  std::vector<Sent> all(std::size_t(comm.size()), mine);
  if (comm.size() > 1) comm.exchange(std::span<const Sent>(&mine, 1), std::span<Sent>(all));
  std::vector<RankPlace> places;
  for (const Sent& s : all)
    places.push_back(
        {s.host.data(), numbers(s.cores), numbers(s.of_group), int(s.threads), s.shared, s.shared_free});
  return places;
}

std::vector<LaunchLine> launch_report(const std::vector<RankPlace>& places, const std::string& transport,
                                      std::int64_t wanted) {
  const std::vector<Node> nodes = nodes_of(places);
  Lines lines, warnings;
  for (const Node& node : nodes) {
    if (lines.size() < kMostShown) lines.push_back({node_line(node, places)});
    const std::size_t before = warnings.size();
    if (before >= kMostShown) continue;
    warn_of_threads(node, places, warnings);
    if (!warn_of_sharing(node, places, warnings)) warn_of_idle_cores(node, places, warnings);
  }
  if (nodes.size() > kMostShown) lines.push_back({cat("and ", nodes.size() - kMostShown, " more nodes")});
  if (nodes.size() == 1 && places.size() > 1 && transport == "mpi (messages)")
    warn_of_messages(places, wanted, warnings);
  lines.insert(lines.end(), warnings.begin(), warnings.end());
  return lines;
}

std::vector<LaunchLine> launch_report(comm::Communicator& comm) {
  if (!comm::launched()) return {};
  return launch_report(places_of_ranks(comm), comm.transport(), comm::buffer_bytes_on_one_node(comm.size()));
}

void say(const std::vector<LaunchLine>& lines) {
  for (const LaunchLine& line : lines) line.warning ? log::warn(line.text) : log::info(line.text);
}

}  // namespace zt::train
