// What the files around a tokenizer's own file say; read by load_tokenizer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"

namespace zt::text {

// Name and bytes.
using Files = std::vector<std::pair<std::string, std::string>>;

struct TokenizerSettings {
  std::optional<std::string> bos, eos, pad;  // tokens by text
  std::optional<bool> add_bos, add_eos;      // absent: the tokenizer's own file decides
  std::vector<AddedToken> added;             // in addition to the tokenizer's own
  // Of SentencePiece models only; a tokenizer.json says it itself.
  std::optional<bool> prefix_space;  // absent: the model decides
  bool prefix_after_tokens = true;   // whether text after a special token gets the space too
};

}  // namespace zt::text
