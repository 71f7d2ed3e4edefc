// The run: steps, evaluation, metrics, and the export at its end.
#pragma once

#include "recipe/recipe.h"

namespace zt::train {

// Trains as the recipe says and returns the exit status: 0, or 75 after a signal and a good export.
// With `dry_run` everything is opened, checked and planned, the plan is printed, and nothing is written.
// Errors: Error of any blame; the run folder keeps what was measured until then.
int train(const recipe::Loaded& loaded, bool dry_run);

}  // namespace zt::train
