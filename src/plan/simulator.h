// Plays a step's list on a described cluster, lane by lane, without computing anything.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/cluster.h"
#include "plan/step_plan.h"
#include "schedule/schedule.h"

namespace zt::plan {

// Seconds each op of the list takes by itself, when nothing else goes on.
std::vector<double> op_seconds(const schedule::Schedule& list, const spec::ModelSpec& model,
                               const StepShape& shape, const Cluster& cluster);

// Seconds of a step's compute lane by kernel, when nothing else goes on.
std::map<Kernel, double> kernel_seconds(const schedule::Schedule& list, const spec::ModelSpec& model,
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
  double tail = 0;            // of it at the end of a played step, after the last op of the compute lane
  std::vector<int> critical;  // ops of the critical path, first to last: nothing shortens the step but these
};

// How lanes share a device.
struct Sharing {
  double compute = 1;  // speed of the compute lane while another works
  double comm = 1;     // speed of the others while it works
  bool steps_overlap =
      false;  // a lane goes on with the next step while others end this one (streams of a device do)
};
Sharing sharing_of(const Cluster& cluster, const Node& node);

// `seconds` by op, from op_seconds. A lane is first-in first-out and an op starts when its waits are over. Where steps
// overlap, several steps in a row are played and the last counts.
Simulation simulate(const schedule::Schedule& list, const std::vector<double>& seconds,
                    const Sharing& sharing);

}  // namespace zt::plan
