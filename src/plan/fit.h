// Whether a recipe's plan fits the memory there is, and what to change when it does not. Allocates nothing of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plan/step_plan.h"
#include "recipe/recipe.h"

namespace zt::plan {

// The memory of one process (or one device), and how a recipe's need of it is counted there.
struct Room {
  std::int64_t bytes = -1;  // negative: unknown, so that everything fits
  // The shape of a recipe's step with all that the recipe does not say: ranks, kernels, communicator, process.
  std::function<StepShape(const recipe::Recipe&)> shape_of;
  std::function<std::int64_t(const StepPlan&)> needs = [](const StepPlan& plan) {
    return plan.needed_bytes();
  };
};

// The settings nearest to a recipe's that fit: first what other ranks can hold, then the copy that checkpoints are written
// from, then nothing of a step's arithmetic, then time, then precision.
struct NearestFit {
  std::string settings;  // " --set zero.stage=3 --set ...", as a command line says them; empty: nothing fits
  std::int64_t bytes = 0;  // that these settings need; where nothing fits, the least that any need
};
NearestFit nearest_fit(const recipe::Recipe& recipe, const spec::ModelSpec& model, const Room& room);

// Error(machine) when the plan of `recipe` needs more than the room has. The message has the bill's largest entries
// and calls the room `of_whom` ("" or " for each rank"); the hint is nearest_fit's answer.
void require_fit(const recipe::Recipe& recipe, const spec::ModelSpec& model, const Room& room,
                 const std::string& of_whom = "");

}  // namespace zt::plan
