// Conversations as token ids, with the mask of what is trained: the only place that puts special ids into rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/settings.h"
#include "text/chat_forms.h"
#include "text/tokenizer.h"

namespace zt::text {

// Ids of one document and which of them are trained: those of the answers' words and of their turn ends.
struct Rendered {
  std::vector<std::int32_t> ids;
  std::vector<bool> trained;
};

struct ChatOptions {
  recipe::ChatTemplate form = recipe::ChatTemplate::none;  // not `auto`
  std::string default_system;  // the system message of conversations without one; "": none
  bool add_bos = false;        // put a begin token in front where the form puts none itself
};

class ChatTemplate {
 public:
  // `tokenizer` must outlive it. Throws Error(model) that names the special tokens the form needs and the tokenizer
  // lacks, Error(usage) for a begin token it lacks, or a system message where the form has no place for one.
  ChatTemplate(ChatOptions options, const Tokenizer& tokenizer);

  recipe::ChatTemplate form() const { return options_.form; }
  const std::string& default_system() const { return options_.default_system; }
  const FormTokens& tokens() const { return tokens_; }
  // Whether a begin token is put where the form has none in front.
  bool adds_bos() const;

  // A whole conversation. Words of messages are encoded without special tokens, whatever they spell, and each
  // stretch by itself, so that no token spans prompt and answer. The weight a row gives to a message wins over
  // `train_on`, except that `last_answer` never trains anything before the last answer. Throws Error(data) for what
  // the form cannot say: tool definitions, turns it has no place for, weights of messages that have no stretch of
  // their own.
  Rendered render(const Conversation& conversation, recipe::TrainOn train_on) const;
  // The ids in front of an answer to come.
  std::vector<std::int32_t> prompt(const Conversation& conversation) const;
  // What `render` or (open) `prompt` turns into ids, special tokens by their spelling.
  std::string text(const Conversation& conversation, bool open) const;
  // The id after which an answer is complete.
  std::int32_t turn_end() const { return turn_end_; }

 private:
  Conversation completed(const Conversation& conversation) const;
  std::vector<bool> trained_messages(const Conversation& conversation, recipe::TrainOn train_on) const;
  std::vector<Part> parts(const Conversation& conversation, bool open) const;
  std::vector<std::int32_t> content_ids(const std::string& text, bool begins) const;
  std::vector<std::size_t> cuts_in_spellings(const std::string& text) const;
  template <typename Fate>
  Rendered encode(const std::vector<Part>& parts, Fate trained) const;

  ChatOptions options_;
  const Tokenizer& tokenizer_;
  FormTokens tokens_;
  std::vector<std::int32_t> marks_;  // ids of the special tokens the form writes
  std::int32_t turn_end_ = -1;
};

}  // namespace zt::text
