#include "text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "text/utf8.h"
#include "text/wire_format.h"

namespace zt::text {
namespace {

using Kind = SentencePieceFile::Kind;
using Piece = SentencePieceFile::Piece;

// The largest published vocabularies have 2^18.
constexpr std::size_t kPieceLimit = std::size_t{1} << 22;

// Field numbers of sentencepiece_model.proto.
namespace model {
enum : std::uint32_t { pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5 };
}
namespace piece {
enum : std::uint32_t { text = 1, kind = 3 };
}
namespace trainer {
enum : std::uint32_t {
  model_type = 3,
  space_after_word = 24,
  byte_fallback = 35,
  bos = 41,
  eos = 42,
  pad = 43
};
enum ModelType : std::uint64_t { unigram = 1, bpe = 2 };
}  // namespace trainer
namespace normalizer {
enum : std::uint32_t { name = 1, table = 2, adds_prefix = 3, removes_spaces = 4, marks_spaces = 5 };
}

// The specification's values where the file says nothing.
struct Trainer {
  std::uint64_t model_type = trainer::unigram;
  bool space_after_word = false, byte_fallback = false;
  std::int64_t bos = 1, eos = 2, pad = -1;
};
struct Normalizer {
  std::string name;
  bool has_table = false, adds_prefix = true, removes_spaces = true, marks_spaces = true;
};

Piece read_piece(std::string_view message) {
  Piece read;
  WireReader fields(message);
  while (const auto field = fields.next()) {
    if (field->number == piece::text) read.text = field->bytes;
    if (field->number == piece::kind) read.kind = static_cast<Kind>(field->value);
  }
  return read;
}

void read_trainer(std::string_view message, Trainer* read) {
  WireReader fields(message);
  while (const auto field = fields.next()) {
    const auto id = std::int64_t(field->value);  // -1 is none
    switch (field->number) {
      case trainer::model_type: read->model_type = field->value; break;
      case trainer::space_after_word: read->space_after_word = field->value != 0; break;
      case trainer::byte_fallback: read->byte_fallback = field->value != 0; break;
      case trainer::bos: read->bos = id; break;
      case trainer::eos: read->eos = id; break;
      case trainer::pad: read->pad = id; break;
      default: break;
    }
  }
}

void read_normalizer(std::string_view message, Normalizer* read) {
  WireReader fields(message);
  while (const auto field = fields.next()) {
    switch (field->number) {
      case normalizer::name: read->name = field->bytes; break;
      case normalizer::table: read->has_table = !field->bytes.empty(); break;
      case normalizer::adds_prefix: read->adds_prefix = field->value != 0; break;
      case normalizer::removes_spaces: read->removes_spaces = field->value != 0; break;
      case normalizer::marks_spaces: read->marks_spaces = field->value != 0; break;
      default: break;
    }
  }
}

void check(const Trainer& trainer, const Normalizer& normalizer, Problems* problems) {
  if (trainer.model_type != trainer::bpe && trainer.model_type != trainer::unigram)
    problems->add("trainer_spec.model_type is neither BPE nor UNIGRAM, which is not supported");
  if (trainer.space_after_word) problems->add("trainer_spec.treat_whitespace_as_suffix is not supported");
  // The library follows the table's offsets unchecked, so a faulty one would read any memory.
  if (normalizer.has_table)
    problems->add(
        cat("normalizer_spec '", normalizer.name, "' with a precompiled_charsmap is not supported"));
  if (normalizer.removes_spaces) problems->add("normalizer_spec.remove_extra_whitespaces is not supported");
  if (!normalizer.marks_spaces)
    problems->add("normalizer_spec.escape_whitespaces being false is not supported");
}

bool is_one_character(const std::string& text) { return text.size() == utf8_length(text[0]); }

void check(const Piece& piece, std::size_t id, Problems* problems) {
  const auto fault = [&](const std::string& what) { problems->add(cat("piece ", id, " ", what)); };
  if (piece.kind < Kind::normal || piece.kind > Kind::byte)
    return fault(cat("is of the unknown kind ", std::int64_t(piece.kind)));
  if (piece.text.empty()) return fault("is empty");
  if (first_invalid_utf8(piece.text)) return fault("is not UTF-8");
  // The library takes pieces as C strings.
  if (piece.text.find('\0') != std::string::npos) return fault("has a zero byte");
  if (piece.kind == Kind::control && is_one_character(piece.text))
    fault(cat("'", piece.text, "' is a control token of one character: text would become it"));
}

void check(const std::vector<Piece>& pieces, Problems* problems) {
  constexpr std::size_t kMostListed = 8;
  Problems faults;
  for (std::size_t id = 0; id < pieces.size(); ++id) check(pieces[id], id, &faults);
  const std::size_t listed = std::min(faults.list().size(), kMostListed);
  for (std::size_t i = 0; i < listed; ++i) problems->add(faults.list()[i]);
  if (faults.list().size() > listed)
    problems->add(cat("and ", faults.list().size() - listed, " more faulty pieces"));
}

// A role's id, if it is one.
std::optional<std::int32_t> role(std::int64_t id, const std::vector<Piece>& pieces) {
  const bool is_control =
      id >= 0 && id < std::int64_t(pieces.size()) && pieces[std::size_t(id)].kind == Kind::control;
  return is_control ? std::optional(std::int32_t(id)) : std::nullopt;
}

// Whether text could become this piece as a whole. Single characters are what text is made of: they stay.
bool can_be_matched(const Piece& piece) {
  const bool is_text =
      piece.kind == Kind::normal || piece.kind == Kind::user_defined || piece.kind == Kind::unused;
  return is_text && !is_one_character(piece.text);
}

// The same model in which `control` cannot come from text, and which puts nothing before it.
std::string rewritten(std::string_view bytes, const std::unordered_set<std::int32_t>& control) {
  std::string out;
  std::int32_t id = 0;
  WireReader fields(bytes);
  while (const auto field = fields.next()) {
    if (field->number == model::pieces && control.contains(id++) && can_be_matched(read_piece(field->bytes)))
      out +=
          wire_field(model::pieces, cat(field->bytes, wire_field(piece::kind, std::uint64_t(Kind::control))));
    else
      out += field->whole;
  }
  return out + wire_field(model::normalizer, wire_field(normalizer::adds_prefix, 0));
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes) {
  SentencePieceFile file;
  Trainer trainer;
  Normalizer normalizer;
  Problems problems;
  WireReader fields(bytes);
  while (const auto field = fields.next()) {
    if (field->number == model::pieces) file.pieces.push_back(read_piece(field->bytes));
    if (file.pieces.size() > kPieceLimit)
      throw Error(Blame::model, cat("the SentencePiece model has more than ", kPieceLimit, " pieces"));
    if (field->number == model::trainer) read_trainer(field->bytes, &trainer);
    if (field->number == model::normalizer) read_normalizer(field->bytes, &normalizer);
    if (field->number == model::denormalizer && !field->bytes.empty())
      problems.add("denormalizer_spec is not supported");
  }
  if (file.pieces.empty()) throw Error(Blame::model, "this is no SentencePiece model: it has no pieces");
  check(trainer, normalizer, &problems);
  check(file.pieces, &problems);
  problems.throw_if_any(Blame::model, "the SentencePiece model has problems",
                        "what changes ids and is not implemented is refused");
  file.bos = role(trainer.bos, file.pieces);
  file.eos = role(trainer.eos, file.pieces);
  file.pad = role(trainer.pad, file.pieces);
  file.byte_fallback = trainer.byte_fallback;
  file.adds_prefix = normalizer.adds_prefix;
  file.is_bpe = trainer.model_type == trainer::bpe;
  return file;
}

bool is_tiktoken_file(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size()) return false;
  const auto is_base64 = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/' || c == '=';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(line.begin(), line.begin() + std::ptrdiff_t(space), is_base64) &&
         std::all_of(line.begin() + std::ptrdiff_t(space) + 1, line.end(), is_digit);
}

struct SentencePieceEncoder::Library {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceEncoder::SentencePieceEncoder(std::string_view bytes,
                                           const std::unordered_set<std::int32_t>& control)
    : library_(std::make_unique<Library>()) {
  const auto status = library_->processor.LoadFromSerializedProto(rewritten(bytes, control));
  if (!status.ok())
    throw Error(Blame::model, cat("the SentencePiece library refuses the model: ", status.ToString()));
}

SentencePieceEncoder::~SentencePieceEncoder() = default;

void SentencePieceEncoder::append_ids(std::string_view text, std::vector<std::int32_t>* out) const {
  std::vector<int> ids;
  const auto status = library_->processor.Encode(text, &ids);
  if (!status.ok())
    throw Error(Blame::data, cat("the SentencePiece library cannot encode a text of ", text.size(),
                                 " bytes: ", status.ToString()));
  out->insert(out->end(), ids.begin(), ids.end());
}

}  // namespace zt::text
