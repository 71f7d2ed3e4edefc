// Raw text to token files.
#include <algorithm>
#include <cctype>
#include <exception>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/chunks.h"

namespace zt::data {
namespace {

// A document longer than this is encoded in pieces, to bound memory and to keep all cores busy.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// Where the first piece ends: before a line that starts with a letter or digit, after a line end that no other
// white space precedes, since tokenizers join white space. Text without such lines is cut between characters.
std::size_t piece_end(std::string_view text) {
  if (text.size() <= kPieceBytes) return text.size();
  const auto is = [&](std::size_t at, int (*kind)(int)) {
    return kind(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = kPieceBytes; at > kPieceBytes / 2; --at) {
    if (text[at - 1] == '\n' && is(at, std::isalnum) && !is(at - 2, std::isspace)) return at;
  }
  std::size_t at = kPieceBytes;
  while (at > kPieceBytes - 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::string_view part_of(std::string_view text, Part part, double fraction) {
  text = without_bom(text);
  if (part == Part::all) return text;
  const auto cut = static_cast<std::size_t>(validation_start(text, fraction));
  return part == Part::training ? text.substr(0, cut) : text.substr(cut);
}

struct Piece {
  std::shared_ptr<const WholeText> whole;  // which the piece points into; gone with its last chunk
  std::string_view text;
  std::size_t file;
  bool begins, ends;  // its document
};

class TextChunk {
 public:
  TextChunk(const Job& job, const Encoding& encoding, std::int64_t number)
      : job_(job), encoding_(encoding), number_(number) {}
  std::int64_t number() const { return number_; }
  void add(const Piece& piece) { pieces_.push_back(piece); }
  // Without faults of `faults`, which gets the first one of each file, in order.
  void write(const Chunks& chunks, bool last, std::map<std::size_t, Error>& faults) const;

 private:
  std::vector<std::vector<std::int32_t>> encoded(std::map<std::size_t, Error>& faults) const;

  const Job& job_;
  const Encoding& encoding_;
  std::int64_t number_;
  std::vector<Piece> pieces_;
};

std::vector<std::vector<std::int32_t>> TextChunk::encoded(std::map<std::size_t, Error>& faults) const {
  std::vector<std::vector<std::int32_t>> ids(pieces_.size());
  std::vector<std::optional<Error>> errors(pieces_.size());
  std::exception_ptr failure;
  const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Piece& piece = pieces_[at];
    try {
      ids[at] = piece.begins ? encoding_.tokenizer->encode(piece.text)
                             : encoding_.tokenizer->encode_continuation(piece.text);
      require_in_vocabulary(ids[at], encoding_);
    } catch (const Error& e) {
      errors[at].emplace(e.blame(), cat(job_.files[piece.file].path.string(), ": ", e.problem()), e.hint());
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!errors[i]) continue;
    if (errors[i]->blame() != Blame::data) throw Error(*errors[i]);
    faults.emplace(pieces_[i].file, *errors[i]);
  }
  return ids;
}

void TextChunk::write(const Chunks& chunks, bool last, std::map<std::size_t, Error>& faults) const {
  const std::vector<std::vector<std::int32_t>> ids = encoded(faults);
  chunks.require_unchanged();
  if (!faults.empty()) return;
  std::vector<std::int32_t> begin, end;  // of each document
  if (encoding_.add_bos) begin.push_back(encoding_.tokenizer->bos().value());
  if (encoding_.add_eos) end.push_back(encoding_.tokenizer->eos().value());
  require_in_vocabulary(begin, encoding_);
  require_in_vocabulary(end, encoding_);
  TokenFileWriter out(chunks.path(number_), encoding_.vocabulary);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].begins) out.add(begin);
    out.add(ids[i]);
    if (pieces_[i].ends) out.add(end);
    if (pieces_[i].ends || i + 1 == pieces_.size()) out.end_document();
  }
  TokenFileNotes notes;
  notes.continues = !pieces_.empty() && !pieces_.front().begins;
  notes.last = last;
  out.finish(std::move(notes));
}

}  // namespace

void prepare_text(const Job& job, const Encoding& encoding, const Chunks& chunks, ProgressLines& progress) {
  std::int64_t bytes = 0;
  std::map<std::size_t, Error> faults;
  std::optional<TextChunk> open(std::in_place, job, encoding, 0);
  const auto close = [&](bool last) {
    if (chunks.wanted(open->number())) open->write(chunks, last, faults);
  };
  for (std::size_t f = 0; f < job.files.size(); ++f) {
    const auto whole = std::make_shared<const WholeText>(job.files[f].path);
    for (std::string_view document :
         documents_of(part_of(whole->text(), job.part, job.fraction), job.files[f].separator)) {
      for (bool begins = true; !document.empty(); begins = false) {
        for (; open->number() < bytes / kChunkBytes; open.emplace(job, encoding, open->number() + 1))
          close(false);
        if (chunks.stopped()) return;
        const std::string_view piece = document.substr(0, piece_end(document));
        document.remove_prefix(piece.size());
        open->add({whole, piece, f, begins, document.empty()});
        bytes += static_cast<std::int64_t>(piece.size());
        progress.at(bytes);
      }
    }
  }
  close(true);
  std::vector<Error> errors;
  for (const auto& [file, error] : faults) errors.push_back(error);
  throw_together(errors, "text files");
}

}  // namespace zt::data
