// The forms in which models expect conversations: which characters and which special tokens stand around each turn.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "recipe/settings.h"
#include "text/conversation.h"

namespace zt::text {

// A stretch of a written-out conversation.
struct Part {
  static constexpr int kMarks = -1;

  std::string text;
  bool special =
      false;  // the special token of this spelling; otherwise ordinary characters, whatever they spell
  int message = kMarks;  // whose words or turn end this is; kMarks: header, separator
};

// What a form needs to know of a tokenizer.
struct FormTokens {
  std::string bos, eos;      // "" where it has none
  bool turn_tokens = false;  // mistral: [INST] and [/INST] are special tokens
};

// The special tokens that a form writes.
std::vector<std::string> tokens_of(recipe::ChatTemplate form, const FormTokens& tokens);
// Those after which an answer is complete.
std::string turn_end(recipe::ChatTemplate form, const FormTokens& tokens);

// The whole conversation; with `open`, then what stands before the words of an answer to come. Throws Error(data) for
// turns the form has no place for.
//
// Sources: llama2, llama3: meta-llama/llama and llama-models, chat formats; chatml: openai-python, chatml.md; mistral:
// mistral-common, instruct tokenizers v1 and v3; alpaca: tatsu-lab/stanford_alpaca, train.py, with a line end before
// the answer; vicuna: lm-sys/FastChat, conversation.py (v1.1).
std::vector<Part> parts_of(recipe::ChatTemplate form, const Conversation& conversation,
                           const FormTokens& tokens, bool open);

}  // namespace zt::text
