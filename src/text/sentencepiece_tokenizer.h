// A tokenizer that a SentencePiece model file describes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/place.h"
#include "text/scratch_pool.h"
#include "text/sentencepiece_cutter.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer.h"
#include "text/tokenizer_settings.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace zt::text {

// Control and unknown pieces, and what the files around the model call special, are control tokens: never found
// in content. A beginning token is added where the model has one and the files do not say otherwise.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  // `file` is what read_sentencepiece_file made of `model`. Throws Error(model) with all faults at once.
  SentencePieceTokenizer(const SentencePieceFile& file, std::string_view model,
                         const TokenizerSettings& settings, Files files);

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
  struct Scratch {
    WordCache words;
    std::vector<std::int32_t> ids;
    std::string first_part;
  };
  void read_pieces(const SentencePieceFile& file, Problems* problems);
  void add_tokens(const std::vector<AddedToken>& added, Problems* problems);
  void read_roles(const SentencePieceFile& file, const TokenizerSettings& settings, Problems* problems);
  void fill_finders(const std::vector<AddedToken>& added);

  std::vector<std::int32_t> encode(std::string_view text, const AddedTokenFinder& finder, Place begin) const;
  void append_text(std::string_view text, Place place, Scratch* scratch,
                   std::vector<std::int32_t>* out) const;
  void append_part(std::string_view part, Scratch* scratch, std::vector<std::int32_t>* out) const;

  mutable ScratchPool<Scratch> pool_;
  Files files_;
  Vocabulary vocabulary_;
  std::unordered_set<std::int32_t> special_;
  AddedTokenFinder content_, raw_;  // tokens that are looked for in content, and in raw text
  SentencePieceCutter cutter_;
  std::unique_ptr<SentencePieceEncoder> encoder_;
  Decoder decoder_;
  bool prefix_space_ = true, prefix_after_tokens_ = true;
  std::optional<std::int32_t> bos_, eos_, pad_;
  bool adds_bos_ = false, adds_eos_ = false;
};

}  // namespace zt::text
