// Where in a simulated step the compute lane stood still, and for what.
#pragma once

#include <vector>

#include "plan/page.h"
#include "plan/simulator.h"

namespace zt::plan {

// The waits of one block's ops on the compute lane.
struct BlockWaits {
  int block = -1;      // -1: ops of no block
  int times = 0;       // ops that waited
  double seconds = 0;  // in sum
  double longest = 0;  // one wait, of
  int op = -1;         // this op
};

// Blocks that waited, the longest sum first. Error(bug) when list and simulation differ in length.
std::vector<BlockWaits> exposed_waits(const schedule::Schedule& list, const Simulation& simulation);

// The same as a table of at most `most` rows and one for the rest, with the sum and its share of the step.
PageTable exposed_waits_table(const schedule::Schedule& list, const Simulation& simulation, int most = 20);

}  // namespace zt::plan
