#include "text/chat_choice.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "recipe/words.h"
#include "text/jinja.h"

namespace zt::text {
namespace {

using Form = recipe::ChatTemplate;
using Json = nlohmann::ordered_json;

constexpr std::array kForms = {Form::llama3,  Form::chatml, Form::llama2,
                               Form::mistral, Form::vicuna, Form::alpaca};

Message say(Role role, std::string words) { return {role, std::move(words), "", std::nullopt}; }

// Each ends before an answer: what follows one (its end, a line end, nothing) differs, and training has its own. The first two are what every template must render; system messages may be refused.
std::vector<Conversation> probes() {
  const Role s = Role::system, u = Role::user, a = Role::assistant;
  return {{{say(u, "Name a colour.")}, ""},
          {{say(u, "Name a colour."), say(a, "Blue."), say(u, "And another?")}, ""},
          {{say(s, "You are brief."), say(u, "Name a colour.")}, ""},
          {{say(s, "Be\nkind."), say(u, "1"), say(a, "2"), say(u, "3"), say(a, "4"), say(u, "5")}, ""},
          {{say(u, " edges  "), say(a, " white space \n"), say(u, "\n end")}, ""},
          {{say(u, "{{ x }} {% y %} <|im_end|> [INST] </s>"),
            say(a, "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80 'q' \"q\""), say(u, "### Response:")},
           ""},
          {{say(u, "1"), say(a, "<think>\nOne.\n</think>\n\n2"), say(u, "3")}, ""}};
}

Jinja::Variables variables_of(const Conversation& conversation, const Tokenizer& tokenizer) {
  Json messages = Json::array();
  for (const Message& m : conversation.messages) {
    const char* role = m.role == Role::system ? "system" : m.role == Role::user ? "user" : "assistant";
    messages.push_back({{"role", role}, {"content", m.content}});
  }
  const auto spelled = [&](std::optional<std::int32_t> id) { return id ? tokenizer.token(*id) : ""; };
  return {{"messages", messages},
          {"add_generation_prompt", true},
          {"bos_token", spelled(tokenizer.bos())},
          {"eos_token", spelled(tokenizer.eos())}};
}

std::string without_prefix(std::string text, const std::string& prefix) {
  if (!prefix.empty() && starts_with(text, prefix)) text.erase(0, prefix.size());
  return text;
}

// Text without the spaces that touch one of the marks.
std::string without_spaces_at(const std::vector<std::string>& marks, const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto mark = std::ranges::find_if(
        marks, [&](const std::string& m) { return !m.empty() && text.compare(i, m.size(), m) == 0; });
    if (mark == marks.end()) {
      out += text[i++];
      continue;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += *mark;
    i += mark->size();
    while (i < text.size() && text[i] == ' ') ++i;
  }
  return out;
}

// What a Jinja template writes for each probe; nothing for those it refuses. Throws where it refuses one that no
// template can.
using Texts = std::vector<std::optional<std::string>>;
Texts texts_of(const Jinja& jinja, const std::vector<Conversation>& all, const Tokenizer& tokenizer) {
  Texts texts;
  for (const Conversation& probe : all) {
    try {
      texts.emplace_back(jinja.render(variables_of(probe, tokenizer)));
    } catch (const Error&) {
      if (probe.messages.front().role != Role::system) throw;
      texts.emplace_back();
    }
  }
  return texts;
}

// What a Jinja template writes, held against one form.
class Comparison {
 public:
  Comparison(const std::vector<Conversation>& all, const Texts& theirs, const Tokenizer& tokenizer, Form form)
      : probes_(all), theirs_(theirs), tokenizer_(tokenizer), form_(form) {
    if (tokenizer.bos()) bos_ = tokenizer.token(*tokenizer.bos());
    if (tokenizer.eos()) eos_ = tokenizer.token(*tokenizer.eos());
  }

  // Whether all probes come out equal; else the first difference.
  bool equal(KnownTemplate* known, std::string* difference) {
    *known = {form_, default_system(), !bos_.empty() && starts_with(theirs_.front().value(), bos_)};
    for (std::size_t i = 0; i < probes_.size(); ++i)
      if (theirs_[i] &&
          !same(normal(*theirs_[i]), normal(ours(probes_[i], known->default_system)), difference))
        return false;
    return true;
  }
  // Characters that were equal.
  std::size_t alike() const { return alike_; }

