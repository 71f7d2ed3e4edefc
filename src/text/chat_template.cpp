#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "recipe/words.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

using recipe::TrainOn;

std::string spelling(const Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? tokenizer.token(*id) : "";
}

FormTokens form_tokens(const Tokenizer& tokenizer) {
  const auto special = [&](const char* token) {
    const auto id = tokenizer.id_of(token);
    return id && tokenizer.is_special(*id);
  };
  return {spelling(tokenizer, tokenizer.bos()), spelling(tokenizer, tokenizer.eos()),
          special("[INST]") && special("[/INST]")};
}

bool begins_with_bos(const std::vector<Part>& parts, const std::string& bos) {
  return !parts.empty() && parts.front().special && parts.front().text == bos;
}

}  // namespace

ChatTemplate::ChatTemplate(ChatOptions options, const Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer), tokens_(form_tokens(tokenizer)) {
  FormTokens named = tokens_;
  if (named.bos.empty()) named.bos = "a begin token (bos_token)";
  if (named.eos.empty()) named.eos = "an end token (eos_token)";
  std::vector<std::string> missing;
  for (const std::string& token : tokens_of(options_.form, named)) {
    if (const auto id = tokenizer.id_of(token))
      marks_.push_back(*id);
    else
      missing.push_back(token);
  }
  const std::string name = recipe::word_of(options_.form);
  if (!missing.empty())
    throw Error(Blame::model,
                cat("chat template ", name, " needs ", join(missing, ", "), ", and the tokenizer has none"),
                "choose the data.chat_template the model was made for; alpaca needs only an end token");
  if (options_.add_bos && !tokenizer.bos())
    throw Error(Blame::usage, "data.add_bos: the tokenizer has no beginning token",
                "set data.add_bos: false");
  if (options_.form == recipe::ChatTemplate::none && !options_.default_system.empty())
    throw Error(Blame::usage, "data.system_prompt: chat template none has no place for a system message",
                "name the template of the model in data.chat_template");
  turn_end_ = tokenizer.id_of(text::turn_end(options_.form, tokens_)).value();
}

bool ChatTemplate::adds_bos() const {
  const Conversation any = {{{Role::user, "", "", std::nullopt}}, ""};
  return options_.add_bos && !begins_with_bos(parts_of(options_.form, any, tokens_, true), tokens_.bos);
}

Conversation ChatTemplate::completed(const Conversation& conversation) const {
  const std::string name = recipe::word_of(options_.form);
  if (!conversation.tools.empty())
    throw Error(Blame::data, cat("chat template ", name, " has no place for tool definitions (`tools`)"),
                "set `tools: ignore` in the source to leave them out");
  Conversation whole = conversation;
  std::vector<Message>& messages = whole.messages;
  const bool has_system = !messages.empty() && messages.front().role == Role::system;
  if (!has_system && !options_.default_system.empty())
    messages.insert(messages.begin(), {Role::system, options_.default_system, "", std::nullopt});
  return whole;
}

std::vector<bool> ChatTemplate::trained_messages(const Conversation& conversation, TrainOn train_on) const {
  const std::vector<Message>& messages = conversation.messages;
  const bool all = train_on == TrainOn::everything;
  const bool any_alone =
      options_.form == recipe::ChatTemplate::chatml || options_.form == recipe::ChatTemplate::llama3;
  std::vector<bool> trained(messages.size());
  std::size_t last = messages.size();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool answer = messages[i].role == Role::assistant;
    trained[i] = messages[i].trained.value_or(answer || all);
    if (answer) last = i;
    if (!answer && !any_alone && train_on != TrainOn::last_answer && trained[i] != all)
      throw Error(Blame::data,
                  cat("the row gives weight ", trained[i] ? 1 : 0,
                      " to a message that is no answer; chat template ", recipe::word_of(options_.form),
                      all ? " trains those with the marks around them" : " trains answers only"),
                  "chat templates llama3 and chatml can train, or not, any message");
  }
  if (train_on == TrainOn::last_answer)
    for (std::size_t i = 0; i < messages.size(); ++i) trained[i] = trained[i] && i == last;
  return trained;
}

std::vector<Part> ChatTemplate::parts(const Conversation& conversation, bool open) const {
  std::vector<Part> parts = parts_of(options_.form, conversation, tokens_, open);
  if (options_.add_bos && !begins_with_bos(parts, tokens_.bos))
    parts.insert(parts.begin(), {tokens_.bos, true, Part::kMarks});
  return parts;
}

// Tokenizers find added tokens that are not flagged special in content too; where such a token is one of the form's
// marks, the content that spells it is cut inside the spelling.
std::vector<std::int32_t> ChatTemplate::content_ids(const std::string& text, bool begins) const {
  const auto encoded = [&](const std::string& piece, bool first) {
    return first && begins ? tokenizer_.encode(piece) : tokenizer_.encode_continuation(piece);
  };
  const auto has_mark = [&](const std::vector<std::int32_t>& ids) {
    return std::ranges::find_first_of(ids, marks_) != ids.end();
  };
  std::vector<std::int32_t> ids = encoded(text, true);
  if (!has_mark(ids)) return ids;
  ids.clear();
  std::size_t from = 0;
  for (const std::size_t cut : cuts_in_spellings(text)) {
    const std::vector<std::int32_t> piece = encoded(text.substr(from, cut - from), from == 0);
    ids.insert(ids.end(), piece.begin(), piece.end());
    from = cut;
  }
  if (has_mark(ids))
    throw Error(Blame::data,
                "a message spells a mark of the chat template in a way that cannot be told apart from it",
                "give the mark's token `special: true` in the tokenizer's files");
  return ids;
}

// Behind the first character of each spelling of a mark, and at the end.
std::vector<std::size_t> ChatTemplate::cuts_in_spellings(const std::string& text) const {
  std::vector<std::size_t> cuts = {text.size()};
  for (const std::int32_t mark : marks_) {
    const std::string spelling = tokenizer_.token(mark);
    for (std::size_t at = 0; (at = text.find(spelling, at)) != std::string::npos; ++at)
      cuts.push_back(at + utf8_length(text[at]));
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

template <typename Fate>
Rendered ChatTemplate::encode(const std::vector<Part>& parts, Fate trained) const {
  Rendered out;
  bool begins = true;  // a text, as the tokenizer sees it: at the start, and after a special token
  for (const Part& part : parts) {
    if (part.special) {
      out.ids.push_back(tokenizer_.id_of(part.text).value());
    } else {
      const std::vector<std::int32_t> ids = content_ids(part.text, begins);
      out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    }
    out.trained.resize(out.ids.size(), trained(part));
    begins = part.special;
  }
  return out;
}

Rendered ChatTemplate::render(const Conversation& conversation, TrainOn train_on) const {
  const Conversation whole = completed(conversation);
  const std::vector<bool> trained = trained_messages(whole, train_on);
  return encode(parts(whole, false), [&](const Part& part) {
    return part.message == Part::kMarks ? train_on == TrainOn::everything
                                        : trained[static_cast<std::size_t>(part.message)];
  });
}

std::vector<std::int32_t> ChatTemplate::prompt(const Conversation& conversation) const {
  return encode(parts(completed(conversation), true), [](const Part&) { return false; }).ids;
}

std::string ChatTemplate::text(const Conversation& conversation, bool open) const {
  std::string all;
  for (const Part& part : parts(completed(conversation), open)) all += part.text;
  return all;
}

}  // namespace zt::text
