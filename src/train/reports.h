// Everything rank 0 tells of a run while it goes on: steps and evaluations, to files and to people.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/trace.h"
#include "recipe/recipe.h"
#include "train/events.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/tensorboard.h"

namespace zt::train {

class Reports {
 public:
  // In run folder `folder`; a resumed run has done `first_step` of its `steps` before. Throws Error(machine) when a file
  // can't be made.
  Reports(const std::filesystem::path& folder, const recipe::Recipe& recipe, std::int64_t steps,
          std::int64_t first_step);

  // run.json: what this start of the run is, from docs/formats/run_folder.md.
  void describe(const nlohmann::ordered_json& run);
  // Measured; written where the step is one to log.
  void step(const StepMetrics& metrics);
  void evaluation(std::int64_t step, double loss, std::int64_t tokens);
  // trace.json: how step `step` was played by this rank of `ranks`. A disk that takes it not is warned of.
  void trace(const schedule::Schedule& list, const exec::StepTrace& trace, std::int64_t step, int ranks);
  void event(EventKind kind, std::int64_t step, const std::string& text,
             const nlohmann::ordered_json& more = nlohmann::ordered_json::object()) {
    events_.note(kind, step, text, more);
  }
  // Steps after `step` will be measured again: for a run that went back to it,
  // and now has `steps` to do in all.
  void go_back_to(std::int64_t step, std::int64_t steps);
  // The bar leaves the terminal.
  void end_progress() { progress_.reset(); }

 private:
  std::filesystem::path folder_;
  std::int64_t log_every_, steps_;
  MetricsLog metrics_;
  Events events_;
  std::optional<TensorBoard> tensorboard_;
  std::optional<Progress> progress_;
};

}  // namespace zt::train
