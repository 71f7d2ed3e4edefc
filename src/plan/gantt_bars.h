// The bars of a Gantt picture, before they are drawn: an op each, or many that are too short to be seen alone.
#pragma once

#include <optional>
#include <vector>

#include "plan/simulator.h"

namespace zt::plan {

// A stretch of one lane.
struct Bar {
  double start = 0, end = 0;               // seconds
  std::optional<schedule::OpKind> kind{};  // none: the lane stands still
  int first = -1, last = -1;               // ops; of a wait, the op that waits; -1: the end of the step
  int count = 1;                           // so many ops or waits
  double length() const { return end - start; }
  friend bool operator==(const Bar&, const Bar&) = default;
};

// The ops of a lane one after another, and before each its wait where the lane is the compute lane (other lanes stand
// still because there is nothing to do).
std::vector<Bar> lane_bars(const schedule::Schedule& list, const Simulation& simulation, schedule::Lane lane);
// The same for the critical path, whose stretches without any op are left open.
std::vector<Bar> critical_bars(const schedule::Schedule& list, const Simulation& simulation);

// The part of `bars`, which don't overlap, that lies between `from` and `to`.
std::vector<Bar> clipped(const std::vector<Bar>& bars, double from, double to);

// Bars shorter than `pixel` seconds that begin in the same column of that width, one after another, become one bar for
// each kind, of the sum of their lengths, from where the first of them began: no busy time is lost and nothing moves by
// more than a column.
std::vector<Bar> condensed(const std::vector<Bar>& bars, double pixel);

// A stretch of the step worth a closer look.
struct Window {
  double from = 0, to = 0;
  int op = -1;  // it is about this op's wait; -1: about the begin of the step
};
inline constexpr int kWindowOps = 40;  // of the compute lane

// The first forwards of the first micro-batch, and the surroundings of the compute lane's longest wait, if it waits; the
// second alone where it is in the first.
// None for a list of not more than so many ops on the compute lane.
std::vector<Window> windows_of(const schedule::Schedule& list, const Simulation& simulation);

}  // namespace zt::plan
