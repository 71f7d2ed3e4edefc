#include "text/chat_forms.h"

#include "base/error.h"
#include "base/text.h"
#include "recipe/words.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

using Form = recipe::ChatTemplate;

// One conversation being written out.
class Writer {
 public:
  Writer(Form form, const Conversation& conversation, const FormTokens& tokens)
      : form_(form), messages_(conversation.messages), tokens_(tokens) {}

  std::vector<Part> take() { return std::move(parts_); }
  void write(bool open);

 private:
  void special(const std::string& token, int message = Part::kMarks) {
    parts_.push_back({token, true, message});
  }
  void words(std::string text, int message = Part::kMarks) {
    if (!text.empty()) parts_.push_back({std::move(text), false, message});
  }
  std::string name() const { return cat("chat template ", recipe::word_of(form_)); }

  void llama2(bool open);
  void llama3(bool open);
  void chatml(bool open);
  void mistral(bool open);
  void alpaca(bool open);
  void vicuna(bool open);
  void none();

  void refuse(Role role) const;
  std::string leading_system();
  std::string user_turn(std::size_t* at) const;
  bool is(std::size_t at, Role role) const { return at < messages_.size() && messages_[at].role == role; }

  const Form form_;
  const std::vector<Message>& messages_;
  const FormTokens& tokens_;
  std::vector<Part> parts_;
  std::size_t first_ = 0;  // message after the leading system messages
};

const char* role_name(Role role) {
  switch (role) {
    case Role::system: return "system";
    case Role::user: return "user";
    case Role::assistant: return "assistant";
    case Role::tool: return "tool";
  }
  return "";
}

std::string whole(const Message& message) {
  return message.input.empty() ? message.content : cat(message.content, "\n", message.input);
}

// As Python's str.strip, which the publishers' own programs use.
std::string stripped(const std::string& text) {
  if (first_invalid_utf8(text)) return std::string(trim(text));
  return std::string(jinja::without_leading_space(jinja::without_trailing_space(text)));
}

void Writer::refuse(Role role) const {
  const std::string cure = "chat templates llama3 and chatml have one";
  if (role == Role::tool) throw Error(Blame::data, cat(name(), " has no place for a tool turn"), cure);
  throw Error(Blame::data,
              cat(name(), " has no place for a ", role_name(role), " message after the first turn"), cure);
}

// The system messages before the first turn, joined.
std::string Writer::leading_system() {
  std::vector<std::string> texts;
  for (; is(first_, Role::system); ++first_) texts.push_back(messages_[first_].content);
  return join(texts, "\n\n");
}

// User messages in a row are one turn: forms with only two parties have no mark between them.
std::string Writer::user_turn(std::size_t* at) const {
  std::vector<std::string> texts;
  for (; is(*at, Role::user); ++*at) texts.push_back(whole(messages_[*at]));
  return join(texts, "\n\n");
}

// <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] answer </s><s>[INST] ...
void Writer::llama2(bool open) {
  const std::string system = leading_system();
  std::string before = system.empty() ? "" : cat("<<SYS>>\n", system, "\n<</SYS>>\n\n");
  for (std::size_t i = first_; i < messages_.size() || !before.empty();) {
    if (is(i, Role::user) || !before.empty()) {
      special(tokens_.bos);
      words(cat("[INST] ", stripped(before + user_turn(&i)), " [/INST]"));
      before.clear();
      continue;
    }
    if (parts_.empty()) special(tokens_.bos);
    if (!is(i, Role::assistant)) refuse(messages_[i].role);
    words(cat(" ", stripped(messages_[i].content), " "), static_cast<int>(i));
    special(tokens_.eos, static_cast<int>(i));
    ++i;
  }
  if (open && parts_.empty()) special(tokens_.bos);
}

void Writer::llama3(bool open) {
  const auto header = [this](const std::string& role) {
    special("<|start_header_id|>");
    words(role);
    special("<|end_header_id|>");
    words("\n\n");
  };
  special(tokens_.bos);
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const Message& m = messages_[i];
    header(m.role == Role::tool ? "ipython" : role_name(m.role));
    words(stripped(whole(m)), static_cast<int>(i));
    special("<|eot_id|>", static_cast<int>(i));
  }
  if (open) header("assistant");
}

void Writer::chatml(bool open) {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    special("<|im_start|>");
    words(cat(role_name(messages_[i].role), "\n"));
    words(whole(messages_[i]), static_cast<int>(i));
    special("<|im_end|>", static_cast<int>(i));
    words("\n");
  }
  if (!open) return;
  special("<|im_start|>");
  words("assistant\n");
}