 private:
  bool same(const std::string& a, const std::string& b, std::string* difference) {
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    alike_ += at;
    if (a == b) return true;
    const auto excerpt = [at](const std::string& whole) {
      return Json(whole.substr(at > 40 ? at - 40 : 0, 80))
          .dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    *difference = alike_ == 0 ? cat("it begins ", excerpt(a), ", as none of them does")
                              : cat("it says ", excerpt(a), " where ", recipe::word_of(form_),
                                    ", the nearest, says ", excerpt(b));
    return false;
  }

  std::string ours(const Conversation& probe, const std::string& system) const {
    return ChatTemplate({form_, system, false}, tokenizer_).text(probe, true);
  }

  std::string normal(const std::string& text) const {
    const std::string plain = without_prefix(text, bos_);
    if (form_ != Form::mistral) return plain;
    return without_spaces_at({"[INST]", "[/INST]", bos_, eos_}, plain);
  }

  // What the template says where a form would put a system message, though the first probe has none.
  std::string default_system() const {
    constexpr const char* kHere = "\x01here\x01";
    const std::string a = normal(theirs_.front().value()), plain = normal(ours(probes_.front(), ""));
    const std::string frame = normal(ours(probes_.front(), kHere));
    const std::size_t at = frame.find(kHere);
    if (a == plain || at == std::string::npos) return "";
    const std::string before = frame.substr(0, at), after = frame.substr(at + std::string(kHere).size());
    const bool fits = a.size() > before.size() + after.size() && starts_with(a, before) && a.ends_with(after);
    return fits ? a.substr(before.size(), a.size() - before.size() - after.size()) : "";
  }

  const std::vector<Conversation>& probes_;
  const Texts& theirs_;
  const Tokenizer& tokenizer_;
  Form form_;
  std::string bos_, eos_;
  std::size_t alike_ = 0;
};

bool has_tokens_for(Form form, const Tokenizer& tokenizer) {
  try {
    const text::ChatTemplate made({form, "", false}, tokenizer);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string names_of_forms() {
  std::vector<std::string> names;
  for (const Form form : kForms) names.emplace_back(recipe::word_of(form));
  return join(names, ", ");
}

const std::string* file_of(const std::vector<std::pair<std::string, std::string>>& files,
                           const std::string& name) {
  for (const auto& [known, bytes] : files)
    if (known == name) return &bytes;
  return nullptr;
}

}  // namespace

std::optional<KnownTemplate> recognise(const std::string& jinja, const Tokenizer& tokenizer,
                                       std::string* why) {
  std::string nearest = "the tokenizer has the special tokens of none of them";
  if (jinja.find("strftime_now") != std::string::npos) {
    if (why != nullptr) *why = "it writes the date of the day (strftime_now)";
    return std::nullopt;
  }
  try {
    const std::vector<Conversation> all = probes();
    const Texts theirs = texts_of(Jinja::parse(jinja), all, tokenizer);
    std::optional<std::size_t> alike;
    for (const Form form : kForms) {
      if (!has_tokens_for(form, tokenizer)) continue;
      Comparison comparison(all, theirs, tokenizer, form);
      KnownTemplate known;
      std::string difference;
      if (comparison.equal(&known, &difference)) return known;
      if (alike && comparison.alike() <= *alike) continue;
      alike = comparison.alike();
      nearest = difference;
    }
  } catch (const Error& e) {
    nearest = e.problem();
  }
  if (why != nullptr) *why = nearest;
  return std::nullopt;
}

std::optional<std::string> own_template(const Tokenizer& tokenizer) {
  const auto files = tokenizer.files();
  if (const std::string* jinja = file_of(files, "chat_template.jinja")) return *jinja;
  const std::string* bytes = file_of(files, "tokenizer_config.json");
  if (bytes == nullptr) return std::nullopt;
  const Json config = Json::parse(*bytes, nullptr, false);
  if (!config.is_object() || !config.contains("chat_template")) return std::nullopt;
  const Json& value = config["chat_template"];
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  const auto text_in = [](const Json& item, const char* key) {
    return item.is_object() && item.contains(key) && item[key].is_string() ? item[key].get<std::string>()
                                                                           : "";
  };
  if (!value.is_array())
    throw Error(Blame::model,
                "tokenizer_config.json.chat_template is neither a text nor a list of named texts",
                "name the model's template in data.chat_template");
  for (const Json& item : value)
    if (text_in(item, "name") == "default") return text_in(item, "template");
  return std::nullopt;
}

bool wants_bos(recipe::AddBos choice, const Tokenizer& tokenizer) {
  return choice == recipe::AddBos::yes || (choice == recipe::AddBos::automatic && tokenizer.adds_bos());
}

ChatOptions choose_chat(Form wanted, const std::optional<std::string>& system_prompt, recipe::AddBos add_bos,
                        const Tokenizer& tokenizer, std::optional<Form> fallback) {
  ChatOptions options;
  options.form = wanted;
  options.add_bos = wants_bos(add_bos, tokenizer);
  if (wanted == Form::automatic) {
    if (const auto jinja = own_template(tokenizer)) {
      std::string why;
      const auto known = recognise(*jinja, tokenizer, &why);
      if (!known)
        throw Error(
            Blame::model,
            cat("the model's own chat_template is none of those whose answers zerotrain can tell apart (",
                names_of_forms(), "): ", why),
            "if one of them is what you want, name it in data.chat_template");
      options.form = known->form;
      options.default_system = known->default_system;
      if (add_bos == recipe::AddBos::automatic) options.add_bos = known->begins_with_bos;
    } else if (fallback) {
      options.form = *fallback;
    } else {
      throw Error(Blame::usage, "data.chat_template: auto finds no chat_template in the model's files",
                  cat("name one of ", names_of_forms()));
    }
  }
  if (system_prompt) options.default_system = *system_prompt;
  return options;
}

}  // namespace zt::text
