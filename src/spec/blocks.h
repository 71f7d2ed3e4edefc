// The tensors of each block, from the sizes in a ModelSpec.
#pragma once

#include "base/error.h"
#include "spec/model.h"

namespace zt::spec {

// Fills spec.blocks. A tensor with more elements than any machine holds becomes a problem.
void build_blocks(ModelSpec& spec, Problems& problems);

}  // namespace zt::spec