// <s> [INST] user [/INST] answer</s> [INST] ...; with marks as special tokens <s>[INST] user[/INST] answer</s>[INST].
// The system text stands in the first user turn, with special marks in the last one; where no user turn is, alone.
void Writer::mistral(bool) {
  const std::string system = leading_system();
  bool due = !system.empty();
  std::size_t holder = first_;
  for (std::size_t i = first_; tokens_.turn_tokens && i < messages_.size(); ++i)
    if (is(i, Role::user) && !is(i - 1, Role::user)) holder = i;
  special(tokens_.bos);
  for (std::size_t i = first_; i < messages_.size() || due;) {
    const bool holds = due && i == holder;
    if (is(i, Role::user) || holds) {
      const std::string before = !holds ? "" : is(i, Role::user) ? system + "\n\n" : system;
      const std::string text = before + user_turn(&i);
      if (tokens_.turn_tokens) {
        special("[INST]");
        words(text);
        special("[/INST]");
      } else {
        words(cat("[INST] ", text, " [/INST]"));
      }
      due = due && !holds;
      continue;
    }
    if (!is(i, Role::assistant)) refuse(messages_[i].role);
    // Behind a special token the tokenizer itself puts the space.
    words(cat(tokens_.turn_tokens ? "" : " ", messages_[i].content), static_cast<int>(i));
    special(tokens_.eos, static_cast<int>(i));
    ++i;
  }
}

std::string alpaca_preamble(const std::string& system, bool with_input) {
  if (!system.empty()) return system + "\n\n";
  return with_input
             ? "Below is an instruction that describes a task, paired with an input that provides further "
               "context. Write a response that appropriately completes the request.\n\n"
             : "Below is an instruction that describes a task. Write a response that appropriately "
               "completes the request.\n\n";
}

void Writer::alpaca(bool open) {
  const std::string header = "### Response:\n";
  const std::string system = leading_system();
  std::string before = alpaca_preamble(system, is(first_, Role::user) && !messages_[first_].input.empty());
  const auto ask = [&] {
    words(before + header);
    before.clear();
  };
  for (std::size_t i = first_; i < messages_.size(); ++i) {
    const Message& m = messages_[i];
    if (m.role == Role::user) {
      before += cat("### Instruction:\n", m.content, "\n\n");
      if (!m.input.empty()) before += cat("### Input:\n", m.input, "\n\n");
      if (!is(i + 1, Role::user)) ask();
      continue;
    }
    if (m.role != Role::assistant) refuse(m.role);
    if (!before.empty()) ask();
    words(m.content, static_cast<int>(i));
    special(tokens_.eos, static_cast<int>(i));
    before = "\n\n";
  }
  if (open && !before.empty()) ask();
}

// system USER: user ASSISTANT: answer</s>USER: ...
void Writer::vicuna(bool open) {
  const std::string system = leading_system();
  std::string before =
      cat(system.empty() ? "A chat between a curious user and an artificial intelligence assistant. "
                           "The assistant gives helpful, detailed, and polite answers to the user's "
                           "questions."
                         : system,
          " ");
  bool asked = false;
  for (std::size_t i = first_; i < messages_.size();) {
    if (messages_[i].role == Role::user) {
      before += cat("USER: ", user_turn(&i));
      asked = open || is(i, Role::assistant);
      words(cat(before, asked ? " ASSISTANT:" : ""));
      before.clear();
      continue;
    }
    if (messages_[i].role != Role::assistant) refuse(messages_[i].role);
    if (!asked) words(before + "ASSISTANT:");
    before.clear();
    words(cat(" ", messages_[i].content), static_cast<int>(i));
    special(tokens_.eos, static_cast<int>(i));
    asked = false;
    ++i;
  }
  if (open && !asked) words(before + "ASSISTANT:");
}

// A prompt and its completion, with nothing between them.
void Writer::none() {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const Role role = messages_[i].role;
    const bool answer = role == Role::assistant;
    const bool fits = i == 0 ? answer || role == Role::user : i == 1 && answer && is(0, Role::user);
    if (!fits)
      throw Error(Blame::data,
                  cat(name(), " has no marks between turns, so it only takes a prompt and its completion"),
                  "name the template of the model in data.chat_template");
    words(whole(messages_[i]), answer ? static_cast<int>(i) : Part::kMarks);
    if (answer) special(tokens_.eos, static_cast<int>(i));
  }
}

void Writer::write(bool open) {
  switch (form_) {
    case Form::llama2: return llama2(open);
    case Form::llama3: return llama3(open);
    case Form::chatml: return chatml(open);
    case Form::mistral: return mistral(open);
    case Form::alpaca: return alpaca(open);
    case Form::vicuna: return vicuna(open);
    case Form::none: return none();
    case Form::automatic: break;
  }
  throw Error(Blame::bug, "chat template auto was not resolved");
}

}  // namespace

std::string turn_end(Form form, const FormTokens& tokens) {
  if (form == Form::llama3) return "<|eot_id|>";
  if (form == Form::chatml) return "<|im_end|>";
  return tokens.eos;
}

std::vector<std::string> tokens_of(Form form, const FormTokens& tokens) {
  switch (form) {
    case Form::llama2: return {tokens.bos, tokens.eos};
    case Form::llama3: return {tokens.bos, "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    case Form::chatml: return {"<|im_start|>", "<|im_end|>"};
    case Form::mistral:
      if (tokens.turn_tokens) return {tokens.bos, "[INST]", "[/INST]", tokens.eos};
      return {tokens.bos, tokens.eos};
    default: return {tokens.eos};
  }
}

std::vector<Part> parts_of(Form form, const Conversation& conversation, const FormTokens& tokens, bool open) {
  Writer writer(form, conversation, tokens);
  writer.write(open);
  return writer.take();
}

}  // namespace zt::text
