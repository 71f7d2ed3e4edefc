// The export a run ends with: OUTPUT_DIR/export, a Hugging Face folder.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "shard/param_store.h"
#include "train/setup.h"

namespace zt::train {

// Writes it, unless the recipe wants none. Collective; the same Error on every rank when it can't be written.
void export_model(const recipe::Recipe& recipe, const Setup& setup, const shard::ParamStore& store,
                  comm::Communicator& comm);

// Whether it is there and of the run's end at `step`: one that is older than that step's checkpoint is of an earlier end, to
// which steps were added. Collective.
bool is_exported(const recipe::Recipe& recipe, std::int64_t step, comm::Communicator& comm);

}  // namespace zt::train
