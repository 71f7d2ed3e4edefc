// What collectives take, and how they and computation slow each other down.
#pragma once

#include "measure/calibrate.h"

namespace zt::measure {

// What steps over several ranks show of messages inside a node.
struct Moving {
  plan::Link gather, reduce;
  double overlap_compute = 1, overlap_comm = 1;  // as in plan::Node
  // Steps in two lanes, and the seconds they took, the mean over the ranks.
  struct Step {
    spec::ModelSpec model;
    plan::StepShape shape;
    double seconds = 0;
  };
  std::vector<Step> steps;
};

// Trains models whose weights are sliced, all of `ranks` together. Collectives are timed as a step meets them, so a rank
// waits for the others as it will in a run: the lines latency + moved / bandwidth fit their times best, where moved is
// (N-1)/N of the whole buffer and latency that of N-1 messages. Then the same steps run in two lanes: if all moving hid
// behind computing they would save its time. What they save less is partly the same for every collective, told with its
// latency, and partly a share of its seconds: computing and moving slow each other down, told as one speed for both. One rank: nothing moves. Collective.
Moving measure_moving(comm::Communicator& ranks, const Options& options);

// latency and bandwidth that fit seconds over bytes best by relative error. Neither is below 0; of a line that falls, the
// bandwidth is the best one seen.
plan::Link fit_link(const std::vector<double>& bytes, const std::vector<double>& seconds);

}  // namespace zt::measure
