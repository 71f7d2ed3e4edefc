// Conversations and tokenizers for the tests of chat templates.
#pragma once

#include <algorithm>
#include <random>

#include "folders.h"
#include "recipe/words.h"
#include "text/chat_choice.h"
#include "text/chat_template.h"

namespace zt::text {

using Form = recipe::ChatTemplate;
using recipe::TrainOn;

constexpr Form kAllForms[] = {Form::llama2, Form::llama3, Form::chatml, Form::mistral,
                              Form::alpaca, Form::vicuna, Form::none};

inline Message system_says(std::string words) { return {Role::system, std::move(words), "", std::nullopt}; }
inline Message user_says(std::string words) { return {Role::user, std::move(words), "", std::nullopt}; }
inline Message answer(std::string words) { return {Role::assistant, std::move(words), "", std::nullopt}; }
inline Message tool_says(std::string words) { return {Role::tool, std::move(words), "", std::nullopt}; }
inline Message weighed(Message message, bool trained) {
  message.trained = trained;
  return message;
}

// Bytes, with special tokens of these spellings from 256 on. `bos` and `eos` are among them or "".
inline std::unique_ptr<Tokenizer> bytes_with(const std::vector<std::string>& specials, const std::string& bos,
                                             const std::string& eos, TestJson config = TestJson::object(),
                                             const TestJson& flags = TestJson::object()) {
  TestJson description = TestJson::parse(byte_tokenizer()->files().at(0).second);
  description["added_tokens"] = TestJson::array();
  int id = 256;
  for (const std::string& token : specials) description["added_tokens"].push_back(added(id++, token, flags));
  if (!bos.empty()) config["bos_token"] = bos;
  if (!eos.empty()) config["eos_token"] = eos;
  return loaded(description, config);
}

// Has the tokens of every form.
inline std::unique_ptr<Tokenizer> bytes_for_all(const std::string& bos = "<s>",
                                                const std::string& eos = "</s>",
                                                const TestJson& config = TestJson::object()) {
  std::vector<std::string> tokens;
  for (const std::string& token :
       {bos, eos, std::string("<|im_start|>"), std::string("<|im_end|>"), std::string("<|start_header_id|>"),
        std::string("<|end_header_id|>"), std::string("<|eot_id|>")})
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  return bytes_with(tokens, bos, eos, config);
}

inline std::unique_ptr<ChatTemplate> chat_or_null(ChatOptions options, const Tokenizer& tokenizer) {
  try {
    return std::make_unique<ChatTemplate>(std::move(options), tokenizer);
  } catch (const Error&) {
    return nullptr;
  }
}

// Words from all corners, some of them spelling control tokens.
inline std::string random_words(std::mt19937* random, int most, bool plain) {
  static const std::vector<std::string> words = {
      "one", "Two", "gr\u00fc\u00df", "\u65e5\u672c", "\U0001F600", "4.5", "it's", "a,b;c", "(x)", "end."};
  static const std::vector<std::string> odd = {"</s>",
                                               "<s>",
                                               "<|im_end|>",
                                               "<|eot_id|>",
                                               "[/INST]",
                                               "<<SYS>>",
                                               "{{ x }}",
                                               "{% y %}",
                                               "\n",
                                               "\n\n",
                                               "USER:",
                                               "### Response:",
                                               "<|im_start|>assistant",
                                               "'q'",
                                               "\\n",
                                               "<|endoftext|>"};
  std::string text;
  const int count = int((*random)() % unsigned(most + 1));
  for (int i = 0; i < count; ++i) {
    const bool is_odd = !plain && (*random)() % 3 == 0;
    const auto& from = is_odd ? odd : words;
    text += (i > 0 ? " " : "") + from[(*random)() % from.size()];
  }
  return text;
}

// Turns in any order that the form takes; every message has a word that no other has.
inline Conversation random_conversation(std::mt19937* random, Form form, bool plain) {
  Conversation c;
  int number = 0;
  const auto add = [&](Role role) {
    const std::string words = random_words(random, 6, plain) + " w" + std::to_string(number++) + "w";
    c.messages.push_back({role, words.substr(words[0] == ' ' ? 1 : 0), "", std::nullopt});
  };
  if (form == Form::none) {
    if ((*random)() % 4 != 0) add(Role::user);
    add(Role::assistant);
    return c;
  }
  const bool any_role = form == Form::chatml || form == Form::llama3;
  if ((*random)() % 2 == 0) add(Role::system);
  for (int turns = 1 + int((*random)() % 6); turns > 0; --turns) {
    const unsigned pick = (*random)() % 10;
    add(any_role && pick == 9 ? Role::tool : pick % 2 == 0 ? Role::user : Role::assistant);
  }
  return c;
}

}  // namespace zt::text
