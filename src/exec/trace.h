// What each op of one played step took, and where the compute lane stood still.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plan/simulator.h"
#include "schedule/schedule.h"

namespace zt::exec {

// Measured by one rank. Seconds count from the begin of the list.
struct StepTrace {
  // By op. `waited`: its lane stood still before it, last for the end of `blocker`.
  std::vector<plan::Span> spans;
  double seconds = 0;  // until every lane had ended
  double tail = 0;     // at the end the compute lane stood still for the others
};

// The same in the form in which a planned step is drawn and counted.
plan::Simulation as_played(const schedule::Schedule& list, const StepTrace& trace);

// trace.json, as docs/formats/run_folder.md describes it. `step` is the step that was traced, by rank `rank` of `ranks`.
std::string trace_json(const schedule::Schedule& list, const StepTrace& trace, std::int64_t step, int rank,
                       int ranks);

// What trace.json tells of: a list of ops that knows kinds, lanes, blocks and micro-batches, but no slots and waits.
struct PlayedStep {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  schedule::Schedule list;
  plan::Simulation time;
};
// Throws Error(data) that says what is wrong with the text; `where` names it.
PlayedStep read_trace(const std::string& text, const std::string& where);

}  // namespace zt::exec
