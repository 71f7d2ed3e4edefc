#include "data/row_fields.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/row_formats.h"

namespace zt::data {
namespace {

using recipe::Format;
using text::Role;

using enum Meaning;

const char* const kMessages = "list of messages";
const char* const kContent = "string, or list of {type: text, text: string} (also value)";
const char* const kWeight = "0 or false: not trained; 1 or true: trained";
const char* const kTools = "list or object of tool definitions, or a string that holds one as JSON";

const std::array<Field, 20> kFields = {{
    // format, scope, name, other names, holds, absent, null, empty
    {Format::text, Scope::row, "text", {}, "string: a document", fault, fault, kept},
    {Format::completion, Scope::row, "prompt", {}, "string", none, fault, none},
    {Format::completion, Scope::row, "completion", {}, "string", fault, fault, fault},
    {Format::alpaca, Scope::row, "instruction", {}, "string", fault, fault, fault},
    {Format::alpaca, Scope::row, "input", {}, "string: what the instruction is applied to", none, none, none},
    {Format::alpaca, Scope::row, "output", {}, "string", fault, fault, fault},
    {Format::alpaca, Scope::row, "system", {}, "string: a system prompt", none, none, none},
    {Format::alpaca,
     Scope::row,
     "history",
     {},
     "list of pairs: [user, assistant], before the instruction",
     none,
     none,
     none},
    {Format::sharegpt,
     Scope::row,
     "conversations",
     {"conversation", "messages"},
     kMessages,
     fault,
     fault,
     fault},
    {Format::sharegpt,
     Scope::row,
     "system",
     {},
     "string: a system prompt before the messages",
     none,
     none,
     none},
    {Format::sharegpt, Scope::row, "tools", {}, kTools, none, none, none},
    {Format::sharegpt, Scope::message, "from", {"role"}, "string: a role", fault, fault, fault},
    {Format::sharegpt, Scope::message, "value", {"content"}, kContent, fault, fault, by_role},
    {Format::sharegpt,
     Scope::message,
     "loss_weight",
     {"weight", "train", "training"},
     kWeight,
     none,
     none,
     fault},
    {Format::messages,
     Scope::row,
     "messages",
     {"conversations", "conversation"},
     kMessages,
     fault,
     fault,
     fault},
    {Format::messages,
     Scope::row,
     "system",
     {},
     "string: a system prompt before the messages",
     none,
     none,
     none},
    {Format::messages, Scope::row, "tools", {}, kTools, none, none, none},
    {Format::messages, Scope::message, "role", {"from"}, "string: a role", fault, fault, fault},
    {Format::messages, Scope::message, "content", {"value"}, kContent, fault, fault, by_role},
    {Format::messages,
     Scope::message,
     "loss_weight",
     {"weight", "train", "training"},
     kWeight,
     none,
     none,
     fault},
}};

const char* const kToolCallCure =
    "only text is read: write the call into the message's content as the model is to say it";
const char* const kMediaCure = "only text is read: leave these rows out";

const std::array kRefused = {
    RefusedMember{Scope::message, "tool_calls", kToolCallCure},
    RefusedMember{Scope::message, "function_call", kToolCallCure},
    RefusedMember{
        Scope::message, "reasoning_content",
        "only text is read: write the reasoning into the message's content as the model is to say it"},
    RefusedMember{Scope::message, "train_detail",
                  "parts of a message cannot be trained alone: split the message"},
    RefusedMember{Scope::message, "training_detail",
                  "parts of a message cannot be trained alone: split the message"},
    RefusedMember{Scope::message, "images", kMediaCure},
    RefusedMember{Scope::message, "audio", kMediaCure},
    RefusedMember{Scope::row, "functions", "write tool definitions as `tools`"},
    RefusedMember{Scope::row, "images", kMediaCure},
    RefusedMember{Scope::row, "videos", kMediaCure},
    RefusedMember{Scope::row, "audios", kMediaCure},
};

struct RoleName {
  const char* name;
  Role role;
  const char* note;
};

// The first name of each role is the one the manual lists the others under.
constexpr std::array kRoles = {
    RoleName{"system", Role::system, ""},
    RoleName{"developer", Role::system, ""},
    RoleName{"user", Role::user, ""},
    RoleName{"human", Role::user, ""},
    RoleName{"prompter", Role::user, ""},
    RoleName{"assistant", Role::assistant, ""},
    RoleName{"gpt", Role::assistant, ""},
    RoleName{"bot", Role::assistant, ""},
    RoleName{"chatgpt", Role::assistant, ""},
    RoleName{"model", Role::assistant, ""},
    RoleName{"function_call", Role::assistant, "its content is the call"},
    RoleName{"tool", Role::tool, ""},
    RoleName{"observation", Role::tool, ""},
    RoleName{"function", Role::tool, ""},
    RoleName{"ipython", Role::tool, ""},
    RoleName{"function_response", Role::tool, ""},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out)
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  return out;
}

// The other names of a role whose first name is at `first`.
std::vector<std::string> synonyms(std::size_t first) {
  std::vector<std::string> names;
  for (std::size_t i = first + 1; i < kRoles.size() && kRoles[i].role == kRoles[first].role; ++i)
    names.emplace_back(kRoles[i].name);
  return names;
}
bool is_first(std::size_t i) { return i == 0 || kRoles[i].role != kRoles[i - 1].role; }

const char* word(Meaning meaning) {
  switch (meaning) {
    case Meaning::none: return "none";
    case Meaning::fault: return "fault";
    case Meaning::kept: return "empty text";
    case Meaning::by_role: return "by role";
  }
  return "";
}

const char* word(Format format) {
  switch (format) {
    case Format::text: return "text";
    case Format::completion: return "completion";
    case Format::alpaca: return "alpaca";
    case Format::sharegpt: return "sharegpt";
    case Format::messages: return "messages";
  }
  return "";
}

std::string as_code(const std::vector<std::string>& names) {
  return names.empty() ? "" : cat("`", join(names, "`, `"), "`");
}

}  // namespace

