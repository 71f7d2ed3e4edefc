#include "spec/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::spec {

const char* name(Family family) {
  switch (family) {
    case Family::gpt2: return "gpt2";
    case Family::llama: return "llama";
  }
  throw Error(Blame::bug, "unknown model family");
}

const char* name(Rope::Scaling scaling) {
  switch (scaling) {
    case Rope::Scaling::none: return "default";
    case Rope::Scaling::linear: return "linear";
    case Rope::Scaling::dynamic: return "dynamic";
    case Rope::Scaling::llama3: return "llama3";
    case Rope::Scaling::yarn: return "yarn";
  }
  throw Error(Blame::bug, "unknown rope scaling");
}

std::int64_t TensorSpec::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

bool BlockSpec::trainable() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorSpec& t) { return t.trainable; });
}

const TensorSpec* BlockSpec::find(std::string_view role) const {
  for (const TensorSpec& t : tensors)
    if (t.role == role) return &t;
  return nullptr;
}

const TensorSpec& BlockSpec::at(std::string_view role) const {
  if (const TensorSpec* t = find(role)) return *t;
  throw Error(Blame::bug, cat("block '", name, "' has no tensor '", role, "'"));
}

std::int64_t ModelSpec::parameters() const {
  std::int64_t n = 0;
  for (const BlockSpec& block : blocks) n += block.elements;
  return n;
}

}  // namespace zt::spec
