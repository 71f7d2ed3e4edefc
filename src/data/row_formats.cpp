#include "data/row_formats.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "data/row_fields.h"
#include "data/strict_json.h"

namespace zt::data {
namespace {

using recipe::Format;
using text::Message;
using text::Role;
using Kind = JsonValue::Kind;

// Rows that people have in other shapes, by a key only these have.
struct Shape {
  const char* key;
  const char* advice;
};
constexpr std::array kShapes = {
    Shape{"instances",
          "these are self-instruct tasks: write a row of instruction, input and output for each of the "
          "instances"},
    Shape{"message_tree_id", "these are OpenAssistant trees: write each thread as a row of messages"},
    Shape{"pos", "these are pairs for retrieval, which hold no answer to train on"},
};

// Reads one row. All faults are collected; what a method returns after a fault is only good for finding more.
class RowReading {
 public:
  RowReading(const RawRow& row, const RowFormat& format, std::vector<RowFault>& faults)
      : row_(row), format_(format), faults_(faults) {}

  std::optional<Document> read() {
    JsonValue value;
    JsonFault fault;
    Document document;
    if (!parse_strict_json(row_.bytes, &value, &fault)) {
      refuse(fault.offset, fault.reason);
    } else if (!value.is(Kind::object)) {
      refuse(value.begin, cat("a row must be an object, is ", name(value.kind)));
    } else {
      top_ = &value;
      document = read_object(value);
    }
    finish();
    return count_ == 0 ? std::optional(std::move(document)) : std::nullopt;
  }

 private:
  // ---- Faults ----

  void refuse(std::size_t offset, std::string reason) {
    if (++count_ > kMaxFaults) return;
    const std::string_view before = row_.bytes.substr(0, offset);
    const std::size_t line_end = before.rfind('\n');
    const bool first_line = line_end == std::string_view::npos;
    own_.push_back(
        {row_.line + std::ranges::count(before, '\n'),
         static_cast<std::int64_t>(first_line ? std::size_t(row_.column) + offset : offset - line_end),
         std::move(reason)});
  }