std::span<const Field> all_fields() { return kFields; }

const Field& field_of(Format format, std::string_view name) {
  const auto at = std::ranges::find_if(
      kFields, [&](const Field& field) { return field.format == format && field.name == name; });
  if (at == kFields.end()) throw Error(Blame::bug, cat("no field ", name, " in format ", word(format)));
  return *at;
}

const char* likely_format(const std::vector<std::string>& keys, Format not_this) {
  const auto has = [&](std::string_view name) { return std::ranges::find(keys, name) != keys.end(); };
  const auto lacks = [&](const Field& field) {
    return field.scope == Scope::row && field.absent == Meaning::fault && !has(field.name) &&
           std::ranges::none_of(field.others, has);
  };
  for (const Format format :
       {Format::alpaca, Format::sharegpt, Format::messages, Format::completion, Format::text}) {
    const auto lacks_here = [&](const Field& field) { return field.format == format && lacks(field); };
    if (format != not_this && std::ranges::none_of(kFields, lacks_here)) return word(format);
  }
  return nullptr;
}

std::span<const RefusedMember> refused_members() { return kRefused; }

std::optional<Role> role_of(std::string_view name) {
  const std::string small = lower(name);
  const auto at = std::ranges::find_if(kRoles, [&](const RoleName& role) { return role.name == small; });
  return at == kRoles.end() ? std::nullopt : std::optional(at->role);
}

std::string known_roles() {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kRoles.size(); ++i)
    if (is_first(i)) parts.push_back(cat(kRoles[i].name, " (also ", join(synonyms(i), ", "), ")"));
  return join(parts, ", ");
}

std::vector<std::string> field_names(Format format) {
  std::vector<std::string> names;
  for (const Field& field : kFields)
    if (field.format == format) names.emplace_back(field.name);
  return names;
}

std::string field_table() {
  std::string out =
      "| format | field | also read from | holds | absent | null | empty |\n|---|---|---|---|---|---|---|\n";
  for (const Field& field : kFields) {
    const std::string where = field.scope == Scope::message ? " (of a message)" : "";
    out += cat("| `", word(field.format), "` | `", field.name, "`", where, " | ",
               as_code({field.others.begin(), field.others.end()}), " | ", field.holds, " | ",
               word(field.absent), " | ", word(field.null), " | ", word(field.empty), " |\n");
  }
  return out;
}

std::string role_table() {
  std::string out = "| role | also called |\n|---|---|\n";
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    if (!is_first(i)) continue;
    out += cat("| `", kRoles[i].name, "` | ", as_code(synonyms(i)));
    for (const RoleName& role : kRoles)
      if (role.role == kRoles[i].role && *role.note != 0) out += cat(" (`", role.name, "`: ", role.note, ")");
    out += " |\n";
  }
  return out;
}

}  // namespace zt::data
