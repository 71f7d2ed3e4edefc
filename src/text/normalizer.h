// The first step of a tokenizer file: text is rewritten before it is split.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/json_fields.h"
#include "text/place.h"

namespace zt::text {

// A list of rewriting steps. Empty means the text stays as it is.
class Normalizer {
 public:
  // Takes the file's "normalizer": null, or NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip or a Sequence of
  // these. Throws Error(model) for any other, by name.
  static Normalizer from_json(const Json& description);

  bool empty() const { return steps_.empty(); }
  // The text must be valid UTF-8, and so is the result. A continuation gets nothing prepended.
  std::string apply(std::string text, Place place) const;

 private:
  using Step = std::function<std::string(std::string, Place)>;
  void add(const Json& description, const std::string& where, int depth);
  std::vector<Step> steps_;
};

// Reads {"String": s} or {"Regex": r} as a regular expression; used by Replace and Split.
std::string pattern_from_json(const Json& pattern, const std::string& where);

}  // namespace zt::text