  void finish() {
    std::ranges::stable_sort(own_, [](const RowFault& a, const RowFault& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    if (count_ > kMaxFaults)
      own_.push_back(
          {own_.back().line, own_.back().column,
           cat("and ", with_commas(std::int64_t(count_ - kMaxFaults)), " more faults in this row")});
    std::ranges::move(own_, std::back_inserter(faults_));
  }

  // ---- Fields ----

  // What the file calls a field: the recipe's word for it, else its own.
  std::string file_name(const Field& field) const {
    const auto renamed = format_.fields.find(field.name);
    return renamed == format_.fields.end() ? field.name : renamed->second;
  }

  struct Found {
    const JsonValue* value = nullptr;  // null when it isn't there
    std::string name;                  // with the path to it
  };

  // A renamed field has that one name. Else names with null beside another one are passed over, as files that
  // were made of tables have them.
  Found find(const JsonValue& object, const Field& field, const std::string& path) {
    const std::string own = file_name(field);
    Found found{object.find(own), path + own};
    if (format_.fields.contains(field.name)) return found;
    for (const char* other : field.others) {
      const JsonValue* const value = object.find(other);
      if (value == nullptr) continue;
      const bool nothing = found.value == nullptr || found.value->is(Kind::null);
      if (!nothing && !value->is(Kind::null))
        refuse(value->begin, cat("has both ", found.name, " and ", path, other,
                                 ": keep one, or name it with fields: {", field.name, ": ...}"));
      if (nothing) found = {value, path + other};
    }
    return found;
  }

  // Whether the field holds something: not absent, null or empty in the sense of `none`. Faults are noted.
  bool holds(const Found& found, const Field& field, const JsonValue& object, Meaning empty) {
    if (found.value == nullptr) {
      if (field.absent == Meaning::fault) missing(found, field, object);
      return false;
    }
    if (found.value->is(Kind::null)) {
      if (field.null == Meaning::fault)
        refuse(found.value->begin, cat(found.name, " must be ", expected(field), ", is null"));
      return false;
    }
    if (!is_empty(*found.value)) return true;
    if (empty == Meaning::fault) refuse(found.value->begin, cat(found.name, " must not be empty"));
    return empty == Meaning::kept;
  }
  static bool is_empty(const JsonValue& value) {
    return (value.is(Kind::string) && value.text.empty()) || (value.is(Kind::array) && value.items.empty());
  }

  static std::string expected(const Field& field) {
    const std::string_view holds = field.holds;
    return cat("a ", holds.substr(0, holds.find_first_of(",:")));
  }

  void missing(const Found& found, const Field& field, const JsonValue& object) {
    refuse(object.begin, cat(found.name, " is missing; there is ", keys_of(object), advice(field)));
  }
  static std::string keys_of(const JsonValue& object) {
    constexpr std::size_t kShownKeys = 8;
    std::vector<std::string> keys;
    for (const std::string& key : object.keys) {
      if (keys.size() == kShownKeys) {
        keys.emplace_back("...");
        break;
      }
      keys.push_back(shown(key));
    }
    return keys.empty() ? "nothing" : join(keys, ", ");
  }
  std::string advice(const Field& field) const {
    if (field.scope == Scope::row)
      for (const Shape& shape : kShapes)
        if (top_->find(shape.key) != nullptr) return cat("; ", shape.advice);
    const char* const other = field.scope == Scope::row ? likely_format(top_->keys, format_.format) : nullptr;
    if (other != nullptr) return cat(". Is its format ", other, "?");
    return top_->keys.empty() ? "" : cat(". Another name? fields: {", field.name, ": NAME}");
  }

  std::string text_in(const JsonValue& object, const char* name_of_field) {
    const Field& field = field_of(format_.format, name_of_field);
    const Found found = find(object, field, "");
    if (!is_text_or_nothing(found)) return {};
    return holds(found, field, object, field.empty) ? found.value->text : std::string();
  }
  bool is_text_or_nothing(const Found& found) {
    if (found.value == nullptr || found.value->is(Kind::null) || found.value->is(Kind::string)) return true;
    refuse(found.value->begin, cat(found.name, " must be a string, is ", name(found.value->kind)));
    return false;
  }

  // The items of a field that must be a list.
  const std::vector<JsonValue>* list_in(const JsonValue& object, const char* name_of_field, Found* found) {
    const Field& field = field_of(format_.format, name_of_field);
    *found = find(object, field, "");
    if (!holds(*found, field, object, field.empty)) return nullptr;
    if (found->value->is(Kind::array)) return &found->value->items;
    refuse(found->value->begin,
           cat(found->name, " must be ", expected(field), ", is ", name(found->value->kind)));
    return nullptr;
  }

  void refuse_members(const JsonValue& object, Scope scope, const std::string& path) {
    for (const RefusedMember& member : refused_members()) {
      if (member.scope != scope) continue;
      const JsonValue* const value = object.find(member.name);
      if (value != nullptr && says_something(*value))
        refuse(value->begin, cat(path, member.name, " is not read: ", member.cure));
    }
  }
  static bool says_something(const JsonValue& value) {
    if (value.is(Kind::null) || is_empty(value)) return false;
    return !(value.is(Kind::object) && value.items.empty()) && !(value.is(Kind::boolean) && !value.flag);
  }

  // ---- Formats ----

  Document read_object(const JsonValue& object) {
    // No `default:` on purpose: a new format must not compile until it is read here.
    switch (format_.format) {
      case Format::text: return {text_in(object, "text"), {}};
      case Format::completion: return {{}, completion(object)};
      case Format::alpaca: return {{}, alpaca(object)};
      case Format::sharegpt: return {{}, conversation(object, "conversations", "from", "value")};
      case Format::messages: return {{}, conversation(object, "messages", "role", "content")};
    }
    return {};
  }

  static void add(text::Conversation& conversation, Role role, std::string content) {
    if (!content.empty()) conversation.messages.push_back({role, std::move(content), {}, {}});
  }

  text::Conversation completion(const JsonValue& object) {
    text::Conversation out;
    add(out, Role::user, text_in(object, "prompt"));
    add(out, Role::assistant, text_in(object, "completion"));
    return out;
  }

  text::Conversation alpaca(const JsonValue& object) {
    refuse_members(object, Scope::row, "");
    text::Conversation out;
    add(out, Role::system, text_in(object, "system"));
    history(object, out);
    out.messages.push_back({Role::user, text_in(object, "instruction"), text_in(object, "input"), {}});
    add(out, Role::assistant, text_in(object, "output"));
    return out;
  }

  void history(const JsonValue& object, text::Conversation& out) {
    Found found;
    const auto* const pairs = list_in(object, "history", &found);
    if (pairs == nullptr) return;
    for (std::size_t i = 0; i < pairs->size(); ++i) {
      const JsonValue& pair = (*pairs)[i];
      const bool right = pair.is(Kind::array) && pair.items.size() == 2 &&
                         std::ranges::all_of(pair.items, [](const JsonValue& turn) {
                           return turn.is(Kind::string) && !turn.text.empty();
                         });
      if (!right) {
        refuse(pair.begin, cat(found.name, "[", i,
                               "] must be a list of two strings that are not empty, the user's "
                               "and the assistant's"));
        continue;
      }
      add(out, Role::user, pair.items[0].text);
      add(out, Role::assistant, pair.items[1].text);
    }
  }

  text::Conversation conversation(const JsonValue& object, const char* list, const char* role,
                                  const char* content) {
    refuse_members(object, Scope::row, "");
    text::Conversation out;
    add(out, Role::system, text_in(object, "system"));
    if (!format_.ignore_tools) out.tools = tools(object);
    Found found;
    const auto* const messages = list_in(object, list, &found);
    if (messages == nullptr) return out;
    for (std::size_t i = 0; i < messages->size(); ++i)
      message((*messages)[i], cat(found.name, "[", i, "]"), role, content, out);
    if (out.messages.empty() && count_ == 0) refuse(found.value->begin, cat(found.name, " holds no message"));
    refuse_preference(object, out);
    return out;
  }

  // Pairs for preference training keep the last answer beside the conversation; single answers for it may be bad ones.
  void refuse_preference(const JsonValue& object, const text::Conversation& conversation) {
    if (const JsonValue* const label = object.find("label");
        label != nullptr && label->is(Kind::boolean) && !label->flag)
      refuse(label->begin,
             "label is false: the answer is one to avoid, and it would be trained as a good one. Leave such "
             "rows out");
    const JsonValue* const chosen = object.find("chosen");
    if (chosen == nullptr || conversation.messages.empty()) return;
    if (conversation.messages.back().role != Role::assistant)
      refuse(chosen->begin,
             "the answer stands in chosen, outside the messages: these are pairs for preference "
             "training. Move the chosen answer to the end of the messages");
  }

  void message(const JsonValue& object, const std::string& path, const char* role_field,
               const char* content_field, text::Conversation& out) {
    if (!object.is(Kind::object)) {
      refuse(object.begin, cat(path, " must be an object, is ", name(object.kind)));
      return;
    }
    const std::size_t faults_before = count_;
    refuse_members(object, Scope::message, path + ".");
    const bool refused = count_ > faults_before;
    Message out_message;
    const std::optional<Role> role = role_in(object, role_field, path);
    out_message.role = role.value_or(Role::tool);
    out_message.trained = trained(object, path);
    // A message whose text is elsewhere has one fault, not a second for the text that it lacks.
    const bool there = !refused && content(object, content_field, path, role, &out_message.content);
    if (there) out.messages.push_back(std::move(out_message));
  }

  std::optional<Role> role_in(const JsonValue& object, const char* name_of_field, const std::string& path) {
    const Field& field = field_of(format_.format, name_of_field);
    const Found found = find(object, field, path + ".");
    if (!is_text_or_nothing(found) || !holds(found, field, object, field.empty)) return std::nullopt;
    const std::optional<Role> role = role_of(found.value->text);
    if (!role)
      refuse(found.value->begin, cat(found.name, " is \"", shown(found.value->text),
                                     "\", which is no role; roles are ", known_roles()));
    return role;
  }

  // False where there is no text.
  bool content(const JsonValue& object, const char* name_of_field, const std::string& path,
               std::optional<Role> role, std::string* out) {
    const Field& field = field_of(format_.format, name_of_field);
    const Found found = find(object, field, path + ".");
    const bool turn = role == Role::user || role == Role::assistant;
    const Meaning empty = turn ? Meaning::fault : role == Role::system ? Meaning::none : Meaning::kept;
    if (!holds(found, field, object, empty)) return false;
    if (found.value->is(Kind::string)) {
      *out = found.value->text;
      return true;
    }
    if (!found.value->is(Kind::array)) {
      refuse(found.value->begin,
             cat(found.name, " must be a string or a list of parts, is ", name(found.value->kind)));
      return false;
    }
    const std::size_t faults_before = count_;
    for (std::size_t i = 0; i < found.value->items.size(); ++i)
      *out += part(found.value->items[i], cat(found.name, "[", i, "]"));
    if (out->empty() && empty == Meaning::fault && count_ == faults_before)
      refuse(found.value->begin, cat(found.name, " must not be empty"));
    return !out->empty() || empty == Meaning::kept;
  }

  std::string part(const JsonValue& object, const std::string& path) {
    const JsonValue* const type = object.find("type");
    if (type == nullptr || !type->is(Kind::string)) {
      refuse(object.begin, cat(path, " must be {type: text, text: string}"));
      return {};
    }
    if (type->text != "text") {
      refuse(type->begin, cat(path, " is of type ", shown(type->text),
                              ", and only text is read: write it as text, "
                              "as the model is to see or say it, or leave the row out"));
      return {};
    }
    const JsonValue* text = object.find("text");
    const JsonValue* const value = object.find("value");
    if (text != nullptr && value != nullptr) refuse(value->begin, cat(path, " has both text and value"));
    if (text == nullptr) text = value;
    if (text == nullptr) {
      refuse(object.begin, cat(path, ".text is missing; there is ", keys_of(object)));
    } else if (!text->is(Kind::string)) {
      refuse(text->begin, cat(path, ".text must be a string, is ", name(text->kind)));
    } else {
      return text->text;
    }
    return {};
  }

  std::optional<bool> trained(const JsonValue& object, const std::string& path) {
    const Field& field = field_of(format_.format, "loss_weight");
    const Found found = find(object, field, path + ".");
    if (found.value == nullptr || found.value->is(Kind::null)) return std::nullopt;
    if (found.value->is(Kind::boolean)) return found.value->flag;
    if (!found.value->is(Kind::number)) {
      refuse(found.value->begin,
             cat(found.name, " must be 0, 1, true or false, is ", name(found.value->kind)));
      return std::nullopt;
    }
    if (found.value->number != 0 && found.value->number != 1)
      refuse(found.value->begin,
             cat(found.name, " is ", source(*found.value),
                 "; a message is trained (1) or not (0), weights between are not supported"));
    return found.value->number == 1;
  }

  std::string source(const JsonValue& value) const {
    return shown(row_.bytes.substr(value.begin, value.end - value.begin));
  }

  // Tool definitions as JSON text: as the row has them, or as the row's string holds them.
  std::string tools(const JsonValue& object) {
    const Field& field = field_of(format_.format, "tools");
    const Found found = find(object, field, "");
    if (!holds(found, field, object, field.empty)) return {};
    const JsonValue& value = *found.value;
    if (!value.is(Kind::string))
      return tool_list(value, found, row_.bytes.substr(value.begin, value.end - value.begin));
    if (trim(value.text).empty()) return {};
    JsonValue inner;
    JsonFault fault;
    if (parse_strict_json(value.text, &inner, &fault)) return tool_list(inner, found, value.text);
    refuse(value.begin, cat(found.name, " is a string that must hold JSON: at its byte ", fault.offset + 1,
                            ", ", fault.reason));
    return {};
  }
  std::string tool_list(const JsonValue& list, const Found& found, std::string_view text) {
    if (!list.is(Kind::array) && !list.is(Kind::object)) {
      refuse(found.value->begin,
             cat(found.name, " must be a list or an object of tool definitions, is ", name(list.kind)));
      return {};
    }
    return list.items.empty() ? std::string() : std::string(text);
  }

  const RawRow& row_;
  const RowFormat& format_;
  std::vector<RowFault>& faults_;
  std::vector<RowFault> own_;
  std::size_t count_ = 0;
  const JsonValue* top_ = nullptr;
};

}  // namespace

std::optional<Document> document_of(const RawRow& row, const RowFormat& format,
                                    std::vector<RowFault>& faults) {
  if (row.fault) {
    faults.push_back(*row.fault);
    return std::nullopt;
  }
  return RowReading(row, format, faults).read();
}

}  // namespace zt::data
