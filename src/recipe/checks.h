// What must hold between keys. Each check is skipped when a value it needs is already faulty.
#pragma once

#include <map>
#include <string>

#include "recipe/faults.h"
#include "recipe/settings.h"

namespace zt::recipe {

// `origins` tells where values were written; paths that aren't in it hold their defaults.
void check_between_keys(const Recipe& recipe, int ranks, const std::map<std::string, Origin>& origins,
                        Faults& faults);

// Fills in what follows from other keys: run.name, run.output_dir, tokenizer.path, batch sizes.
void derive_defaults(const std::string& filename, int ranks, const std::map<std::string, Origin>& origins,
                     Recipe& recipe);

}  // namespace zt::recipe
