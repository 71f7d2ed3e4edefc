// Plays a step's list on a described cluster, lane by lane, without computing anything.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/cluster.h"
#include "plan/step_plan.h"
#include "schedule/schedule.h"

namespace zt::plan {

// Seconds each op of the list takes by itself, when nothing else goes on.
std::vector<double> op_seconds(const schedule::Schedule& list, const spec::ModelSpec& model,
                               const StepShape& shape, const Cluster& cluster);

// When one op ran. Seconds from the start of its step.
struct Span {
  double start = 0, end = 0;
  double waited = 0;  // its lane stood still before it
  int blocker = -1;   // the op whose end it waited for last; -1: none, or one of the step before
};

// A step in steady state, as every rank plays it: ranks that hold equal slices behave alike, so one is played.
struct Simulation {
  double seconds = 0;
  std::vector<Span> spans;                      // by op
  std::array<double, schedule::kLanes> busy{};  // seconds in which a lane worked
  double exposed = 0;                           // computation stood still for communication
  std::vector<int> critical;  // ops of the critical path, first to last: nothing shortens the step but these
};

// `seconds` by op, from op_seconds. A lane is first-in first-out and an op starts when its waits are over; while both
// lanes work each goes at the node's overlap speed. Two equal steps in a row, the second one counts.
Simulation simulate(const schedule::Schedule& list, const std::vector<double>& seconds, const Node& node);

}  // namespace zt::plan
