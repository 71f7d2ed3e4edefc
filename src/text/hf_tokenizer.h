// A tokenizer that a Hugging Face folder describes.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/decoder.h"
#include "text/json_fields.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/scratch_pool.h"
#include "text/tokenizer.h"
#include "text/tokenizer_settings.h"
#include "text/vocabulary.h"

namespace zt::text {

class HfTokenizer final : public Tokenizer {
 public:
  // `description` is tokenizer.json's content. Throws Error(model) with all faults at once.
  HfTokenizer(const Json& description, const TokenizerSettings& settings, Files files);

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override;
  std::vector<std::int32_t> encode_with_specials(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t vocabulary() const override { return vocabulary_.size(); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  std::optional<std::int32_t> pad() const override { return pad_; }
  bool adds_bos() const override { return adds_bos_; }
  bool adds_eos() const override { return adds_eos_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return vocabulary_.id_of(token);
  }
  std::string token(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override { return special_.contains(id); }
  Files files() const override { return files_; }

 private:
  // Which added tokens are looked for: in the text as it is, and in the normalized text.
  struct Finders {
    AddedTokenFinder raw, normalized;
  };
  void read_vocabulary(const Json& description, const TokenizerSettings& settings, Problems* problems);
  void read_added_tokens(const Json& list, Problems* problems);
  void add_token(const AddedToken& token, Problems* problems);
  void read_settings(const TokenizerSettings& settings, Problems* problems);
  void read_post_processor(const Json& description, int depth);
  void read_template(const Json& description);
  void fill_finders();

  std::vector<std::int32_t> encode(std::string_view text, const Finders& finders, Place begin) const;
  void append_segment(std::string_view text, Place place, EncodeScratch* scratch,
                      std::vector<std::int32_t>* out) const;

  mutable ScratchPool<EncodeScratch> pool_;

  Files files_;
  Vocabulary vocabulary_;
  std::vector<AddedToken> added_;
  std::unordered_set<std::int32_t> special_, added_ids_;
  Finders content_, raw_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
  Decoder decoder_;
  std::optional<std::int32_t> bos_, eos_, pad_, template_bos_, template_eos_;
  bool adds_bos_ = false, adds_eos_ = false;
};

// Flags as tokenizer.json and tokenizer_config.json spell them.
AddedToken added_token_from_json(const Json& object, std::int64_t id, const std::string& where);

}  // namespace zt::text
