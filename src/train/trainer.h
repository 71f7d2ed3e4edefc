// The run: steps, evaluation, metrics, checkpoints, and the export at its end.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "train/run_folder.h"
#include "train/signals.h"

namespace zt::train {

struct TrainOptions {
  bool dry_run =
      false;  // everything is planned and compared, the plan is printed, and nothing is written: see dry_run.h
  Resume resume;
  std::string build;           // the program's version, for checkpoints
  int ranks_on_this_node = 1;  // they share its memory
  double started = 0;          // seconds since 1970, from which run.time_limit counts
};

// Trains as the recipe says and returns the exit status, the same on every rank: 0, or 75 after a signal, or before the
// time limit, and a good checkpoint (or export, where the recipe wants none). Collective. Errors: Error of any blame; the run folder keeps
// what was measured until then.
int train(const recipe::Loaded& loaded, const TrainOptions& options, const StopRequests& stop,
          comm::Communicator& comm);

}  // namespace zt::train
