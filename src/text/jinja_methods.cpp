#include "text/jinja_methods.h"

#include <algorithm>

#include "base/text.h"
#include "text/jinja_builtins.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace zt::text::jinja {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

void require_ascii(Machine& m, const std::string& text) {
  m.charge_bytes(text.size());
  if (!is_ascii(text)) m.fail("upper and lower case of text outside ASCII is not implemented");
}

template <Ends ends>
Value strip(Machine& m, const Value& self, const Items& given) {
  return m.text(stripped(m, *self.text, given[0], ends));
}

Value upper(Machine& m, const Value& self, const Items&) { return m.text(to_upper(m, *self.text)); }
Value lower(Machine& m, const Value& self, const Items&) { return m.text(to_lower(m, *self.text)); }
Value capitalize(Machine& m, const Value& self, const Items&) { return m.text(capitalized(m, *self.text)); }

// Letters start a word wherever no letter stands before them.
Value title(Machine& m, const Value& self, const Items&) {
  std::string out = to_lower(m, *self.text);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (is_lower(out[i]) && (i == 0 || (!is_lower(out[i - 1]) && !is_upper(out[i - 1]))))
      out[i] = char(out[i] - 32);
  return m.text(std::move(out));
}

template <bool at_start>
bool touches(std::string_view text, std::string_view part) {
  if (part.size() > text.size()) return false;
  return (at_start ? text.substr(0, part.size()) : text.substr(text.size() - part.size())) == part;
}

template <bool at_start>
Value starts_or_ends(Machine& m, const Value& self, const Items& given) {
  m.charge_bytes(self.text->size());
  if (!given[0].is(Kind::tuple))
    return Value::of(touches<at_start>(*self.text, require_text(m, given[0], "startswith or endswith")));
  for (const Value& part : *given[0].items)
    if (touches<at_start>(*self.text, require_text(m, part, "startswith or endswith")))
      return Value::of(true);
  return Value::of(false);
}

template <bool at_start>
Value without_affix(Machine& m, const Value& self, const Items& given) {
  const std::string& part = require_text(m, given[0], "removeprefix or removesuffix");
  if (!touches<at_start>(*self.text, part)) return self;
  return m.text(self.text->substr(at_start ? part.size() : 0, self.text->size() - part.size()));
}

Value replace(Machine& m, const Value& self, const Items& given) {
  const std::string& old = require_text(m, given[0], "replace");
  return m.text(replaced(m, *self.text, old, require_text(m, given[1], "replace"), given[2]));
}

Items split_at_space(Machine& m, std::string_view rest, std::int64_t most) {
  Items out;
  for (rest = without_leading_space(rest); !rest.empty(); rest = without_leading_space(rest)) {
    std::size_t end = 0;
    while (end < rest.size() && !is_space(code_point(rest, end))) end += utf8_length(rest[end]);
    if (most-- == 0) end = rest.size();  // with the white space at its end
    out.push_back(m.text(std::string(rest.substr(0, end))));
    rest.remove_prefix(end);
  }
  return out;
}

Items split_at(Machine& m, std::string_view rest, const std::string& separator, std::int64_t most) {
  if (separator.empty()) m.fail("split needs a separator that is not empty");
  Items out;
  for (std::size_t at; most-- != 0 && (at = rest.find(separator)) != std::string_view::npos;) {
    out.push_back(m.text(std::string(rest.substr(0, at))));
    rest.remove_prefix(at + separator.size());
  }
  out.push_back(m.text(std::string(rest)));
  return out;
}

Items split_from_right(Machine& m, std::string_view rest, const std::string& separator, std::int64_t most) {
  if (separator.empty()) m.fail("rsplit needs a separator that is not empty");
  Items out;
  for (std::size_t at; most-- != 0 && (at = rest.rfind(separator)) != std::string_view::npos;) {
    out.push_back(m.text(std::string(rest.substr(at + separator.size()))));
    rest = rest.substr(0, at);
  }
  out.push_back(m.text(std::string(rest)));
  std::reverse(out.begin(), out.end());
  return out;
}

template <bool from_right>
Value split(Machine& m, const Value& self, const Items& given) {
  m.charge_bytes(self.text->size());
  const std::int64_t most =
      std::max<std::int64_t>(given[1].given() ? require_whole(m, given[1], "split") : -1, -1);
  const bool at_space = !given[0].given() || given[0].is(Kind::none);
  if (at_space && from_right && most >= 0) m.fail("rsplit at white space with a limit is not implemented");
  if (at_space) return m.items(Kind::list, split_at_space(m, *self.text, most < 0 ? INT64_MAX : most));
  const std::string& separator = require_text(m, given[0], "split");
  m.charge_search(self.text->size(), separator.size());
  return m.items(Kind::list, from_right ? split_from_right(m, *self.text, separator, most)
                                        : split_at(m, *self.text, separator, most));
}

Value splitlines(Machine& m, const Value& self, const Items&) {
  m.charge_bytes(self.text->size());
  Items out;
  for (const std::string_view line : lines_of(*self.text)) out.push_back(m.text(std::string(line)));
  return m.items(Kind::list, std::move(out));
}

