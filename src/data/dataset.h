// Token files cut into rows of one length, and rows made into batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/token_file.h"
#include "exec/engine.h"
#include "recipe/settings.h"
#include "text/tokenizer.h"

namespace zt::data {

// What the trainer sees of one row. `labels` are not shifted: labels[i] is ids[i] where it is trained, else
// -100. `documents` are the bounds of the documents inside the row, from 0 to the number of ids.
struct Row {
  std::string id;  // stable: file, document and first token
  std::vector<std::int32_t> ids, labels, documents;
};

// Rows over one token file. Each row has at most `length` ids; a document that goes on in the next row is
// repeated there by its last id, so that every step from one token to the next is trained exactly once. With
// `packing` a row holds as many documents as fit; without, one (or a part of one).
class Dataset {
 public:
  Dataset(const std::filesystem::path& tokens, std::string name, std::int64_t length, bool packing);
  std::int64_t rows() const { return static_cast<std::int64_t>(starts_.size()); }
  std::int64_t tokens() const { return file_.tokens(); }
  std::int64_t documents() const { return file_.documents(); }
  std::int64_t length() const { return length_; }
  Row row(std::int64_t number) const;
  // Of everything that decides the rows: the tokens, the length, packing.
  std::string digest() const;

 private:
  struct Start {
    std::int64_t document, offset;  // offset of the first id inside the document
  };
  // Walks one row from `at`; calls take(document, first, count) for each piece. Returns where the next row
  // starts.
  template <typename Take>
  Start walk(Start at, Take take) const;
  bool useful(Start at) const;

  TokenFile file_;
  std::string name_;
  std::int64_t length_;
  bool packing_;
  std::vector<Start> starts_;
};

// The one place where labels become targets: position i must predict labels[i+1], never across a document's
// end. Rows lie one behind the other; what they leave of `count` x `length` slots is not computed.
// `numbers` are those of the rows in the step's global batch, by which dropout then goes; without them it goes by the
// micro-batch's number and the row's in it.
exec::HostBatch make_batch(std::span<const Row> rows, std::int64_t count, std::int64_t length,
                           std::span<const std::int64_t> numbers = {});

struct TextData {
  std::unique_ptr<Dataset> train, validation;  // each absent where it was not wanted or the recipe has none
};

// Tokenizes what is not cached yet (with progress lines for long work) and opens the rows. Errors of all
// files at once: Error(data). `tokenizer` must make only ids below `vocabulary`, else Error(model) naming the
// token. Without `with_training` only validation data is opened.
TextData open_text(const recipe::Data& settings, const text::Tokenizer& tokenizer, std::int64_t vocabulary,
                   bool with_training = true);

// All training text, for tokenizers that are made from it. Throws Error(data) where it is not UTF-8 or empty.
std::string training_text(const recipe::Data& settings);

}  // namespace zt::data
