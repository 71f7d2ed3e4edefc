// Tokenizing ahead of a run: sources are cut into chunks, each of which becomes one token file. Ranks share the chunks
// out, a killed run keeps the finished ones, and memory is that of one chunk, whatever the sources' size; of packed raw text, that of a whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/row_formats.h"
#include "data/source.h"
#include "data/token_file.h"
#include "recipe/settings.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace zt::data {

// A chunk holds what begins in so many bytes of a source's rows or text.
constexpr std::int64_t kChunkBytes = std::int64_t{16} << 20;

// Which part of the chunks this rank makes: those whose number is `index` modulo `count`.
struct Share {
  int index = 0, count = 1;
  bool speaks = true;  // says how far long work is
  // Asked now and then: true ends the work early and in order, without the chunks that are not finished.
  std::function<bool()> stops = {};
};

// Turns documents into ids.
struct Encoding {
  const text::Tokenizer* tokenizer = nullptr;
  std::int64_t vocabulary = 0;               // rows of the model's embedding: no id may be above
  bool add_bos = false, add_eos = false;     // around raw text
  const text::ChatTemplate* chat = nullptr;  // for all that is not raw text
  recipe::TrainOn train_on = recipe::TrainOn::all_answers;
};

enum class Part { all, training, validation };

// What is to be tokenized together: one source, or of raw text the part of it that trains.
struct Job {
  std::string name;             // for people
  std::vector<TextFile> files;  // in order
  bool rows = false;            // JSON rows; otherwise raw text
  RowFormat format;             // of rows
  Part part = Part::all;        // of raw text
  double fraction = 0;          // of it that validates
};

// A place in the files of a job, and what is wrong there.
struct Example {
  std::int32_t file = 0;
  std::int64_t line = 0, column = 0;
  std::string reason;
};

// What the rows of one chunk came to; kept in its token file.
struct ChunkNotes {
  std::int64_t rows = 0;                      // read, good and bad
  std::int64_t trained = 0;                   // tokens of its documents that are trained
  std::int64_t untrained = 0;                 // rows left out because no token of theirs is
  std::int64_t faulty = 0;                    // rows that cannot be read or rendered
  bool cut = false;                           // a fault ended the reading of a file
  bool had_bom = false;                       // a file began with a byte-order mark, which was skipped
  std::vector<Example> untrained_at, faults;  // the first of them

  std::string json() const;
  static ChunkNotes parse(const std::string& json);
  void add(const ChunkNotes& other);
};
constexpr std::size_t kNotedExamples = 20;

// "FILE:LINE:COLUMN: reason", without what is not known.
std::string text_of(const Job& job, const Example& example);

// The folder for the token files of a job: its name has all in it that decides the ids, and not where the files lie.
std::filesystem::path chunk_folder(const Job& job, const Encoding& encoding);
// The token files of a finished job in order; nothing when some are missing.
std::optional<std::vector<std::filesystem::path>> finished_chunks(const std::filesystem::path& folder);

// Makes what is missing of this rank's chunks, and returns their folder. Faults of rows are noted, not thrown. Throws
// Error(model) for ids outside the model's vocabulary, Error(data) for raw text that cannot be encoded and for files that
// change meanwhile, Error(machine) when the disk fails.
std::filesystem::path prepare(const Job& job, const Encoding& encoding, const Share& share);

}  // namespace zt::data