Value find_in_text(Machine& m, const Value& self, const Items& given) {
  const std::string& wanted = require_text(m, given[0], "find");
  m.charge_search(self.text->size(), wanted.size());
  const std::size_t at = self.text->find(wanted);
  if (at == std::string::npos) return Value::of(std::int64_t{-1});
  return Value::of(std::int64_t(character_count(std::string_view(*self.text).substr(0, at))));
}

Value join(Machine& m, const Value& self, const Items& given) {
  const Items parts = iterate(m, given[0]);
  for (const Value& part : parts) require_text(m, part, "join");
  return m.text(joined(m, *self.text, parts));
}

Value items(Machine& m, const Value& self, const Items&) { return m.items(Kind::view, pairs_of(m, self)); }
Value keys(Machine& m, const Value& self, const Items&) { return m.items(Kind::view, iterate(m, self)); }
Value values(Machine& m, const Value& self, const Items&) {
  Items out;
  for (const auto& [key, value] : *self.entries) out.push_back(value);
  return m.items(Kind::view, std::move(out));
}
Value get(Machine& m, const Value& self, const Items& given) {
  const Value found = find(m, *self.entries, given[0]);
  if (found.given()) return found;
  return given[1].given() ? given[1] : Value::none();
}

}  // namespace

std::string to_upper(Machine& m, std::string text) {
  require_ascii(m, text);
  for (char& c : text) c = is_lower(c) ? char(c - 32) : c;
  return text;
}

std::string to_lower(Machine& m, std::string text) {
  require_ascii(m, text);
  for (char& c : text) c = is_upper(c) ? char(c + 32) : c;
  return text;
}

std::string capitalized(Machine& m, const std::string& text) {
  return to_upper(m, text.substr(0, 1)) + (text.empty() ? "" : to_lower(m, text.substr(1)));
}

std::string stripped(Machine& m, const std::string& text, const Value& characters, Ends ends) {
  const bool spaces = !characters.given() || characters.is(Kind::none);
  std::string_view out = text;
  if (spaces) {
    m.charge_bytes(text.size());
    if (ends != Ends::right) out = without_leading_space(out);
    if (ends != Ends::left) out = without_trailing_space(out);
  } else {
    const std::string& set = require_text(m, characters, "strip");
    m.charge_bytes(text.size() * (1 + set.size() / 64));
    if (ends != Ends::right) out = without_leading(out, set);
    if (ends != Ends::left) out = without_trailing(out, set);
  }
  return std::string(out);
}

std::string replaced(Machine& m, const std::string& text, const std::string& old, const std::string& by,
                     const Value& count) {
  const bool everywhere = !count.given() || count.is(Kind::none);
  std::int64_t left = everywhere ? -1 : std::max<std::int64_t>(require_whole(m, count, "replace"), -1);
  if (old.empty()) m.fail("replace of an empty string is not implemented");
  m.charge_search(text.size(), old.size());
  std::string out;
  std::size_t from = 0;
  for (std::size_t at; left-- != 0 && (at = text.find(old, from)) != std::string::npos;
       from = at + old.size()) {
    m.append(&out, std::string_view(text).substr(from, at - from));
    m.append(&out, by);
    m.charge(1);
  }
  m.append(&out, std::string_view(text).substr(from));
  return out;
}

std::string joined(Machine& m, const std::string& separator, const Items& parts) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) m.append(&out, separator);
    m.append(&out, str(m, parts[i]));
  }
  return out;
}

const std::string& require_text(Machine& m, const Value& value, const char* what) {
  if (!value.is(Kind::text)) m.fail_type(what, value);
  return *value.text;
}

std::int64_t require_whole(Machine& m, const Value& value, const char* what) {
  if (!value.is_whole()) m.fail_type(what, value);
  return value.whole();
}

Items pairs_of(Machine& m, const Value& dict) {
  Items out;
  for (const auto& [key, value] : *dict.entries) out.push_back(m.items(Kind::tuple, {key, value}));
  return out;
}

const Native* find_method(Kind kind, std::string_view name) {
  static const Native kText[] = {
      {"split", "sep? maxsplit?", split<false>},
      {"rsplit", "sep? maxsplit?", split<true>},
      {"splitlines", "", splitlines},
      {"strip", "/ chars?", strip<Ends::both>},
      {"lstrip", "/ chars?", strip<Ends::left>},
      {"rstrip", "/ chars?", strip<Ends::right>},
      {"startswith", "/ prefix", starts_or_ends<true>},
      {"endswith", "/ suffix", starts_or_ends<false>},
      {"removeprefix", "/ prefix", without_affix<true>},
      {"removesuffix", "/ suffix", without_affix<false>},
      {"replace", "/ old new count?", replace},
      {"find", "/ sub", find_in_text},
      {"join", "/ iterable", join},
      {"upper", "", upper},
      {"lower", "", lower},
      {"title", "", title},
      {"capitalize", "", capitalize},
  };
  static const Native kDict[] = {
      {"items", "", items}, {"keys", "", keys}, {"values", "", values}, {"get", "/ key default?", get}};
  if (kind == Kind::text)
    for (const Native& native : kText)
      if (native.name == name) return &native;
  if (kind == Kind::dict)
    for (const Native& native : kDict)
      if (native.name == name) return &native;
  return nullptr;
}

}  // namespace zt::text::jinja
