// How long a planned step takes on a cluster, and why: the simulation in numbers and words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/simulator.h"

namespace zt::plan {

// Waits of the compute lane that are of one kind: ops of a kind, waiting for ops of a kind.
struct WaitGroup {
  schedule::OpKind waiter{}, blocker{};
  bool of_step_before = false;  // the blocker is of the step before
  int count = 0;
  double seconds = 0, longest = 0;  // in sum; of one
  int op = -1;                      // the one that waited longest
  double tokens_to_hide =
      0;  // of a micro-batch on one rank, from which they'd be hidden; 0: not a question of tokens
};

// What a rank's compute lane does in a step; the seconds add up to the step's.
struct TimePart {
  std::string id, what;  // products attention elementwise optimizer norm waiting besides
  double seconds = 0;
};

// Bytes that a rank sends in a step to ranks of its own node and of others.
struct LevelTraffic {
  Traffic inside, between;
};

struct StepTime {
  std::string cluster;
  std::optional<std::string> calibrated;
  int ranks = 1, nodes = 1;
  std::vector<double> op_seconds;  // each by itself
  Simulation simulation;           // of the training list
  double seconds = 0;              // of a step: the simulation's, and what a step takes besides
  double tokens_per_second = 0;    // of all ranks
  // Model FLOPs utilisation: spec::training_flops_per_token x tokens / seconds / the cluster's peak. 0: no peak known.
  double mfu = 0;
  double model_flops = 0;  // of one rank and step
  std::vector<TimePart> parts;
  std::vector<WaitGroup> waits;  // the longest sum first
  LevelTraffic traffic;
  std::vector<std::string> words;  // why it takes so long, for people
};

StepTime step_time(const spec::ModelSpec& model, const StepShape& shape, const StepPlan& plan,
                   const Cluster& cluster);

// The plan's traffic by level. Sums are kept; where a level's share isn't whole it is rounded.
LevelTraffic by_level(const Traffic& traffic, const Cluster& cluster, int ranks);

// Lines for a terminal.
std::string text(const StepTime& time);

}  // namespace zt::plan
