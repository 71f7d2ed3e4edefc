// Shapes of published models.
#pragma once

#include "spec/model.h"

namespace zt::test {

// 68,976,648,192 parameters. Touvron et al. 2023 (Llama 2).
spec::ModelSpec llama2_70b();

}  // namespace zt::test
