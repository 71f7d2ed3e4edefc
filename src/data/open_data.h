// The data of a recipe: prepared, opened, checked, and accounted for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/preparation.h"
#include "recipe/settings.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace zt::data {

// What became of a source. `rows` = `documents` + `held_out` + `overlong` + `untrained` + `faulty`, for JSON rows; of
// raw text only the counts behind `faulty` are known.
struct SourceReport {
  std::string name;
  bool raw_text = false, validation = false;
  std::int64_t rows = 0;       // read
  std::int64_t documents = 0;  // used
  std::int64_t held_out = 0;   // for validation, or of that for training
  std::int64_t overlong = 0;   // longer than a row and left out
  std::int64_t cut = 0;        // longer than a row and cut there; among `documents`
  std::int64_t untrained = 0;  // without a token to train
  std::int64_t faulty = 0;     // skipped
  std::int64_t tokens = 0, trained = 0;
  std::int64_t packed_rows = 0, length = 0;
  bool had_bom = false;
  std::vector<std::string> examples;  // places of rows that were left out, with the reason
  // Of the places in the rows, the share that holds tokens.
  double efficiency() const;
};

struct DataSets {
  std::unique_ptr<Dataset> train, validation;  // each absent where it was not wanted or the recipe has none
  std::vector<SourceReport> reports;
};

// How a recipe's documents become ids: the tokenizer and the resolved chat template, both of which outlive it, and
// what stands around raw text. Throws Error(usage) where a begin token is asked for that the tokenizer has not.
struct Rendering {
  const text::Tokenizer* tokenizer = nullptr;
  const text::ChatTemplate* chat = nullptr;   // of alpaca, sharegpt and messages; null: no source needs one
  const text::ChatTemplate* plain = nullptr;  // of completion
  std::int64_t vocabulary = 0;                // rows of the model's embedding
};

// Where the token files of a recipe's sources lie. Finding out reads the sources whole.
using TokenFolders = std::vector<std::filesystem::path>;

// Tokenizes this rank's share of what is not cached yet; only validation data without `with_training`. Nothing where
// `share.stops` ended it early. Errors as `prepare`, and Error(data) for files that aren't there.
std::optional<TokenFolders> prepare_data(const recipe::Data& settings, const Rendering& rendering,
                                         const Share& share, bool with_training = true);

// Opens the rows of what was prepared for the same settings, and tokenizes what is missing all the same. Faults of all
// files at once: Error(data) with the places of the first ones, or a warning where the recipe skips them and they are
// not too many.
DataSets open_data(const recipe::Data& settings, const Rendering& rendering, const TokenFolders& folders,
                   bool with_training = true);
// Prepares first, as the only rank.
DataSets open_data(const recipe::Data& settings, const Rendering& rendering, bool with_training = true);

// All training text, for tokenizers that are made from it. Throws Error(data) where it is not UTF-8 or empty.
std::string training_text(const recipe::Data& settings);

// Whether a begin token goes in front of a document.
bool adds_bos(recipe::AddBos choice, const text::Tokenizer& tokenizer);

}  // namespace zt::data
