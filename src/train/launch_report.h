// How the launcher has spread the ranks over nodes and cores, and what of that will make them slow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace zt::train {

// What one rank knows of its place.
struct RankPlace {
  std::string host;
  std::vector<int> cores;                      // that it may run on, ascending
  std::vector<int> of_group;                   // that the job has on this node, ascending
  int threads = 1;                             // that it computes with
  std::int64_t shared = -1, shared_free = -1;  // bytes of /dev/shm; -1: there is none
};

struct LaunchLine {
  std::string text;
  bool warning = false;  // with the cure in it
};

// The places of all ranks, in rank order. Collective.
std::vector<RankPlace> places_of_ranks(comm::Communicator& comm);

// A line a node: its ranks, the cores each may use and its threads; after them what is wrong: ranks bound to the same
// core, more threads than cores, cores that no rank may use, and ranks of one node that send messages for want of
// shared memory (`transport` is Communicator::transport; each rank would hold `wanted` bytes of it).
std::vector<LaunchLine> launch_report(const std::vector<RankPlace>& places, const std::string& transport,
                                      std::int64_t wanted);
// The same of the ranks that a launcher has started; nothing where none has. Collective.
std::vector<LaunchLine> launch_report(comm::Communicator& comm);
// To the log.
void say(const std::vector<LaunchLine>& lines);

}  // namespace zt::train
