// A run up to the point where it would claim memory: every rank reads what it must to plan, and all compare.
#pragma once

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "train/setup.h"

namespace zt::train {

// Opens the model's config, the tokenizer and nothing larger: no weights, and of the data only whether their files are
// there. Plans, checks that it fits, and prints the plan once. Claims no arena and writes nothing. Collective. The same
// Error on every rank: of any blame, and Error(peer) that names two ranks whose models, tokenizers or lists differ.
void dry_run(const recipe::Loaded& loaded, const Ranks& ranks, comm::Communicator& comm);

}  // namespace zt::train
