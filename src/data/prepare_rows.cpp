// Rows of JSON files to token files.
#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/chunks.h"
#include "data/row_reader.h"

namespace zt::data {
namespace {

// A row of the open chunk; the reader's own bytes are gone when the next row is read.
struct KeptRow {
  std::string bytes;
  RawRow row;
  Origin origin;
};

// What a row comes to: a document, or faults.
struct Outcome {
  text::Rendered rendered;
  std::vector<RowFault> faults;
  std::exception_ptr failure;  // nothing of the row's: the model's vocabulary, memory
};

text::Rendered raw_text(const std::string& text, const Encoding& e) {
  text::Rendered out;
  if (e.add_bos) out.ids.push_back(e.tokenizer->bos().value());
  const std::vector<std::int32_t> ids = e.tokenizer->encode(text);
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  if (e.add_eos) out.ids.push_back(e.tokenizer->eos().value());
  out.trained.assign(out.ids.size(), out.ids.size() > 1);
  return out;
}

Outcome outcome_of(const KeptRow& kept, const RowFormat& format, const Encoding& e) {
  Outcome outcome;
  RawRow row = kept.row;
  row.bytes = kept.bytes;
  try {
    const std::optional<Document> document = document_of(row, format, outcome.faults);
    if (!document) return outcome;
    outcome.rendered = format.format == recipe::Format::text
                           ? raw_text(document->text, e)
                           : e.chat->render(document->conversation, e.train_on);
    require_in_vocabulary(outcome.rendered.ids, e);
  } catch (const Error& error) {
    if (error.blame() == Blame::data)
      outcome.faults.push_back(
          {row.line, row.column,
           error.hint().empty() ? error.problem() : cat(error.problem(), " (", error.hint(), ")")});
    else
      outcome.failure = std::current_exception();
  } catch (...) {
    outcome.failure = std::current_exception();
  }
  return outcome;
}

// The first id of a document is nobody's target.
std::int64_t trained_targets(const text::Rendered& rendered) {
  if (rendered.trained.empty()) return 0;
  return std::count(rendered.trained.begin() + 1, rendered.trained.end(), true);
}

// So many rows or bytes are encoded at once, by all cores.
constexpr std::size_t kRowsAtOnce = 4096, kBytesAtOnce = std::size_t{1} << 20;

class RowChunk {
 public:
  RowChunk(const Job& job, const Encoding& encoding, const Chunks& chunks, std::int64_t number)
      : job_(job), encoding_(encoding), number_(number) {
    if (chunks.wanted(number)) out_.emplace(chunks.path(number), encoding.vocabulary);
  }
  std::int64_t number() const { return number_; }

  void add(const RawRow& row, const Origin& origin) {
    if (!out_) return;
    rows_.push_back({std::string(row.bytes), row, origin});
    bytes_ += row.bytes.size();
    notes_.cut |= row.ends_reading;
    if (rows_.size() >= kRowsAtOnce || bytes_ >= kBytesAtOnce) encode();
  }
  void note_bom() { notes_.had_bom = true; }
  void finish(bool last, const Chunks& chunks);

 private:
  void encode();
  void take(const KeptRow& kept, const Outcome& outcome);

  const Job& job_;
  const Encoding& encoding_;
  std::int64_t number_;
  std::optional<TokenFileWriter> out_;  // absent where another rank makes this chunk
  std::vector<KeptRow> rows_;
  std::size_t bytes_ = 0;
  ChunkNotes notes_;
};

void RowChunk::take(const KeptRow& kept, const Outcome& outcome) {
  if (outcome.failure) std::rethrow_exception(outcome.failure);
  ++notes_.rows;
  if (!outcome.faults.empty()) {
    ++notes_.faulty;
    for (const RowFault& fault : outcome.faults)
      if (notes_.faults.size() < kNotedExamples)
        notes_.faults.push_back({kept.origin.file, fault.line, fault.column, fault.reason});
    return;
  }
  const std::int64_t trained = trained_targets(outcome.rendered);
  if (trained == 0) {
    ++notes_.untrained;
    if (notes_.untrained_at.size() < kNotedExamples)
      notes_.untrained_at.push_back({kept.origin.file, kept.origin.line, 0, ""});
    return;
  }
  notes_.trained += trained;
  out_->add(outcome.rendered.ids, outcome.rendered.trained);
  out_->end_document(kept.origin);
}

void RowChunk::encode() {
  std::vector<Outcome> outcomes(rows_.size());
  const auto count = static_cast<std::int64_t>(rows_.size());
#pragma omp parallel for schedule(dynamic, 16)
  for (std::int64_t i = 0; i < count; ++i)
    outcomes[static_cast<std::size_t>(i)] =
        outcome_of(rows_[static_cast<std::size_t>(i)], job_.format, encoding_);
  for (std::size_t i = 0; i < rows_.size(); ++i) take(rows_[i], outcomes[i]);
  rows_.clear();
  bytes_ = 0;
}

void RowChunk::finish(bool last, const Chunks& chunks) {
  if (!out_) return;
  encode();
  chunks.require_unchanged();
  TokenFileNotes notes;
  notes.last = last;
  notes.text = notes_.json();
  out_->finish(std::move(notes));
}

}  // namespace

void prepare_rows(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress) {
  std::int64_t rows = 0, bytes = 0, files_before = 0;
  std::optional<RowChunk> open;
  const auto go_to = [&](std::int64_t chunk) {
    while (!open || open->number() < chunk) {
      const std::int64_t next = open ? open->number() + 1 : 0;
      if (open) open->finish(false, chunks);
      open.emplace(job, encoding, chunks, next);
    }
  };
  go_to(0);
  for (std::size_t f = 0; f < job.files.size(); ++f) {
    RowReader reader(job.files[f].path);
    RawRow row;
    while (reader.next(row)) {
      if (chunks.stopped()) return;
      go_to(bytes / kChunkBytes);
      bytes += static_cast<std::int64_t>(row.bytes.size());
      open->add(row, {rows, static_cast<std::int32_t>(f),
                      static_cast<std::uint32_t>(std::min<std::int64_t>(row.line, UINT32_MAX))});
      ++rows;
      progress.at(files_before + reader.file_bytes_read());
    }
    if (reader.had_bom()) open->note_bom();
    files_before += reader.file_bytes();
  }
  open->finish(true, chunks);
}

}  // namespace zt::data
