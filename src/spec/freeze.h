// Which tensors of a model are trained.
#pragma once

#include <string>
#include <vector>

#include "spec/model.h"

namespace zt::spec {

// Marks every tensor whose full name matches a pattern as not trainable; `*` stands for any text, also none.
// Error(usage) for patterns that match nothing (naming the nearest tensor) and when nothing is left to train.
void freeze(ModelSpec& model, const std::vector<std::string>& patterns);

}  // namespace zt::spec
