#include "text/hf_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "text/byte_alphabet.h"
#include "text/document.h"

namespace zt::text {
namespace {

constexpr int kDepthLimit = 8;

// Runs one reader; its fault joins the others.
template <typename Read>
void collect(Problems* problems, Read read) {
  try {
    read();
  } catch (const Error& e) {
    problems->add(e.hint().empty() ? e.problem() : cat(e.problem(), " (", e.hint(), ")"));
  }
}

Json section(const Json& description, const char* key) { return description.value(key, Json()); }

}  // namespace

AddedToken added_token_from_json(const Json& object, std::int64_t id, const std::string& where) {
  AddedToken token;
  token.id = std::int32_t(std::clamp<std::int64_t>(id, -1, INT32_MAX));
  token.content = text_member(object, "content", where);
  token.single_word = flag_or(object, "single_word", false, where);
  token.lstrip = flag_or(object, "lstrip", false, where);
  token.rstrip = flag_or(object, "rstrip", false, where);
  token.special = flag_or(object, "special", false, where);
  token.normalized = flag_or(object, "normalized", !token.special, where);
  return token;
}

HfTokenizer::HfTokenizer(const Json& description, const TokenizerSettings& settings, Files files)
    : files_(std::move(files)) {
  Problems problems;
  collect(&problems, [&] {
    allow_only(description,
               {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                "post_processor", "decoder", "model"},
               "tokenizer.json");
  });
  // "truncation" and "padding" say how batches are cut, which is the recipe's business, not ids.
  collect(&problems, [&] { normalizer_ = Normalizer::from_json(section(description, "normalizer")); });
  collect(&problems,
          [&] { pre_tokenizer_ = PreTokenizer::from_json(section(description, "pre_tokenizer")); });
  collect(&problems, [&] { decoder_ = Decoder::from_json(section(description, "decoder")); });
  collect(&problems, [&] { read_vocabulary(description, settings, &problems); });
  collect(&problems, [&] { read_post_processor(section(description, "post_processor"), 0); });
  collect(&problems, [&] { read_settings(settings, &problems); });
  if (description.contains("model") && description["model"].is_object())
    model_ = std::make_unique<BpeModel>(description["model"], vocabulary_, pre_tokenizer_.byte_level(),
                                        special_, &problems);
  problems.throw_if_any(Blame::model, "tokenizer files have problems",
                        "zerotrain reads BPE tokenizers; what changes ids and is not implemented is refused");
  fill_finders();
}

void HfTokenizer::read_vocabulary(const Json& description, const TokenizerSettings& settings,
                                  Problems* problems) {
  const Json& model = member(description, "model", "tokenizer.json");
  const std::string type = text_or(model, "type", "BPE", "model");
  if (type != "BPE") throw Error(Blame::model, cat("model of type ", type, " is not supported"));
  const Json& vocab = member(model, "vocab", "model");
  if (!vocab.is_object() || vocab.empty()) throw Error(Blame::model, "model.vocab must map tokens to ids");
  for (const auto& [token, id] : vocab.items()) {
    if (id.is_number_integer() &&
        !(id.is_number_unsigned() && id.get<std::uint64_t>() > std::uint64_t{INT64_MAX}))
      vocabulary_.add(token, id.get<std::int64_t>(), problems);
    else
      problems->add(cat("token '", token, "' has id ", id.dump(), ", which is no whole number"));
  }
  if (present(description, "added_tokens")) read_added_tokens(description["added_tokens"], problems);
  for (const AddedToken& token : settings.added) add_token(token, problems);
}

void HfTokenizer::read_added_tokens(const Json& list, Problems* problems) {
  if (!list.is_array()) throw Error(Blame::model, "added_tokens must be a list");
  for (std::size_t i = 0; i < list.size(); ++i) {
    collect(problems, [&] {
      const std::string where = cat("added_tokens[", i, "]");
      add_token(added_token_from_json(list[i], int_member(list[i], "id", where), where), problems);
    });
  }
}

void HfTokenizer::add_token(const AddedToken& token, Problems* problems) {
  vocabulary_.add(token.content, token.id, problems);
  if (!added_ids_.insert(token.id).second) return;
  added_.push_back(token);
  if (token.special) special_.insert(token.id);
}

void HfTokenizer::read_post_processor(const Json& description, int depth) {
  const std::string where = "post_processor";
  if (description.is_null()) return;
  if (depth > kDepthLimit)
    throw Error(Blame::model, cat(where, " is nested deeper than ", kDepthLimit, " levels"));
  const std::string type = type_of(description, where);
  if (type == "Sequence") {
    for (const Json& step : member(description, "processors", where)) read_post_processor(step, depth + 1);
  } else if (type == "TemplateProcessing") {
    read_template(description);
  } else if (type != "ByteLevel") {  // ByteLevel only moves offsets
    throw Error(Blame::model, cat(where, " of type ", type, " is not supported"));
  }
}

void HfTokenizer::read_template(const Json& description) {
  const std::string where = "post_processor.single";
  bool after_text = false;
  for (const Json& item : member(description, "single", "post_processor")) {
    if (present(item, "Sequence")) {
      after_text = true;
      continue;
    }
    const std::string name = text_member(member(item, "SpecialToken", where), "id", where);
    const auto id = vocabulary_.id_of(name);
    if (!id) throw Error(Blame::model, cat(where, " names '", name, "', which is not in the vocabulary"));
    std::optional<std::int32_t>& place = after_text ? template_eos_ : template_bos_;
    if (place)
      throw Error(Blame::model,
                  cat(where, " with two special tokens on one side of the text is not supported"));
    place = id;
  }
}

void HfTokenizer::read_settings(const TokenizerSettings& settings, Problems* problems) {
  const auto resolve = [&](const char* role,
                           const std::optional<std::string>& name) -> std::optional<std::int32_t> {
    if (!name) return std::nullopt;
    const auto id = vocabulary_.id_of(*name);
    if (!id) problems->add(cat(role, " '", *name, "' is not in the vocabulary"));
    // A control token is one whether or not tokenizer.json lists it as added, and as special.
    if (id && !added_ids_.contains(*id)) add_token({.id = *id, .content = *name, .special = true}, problems);
    if (id) special_.insert(*id);
    return id;
  };
  bos_ = resolve("bos_token", settings.bos);
  eos_ = resolve("eos_token", settings.eos);
  pad_ = resolve("pad_token", settings.pad);
  if (!bos_) bos_ = template_bos_;
  if (!eos_) eos_ = template_eos_;
  adds_bos_ = settings.add_bos.value_or(template_bos_.has_value());
  adds_eos_ = settings.add_eos.value_or(template_eos_.has_value());
  const auto check = [&](bool adds, std::optional<std::int32_t> id, std::optional<std::int32_t> in_template,
                         const std::string& role) {
    if (adds && !id) problems->add(cat("add_", role, "_token is true, but there is no ", role, "_token"));
    if (adds && id && in_template && *id != *in_template)
      problems->add(
          cat(role, "_token is '", token(*id), "', but post_processor adds '", token(*in_template), "'"));
  };
  check(adds_bos_, bos_, template_bos_, "bos");
  check(adds_eos_, eos_, template_eos_, "eos");
}

void HfTokenizer::fill_finders() {
  for (const AddedToken& token : added_) {
    const std::string spelling =
        token.normalized ? normalizer_.apply(token.content, Place::after_token) : token.content;
    for (Finders* finders : {&content_, &raw_})
      if (finders == &raw_ || !special_.contains(token.id))
        (token.normalized ? finders->normalized : finders->raw).add(token, spelling);
  }
}

std::vector<std::int32_t> HfTokenizer::encode(std::string_view text) const {
  return encode(text, content_, Place::start);
}

std::vector<std::int32_t> HfTokenizer::encode_continuation(std::string_view text) const {
  return encode(text, content_, Place::continuation);
}

std::vector<std::int32_t> HfTokenizer::encode_with_specials(std::string_view text) const {
  return encode(text, raw_, Place::start);
}

std::vector<std::int32_t> HfTokenizer::encode(std::string_view text, const Finders& finders,
                                              Place begin) const {
  require_document(text);
  auto loan = pool_.lend();
  std::vector<std::int32_t> ids;
  for (const Segment& outer : finders.raw.segments(text)) {
    if (outer.id) {
      ids.push_back(*outer.id);
      continue;
    }
    const Place place = outer.text.data() == text.data() ? begin : Place::after_token;
    // Normalized text has to outlive the segments that point into it.
    const std::string changed =
        normalizer_.empty() ? std::string() : normalizer_.apply(std::string(outer.text), place);
    const std::string_view whole = normalizer_.empty() ? outer.text : std::string_view(changed);
    for (const Segment& inner : finders.normalized.segments(whole)) {
      if (inner.id)
        ids.push_back(*inner.id);
      else
        append_segment(inner.text, inner.text.data() == whole.data() ? place : Place::after_token, loan.get(),
                       &ids);
    }
  }
  return ids;
}

void HfTokenizer::append_segment(std::string_view text, Place place, EncodeScratch* scratch,
                                 std::vector<std::int32_t>* out) const {
  pre_tokenizer_.apply(text, place, &scratch->pieces);
  for (const std::string_view piece : scratch->pieces.list) model_->append_ids(piece, scratch, out);
}

std::string HfTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const std::string* found = vocabulary_.token(id);
    if (found == nullptr) refuse_id(id, vocabulary());
    tokens.push_back(*found);
    if (!pre_tokenizer_.byte_level() || !added_ids_.contains(id)) continue;
    // Added tokens are text; the decoder expects the byte alphabet.
    tokens.back().clear();
    for (const char byte : *found) tokens.back() += byte_alphabet()[static_cast<unsigned char>(byte)];
  }
  return decoder_.text_of(std::move(tokens));
}

std::string HfTokenizer::token(std::int32_t id) const {
  const std::string* found = vocabulary_.token(id);
  return found == nullptr ? "" : *found;
}

}  // namespace zt::text
