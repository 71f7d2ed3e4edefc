// The last step of a tokenizer file: tokens become text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/json_fields.h"

namespace zt::text {

class Decoder {
 public:
  // Takes the file's "decoder": null (tokens joined by spaces), or ByteLevel, Metaspace, Replace,
  // ByteFallback, Fuse, Strip or a Sequence of these. Throws Error(model) for any other, by name.
  static Decoder from_json(const Json& description);
  std::string text_of(std::vector<std::string> tokens) const;

 private:
  using Step = std::function<void(std::vector<std::string>*)>;
  void add(const Json& description, const std::string& where, int depth);
  std::vector<Step> steps_;
  bool joins_by_space_ = false;
};

}  // namespace zt::text
