#include "text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/document.h"

namespace zt::text {
namespace {

using Kind = SentencePieceFile::Kind;

// The library needs about 100 bytes for each byte that it encodes at once.
constexpr std::size_t kPartLimit = std::size_t{16} << 20;

// What transformers writes as decoder when it turns such a model into a tokenizer.json.
// Source: huggingface/transformers, convert_slow_tokenizer.py, LlamaConverter.
Json decoder_description(bool prefix_space) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (prefix_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const SentencePieceFile& file, std::string_view model,
                                               const TokenizerSettings& settings, Files files)
    : files_(std::move(files)),
      cutter_(file),
      prefix_space_(settings.prefix_space.value_or(file.adds_prefix)),
      prefix_after_tokens_(settings.prefix_after_tokens) {
  Problems problems;
  read_pieces(file, &problems);
  add_tokens(settings.added, &problems);
  read_roles(file, settings, &problems);
  problems.throw_if_any(Blame::model, "tokenizer files have problems");
  fill_finders(settings.added);
  encoder_ = std::make_unique<SentencePieceEncoder>(model, special_);
  decoder_ = Decoder::from_json(decoder_description(prefix_space_));
}

void SentencePieceTokenizer::read_pieces(const SentencePieceFile& file, Problems* problems) {
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    const auto& [text, kind] = file.pieces[id];
    vocabulary_.add(text, std::int64_t(id), problems);
    if (kind == Kind::control || kind == Kind::unknown) special_.insert(std::int32_t(id));
  }
}

void SentencePieceTokenizer::add_tokens(const std::vector<AddedToken>& added, Problems* problems) {
  for (const AddedToken& token : added) {
    vocabulary_.add(token.content, token.id, problems);
    if (token.special) special_.insert(token.id);
  }
}

void SentencePieceTokenizer::read_roles(const SentencePieceFile& file, const TokenizerSettings& settings,
                                        Problems* problems) {
  const auto resolve = [&](const char* role, const std::optional<std::string>& name,
                           std::optional<std::int32_t> own) -> std::optional<std::int32_t> {
    if (!name) return own;
    const auto id = vocabulary_.id_of(*name);
    if (!id) problems->add(cat(role, " '", *name, "' is not in the vocabulary"));
    if (id) special_.insert(*id);
    return id;
  };
  bos_ = resolve("bos_token", settings.bos, file.bos);
  eos_ = resolve("eos_token", settings.eos, file.eos);
  pad_ = resolve("pad_token", settings.pad, file.pad);
  adds_bos_ = settings.add_bos.value_or(bos_.has_value());
  adds_eos_ = settings.add_eos.value_or(false);
  if (adds_bos_ && !bos_) problems->add("add_bos_token is true, but there is no bos_token");
  if (adds_eos_ && !eos_) problems->add("add_eos_token is true, but there is no eos_token");
}

void SentencePieceTokenizer::fill_finders(const std::vector<AddedToken>& added) {
  for (const std::int32_t id : special_) raw_.add({.id = id, .special = true}, token(id));
  // The files around the model know more about a token: how it deals with spaces and words beside it.
  for (const AddedToken& token : added) {
    raw_.add(token, token.content);
    if (!special_.contains(token.id)) content_.add(token, token.content);
  }
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text) const {
  return encode(text, content_, Place::start);
}

std::vector<std::int32_t> SentencePieceTokenizer::encode_continuation(std::string_view text) const {
  return encode(text, content_, Place::continuation);
}

std::vector<std::int32_t> SentencePieceTokenizer::encode_with_specials(std::string_view text) const {
  return encode(text, raw_, Place::start);
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text,
                                                         const AddedTokenFinder& finder, Place begin) const {
  require_document(text);
  auto loan = pool_.lend();
  std::vector<std::int32_t> ids;
  for (const Segment& segment : finder.segments(text)) {
    if (segment.id)
      ids.push_back(*segment.id);
    else
      append_text(segment.text, segment.text.data() == text.data() ? begin : Place::after_token, loan.get(),
                  &ids);
  }
  return ids;
}

void SentencePieceTokenizer::append_text(std::string_view text, Place place, Scratch* scratch,
                                         std::vector<std::int32_t>* out) const {
  const bool wants_prefix = place == Place::start || (place == Place::after_token && prefix_after_tokens_);
  std::size_t done = 0;
  if (prefix_space_ && wants_prefix) {
    // The space may stand alone, where no piece joins it with what follows.
    std::string& first = scratch->first_part;
    first.assign(" ").append(text.substr(0, cutter_.part_end(text, 0)));
    const std::size_t end = cutter_.part_end(first, 0);
    append_part(std::string_view(first).substr(0, end), scratch, out);
    done = end - 1;
  }
  while (done < text.size()) {
    const std::size_t end = cutter_.part_end(text, done);
    append_part(text.substr(done, end - done), scratch, out);
    done = end;
  }
}

void SentencePieceTokenizer::append_part(std::string_view part, Scratch* scratch,
                                         std::vector<std::int32_t>* out) const {
  if (scratch->words.append_ids(part, out)) return;
  if (part.size() > kPartLimit)
    throw Error(Blame::data,
                cat("a text has ", human_bytes(std::int64_t(part.size())),
                    " that the SentencePiece model cannot take in parts; the limit is ",
                    human_bytes(std::int64_t(kPartLimit))),
                "split the document");
  scratch->ids.clear();
  encoder_->append_ids(part, &scratch->ids);
  scratch->words.keep(part, scratch->ids);
  out->insert(out->end(), scratch->ids.begin(), scratch->ids.end());
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const std::string* found = vocabulary_.token(id);
    if (found == nullptr) refuse_id(id, vocabulary());
    tokens.push_back(*found);
  }
  return decoder_.text_of(std::move(tokens));
}

std::string SentencePieceTokenizer::token(std::int32_t id) const {
  const std::string* found = vocabulary_.token(id);
  return found == nullptr ? "" : *found;
}

}  // namespace zt::text
