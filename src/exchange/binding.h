// Which stored tensor is which tensor of the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exchange/safetensors.h"

namespace zt::spec {
struct ModelSpec;
}

namespace zt::exchange {

struct Place {
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

// From each tensor name of `model` to its place in `files`; see ModelFolder::bind for the rules. Throws
// Error(model) with all faults; `folder` names the model in it.
std::map<std::string, Place> bind_tensors(const spec::ModelSpec& model,
                                          const std::vector<const SafetensorsFile*>& files,
                                          const std::string& folder);

}  // namespace zt::exchange
