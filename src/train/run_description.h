// What a run is and where it runs: for people at its start, for programs in run.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "train/job.h"
#include "train/setup.h"

namespace zt::train {

// Where a run runs.
struct RunPlace {
  std::vector<std::string> hosts;  // in order of their first rank
  Job job;
};
// Collective.
RunPlace place_of_run(comm::Communicator& comm);
nlohmann::ordered_json to_json(const RunPlace& place);

struct RunFacts {
  std::string id, build;
  std::int64_t steps = 0;   // in all
  double product_rate = 0;  // FLOP/s of all ranks
  int ranks = 1;
  std::string transport;
  std::string device;       // "cpu", "NVIDIA H200"
  std::string device_note;  // why it is not a GPU, or ""
};

// Lines for people.
std::vector<std::string> run_lines(const RunFacts& run, const RunPlace& place, const recipe::Recipe& recipe,
                                   const Setup& setup);
// run.json, see docs/formats/run_folder.md.
nlohmann::ordered_json run_json(const RunFacts& run, const RunPlace& place, const recipe::Recipe& recipe,
                                const Setup& setup);

}  // namespace zt::train
