// From a recipe to the shape of its step.
#pragma once

#include "plan/step_plan.h"
#include "recipe/recipe.h"

namespace zt::plan {

// The shape of a step on one of `ranks` ranks. Needs only the recipe. What the communicator and the kernels hold for
// themselves (comm_bytes, kernel_bytes) is not in a recipe: these are 0.
StepShape step_shape(const recipe::Recipe& recipe, bool training, int ranks = 1);

}  // namespace zt::plan
