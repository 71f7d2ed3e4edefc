#include "data/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"
#include "text/utf8.h"

namespace zt::data {
namespace {

using nlohmann::json;
using Kind = JsonValue::Kind;

constexpr std::string_view kBlanks = " \t\r\n";

// What the library says, without its position, which we know better, and without what it read last, which may
// be long and any bytes at all.
std::string wording(std::string_view what) {
  what = what.substr(0, what.find("; last read: '"));
  const std::size_t at = what.find(" - ");
  return std::string(at == std::string_view::npos ? what : what.substr(at + 3));
}

// Builds values from the library's events. The events carry no places; these follow from the text, in which
// up to here nothing can stand between two tokens but blanks, commas and colons.
class Builder {
 public:
  Builder(std::string_view text, JsonValue* root, JsonFault* fault)
      : text_(text), root_(root), fault_(fault) {}

  bool null() { return word(Kind::null) != nullptr; }
  bool boolean(bool flag) {
    JsonValue* const value = word(Kind::boolean);
    if (value != nullptr) value->flag = flag;
    return value != nullptr;
  }
  bool number_integer(json::number_integer_t number) { return add_number(static_cast<double>(number)); }
  bool number_unsigned(json::number_unsigned_t number) { return add_number(static_cast<double>(number)); }
  bool number_float(json::number_float_t number, const json::string_t&) { return add_number(number); }
  bool string(json::string_t& text) {
    JsonValue* const value = add(Kind::string);
    if (value == nullptr) return false;
    value->text = std::move(text);
    at_ = value->end = static_cast<std::uint32_t>(end_of_string(value->begin));
    return true;
  }
  bool binary(json::binary_t&) { return false; }  // JSON text has none
  bool start_object(std::size_t) { return open(Kind::object); }
  bool start_array(std::size_t) { return open(Kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(json::string_t& key) {
    const std::size_t begin = token_begin();
    Open& object = open_.back();
    if (!object.add_key(key))
      return refuse(begin, cat("the key ", shown(key), " stands twice in one object"));
    object.value->keys.push_back(std::move(key));
    at_ = end_of_string(begin);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    const std::size_t last = std::min(position > 0 ? position - 1 : 0, text_.size());
    if (error.id == 406)
      return refuse(token_begin(), cat("the number ", number_at(token_begin()), " is out of range"));
    const std::string reason = wording(error.what());
    const bool whole_token = starts_with(reason, "unexpected ");
    const std::size_t at = whole_token ? unexpected_token(last) : last;
    if (open_.empty() && root_seen_)
      return refuse(at, cat("a second value stands behind the first: ", near(at)));
    if (text_.find_first_not_of(kBlanks, at) == std::string_view::npos)
      return refuse(text_.size(), cat("is not valid JSON: the row ends too early (", reason, ")"));
    return refuse(at, cat("is not valid JSON: ", reason, ", at ", near(at)));
  }

 private:
  // An object or list that isn't closed yet.
  struct Open {
    JsonValue* value;
    std::optional<std::set<std::string>> many_keys;  // once there are too many to compare one by one

    bool add_key(const std::string& key) {
      constexpr std::size_t kFew = 16;
      if (many_keys) return many_keys->insert(key).second;
      if (std::ranges::find(value->keys, key) != value->keys.end()) return false;
      if (value->keys.size() == kFew) {
        many_keys.emplace(value->keys.begin(), value->keys.end());
        many_keys->insert(key);
      }
      return true;
    }
  };

  // Where the next token starts.
  std::size_t token_begin() const {
    const std::size_t at = text_.find_first_not_of(" \t\r\n,:", at_);
    return std::min(at, text_.size());
  }
  // The same of a token that may itself be a comma or colon; its last byte stands at `last`.
  std::size_t unexpected_token(std::size_t last) const {
    std::size_t at = std::min(text_.find_first_not_of(kBlanks, at_), last);
    if (at < last && (text_[at] == ',' || text_[at] == ':'))
      at = std::min(text_.find_first_not_of(kBlanks, at + 1), last);
    return at;
  }
  std::size_t end_of_string(std::size_t begin) const {
    std::size_t at = begin + 1;
    while (text_[at] != '"') at += text_[at] == '\\' ? 2 : 1;
    return at + 1;
  }
  std::size_t end_of_word(std::size_t begin) const {
    return std::min(text_.find_first_of(" \t\r\n,]}", begin), text_.size());
  }
  std::string number_at(std::size_t begin) const {
    return shown(text_.substr(begin, end_of_word(begin) - begin));
  }
  std::string near(std::size_t at) const { return shown(text_.substr(at), 24); }

  bool refuse(std::size_t offset, std::string reason) {
    *fault_ = {offset, std::move(reason)};
    return false;
  }

  JsonValue* add(Kind kind) {
    const std::size_t begin = token_begin();
    if (++values_ > kMaxValues) {
      refuse(begin, cat("holds more than ", with_commas(kMaxValues), " values"));
      return nullptr;
    }
    JsonValue& value = open_.empty() ? *root_ : open_.back().value->items.emplace_back();
    root_seen_ = true;
    value.kind = kind;
    value.begin = static_cast<std::uint32_t>(begin);
    return &value;
  }
  JsonValue* word(Kind kind) {
    JsonValue* const value = add(kind);
    if (value != nullptr) at_ = value->end = static_cast<std::uint32_t>(end_of_word(value->begin));
    return value;
  }
  bool add_number(double number) {
    JsonValue* const value = word(Kind::number);
    if (value != nullptr) value->number = number;
    return value != nullptr;
  }
  bool open(Kind kind) {
    JsonValue* const value = add(kind);
    if (value == nullptr) return false;
    if (open_.size() == std::size_t(kMaxDepth))
      return refuse(value->begin, cat("nests deeper than ", kMaxDepth, " levels"));
    at_ = value->begin + 1;
    open_.push_back({value, std::nullopt});
    return true;
  }
  bool close() {
    at_ = text_.find_first_not_of(kBlanks, at_) + 1;
    open_.back().value->end = static_cast<std::uint32_t>(at_);
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  JsonValue* root_;
  JsonFault* fault_;
  std::vector<Open> open_;
  std::size_t at_ = 0;  // behind the last token
  std::int64_t values_ = 0;
  bool root_seen_ = false;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto at = std::ranges::find(keys, key);
  return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
}

const char* name(Kind kind) {
  switch (kind) {
    case Kind::null: return "null";
    case Kind::boolean: return "a boolean";
    case Kind::number: return "a number";
    case Kind::string: return "a string";
    case Kind::array: return "a list";
    case Kind::object: return "an object";
  }
  return "a value";
}

bool parse_strict_json(std::string_view text, JsonValue* value, JsonFault* fault) {
  *value = {};
  if (text.size() >= UINT32_MAX) {
    *fault = {0, "is too large"};
    return false;
  }
  // The library takes a NUL byte for the end of the text, and skips a byte-order mark.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    *fault = {nul, "holds a NUL byte, which JSON must write as \\u0000: is the file UTF-16, or damaged?"};
    return false;
  }
  if (starts_with(text, "\xEF\xBB\xBF")) {
    *fault = {0, "begins with a byte-order mark: were two files joined here?"};
    return false;
  }
  Builder builder(text, value, fault);
  return json::sax_parse(text.begin(), text.end(), &builder);
}

// How many bytes of the start of `text` are one UTF-8 character; 0 for none.
static std::size_t character_at(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size()); ++n)
    if (!text::first_invalid_utf8(text.substr(0, n))) return n;
  return 0;
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= limit) return out + "...";
    const std::size_t n = character_at(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (n == 0) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      out += byte == '\n'   ? "\\n"
             : byte == '\t' ? "\\t"
             : byte == '\r' ? "\\r"
                            : fmt::format("\\u{:04x}", byte);
    } else if (n == 2 && byte == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[at + 1]));
    } else {
      out += text.substr(at, n);
    }
    at += std::max<std::size_t>(n, 1);
  }
  return out;
}

}  // namespace zt::data
