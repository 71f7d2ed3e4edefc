#include "spec/freeze.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "recipe/patterns.h"

namespace zt::spec {
void freeze(ModelSpec& model, const std::vector<std::string>& patterns) {
  Problems problems;
  std::vector<std::string> names;
  for (const BlockSpec& block : model.blocks)
    for (const TensorSpec& tensor : block.tensors) names.push_back(tensor.name);
  for (const std::string& pattern : patterns) {
    bool used = false;
    for (BlockSpec& block : model.blocks)
      for (TensorSpec& tensor : block.tensors) {
        if (!recipe::matches(pattern, tensor.name)) continue;
        tensor.trainable = false;
        used = true;
      }
    if (used) continue;
    const std::string near = nearest(pattern, names);
    problems.add(cat("train.freeze: no tensor matches '", pattern.substr(0, 100), "'",
                     near.empty() ? "" : cat("; did you mean ", near, "?")));
  }
  if (problems.empty() && std::ranges::none_of(model.blocks, &BlockSpec::trainable))
    problems.add("train.freeze matches every tensor: nothing is left to train");
  problems.throw_if_any(Blame::usage, "the recipe freezes what it can't:");
}

}  // namespace zt::spec
