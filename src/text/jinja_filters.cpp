// What stands behind `|`. Source: Jinja 3.1, src/jinja2/filters.py.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/text.h"
#include "text/jinja_builtins.h"
#include "text/jinja_methods.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace zt::text::jinja {
namespace {

// --- text

Value upper(Machine& m, const Value& self, const Items&) { return m.text(to_upper(m, str(m, self))); }
Value lower(Machine& m, const Value& self, const Items&) { return m.text(to_lower(m, str(m, self))); }
Value capitalize(Machine& m, const Value& self, const Items&) { return m.text(capitalized(m, str(m, self))); }
Value string(Machine& m, const Value& self, const Items&) { return m.text(str(m, self)); }
Value trim(Machine& m, const Value& self, const Items& given) {
  return m.text(stripped(m, str(m, self), given[0], Ends::both));
}
Value replace(Machine& m, const Value& self, const Items& given) {
  return m.text(replaced(m, str(m, self), str(m, given[0]), str(m, given[1]), given[2]));
}

// Words start after white space, hyphens and opening brackets.
Value title(Machine& m, const Value& self, const Items&) {
  std::string out = to_lower(m, str(m, self));
  bool starts = true;
  for (char& c : out) {
    if (starts && c >= 'a' && c <= 'z') c = char(c - 32);
    starts = is_space(static_cast<unsigned char>(c)) ||
             std::string_view("-({[<").find(c) != std::string_view::npos;
  }
  return m.text(std::move(out));
}

// A number of spaces, or the text itself.
std::string indent_of(Machine& m, const Value& indent) {
  if (indent.is(Kind::text)) return *indent.text;
  const std::int64_t width = require_whole(m, indent, "indent");
  if (width > 1000) m.fail("indent by more than 1000 is not implemented");
  return std::string(std::size_t(std::max<std::int64_t>(width, 0)), ' ');
}

Value indent(Machine& m, const Value& self, const Items& given) {
  const std::string space = given[0].given() ? indent_of(m, given[0]) : "    ";
  const bool first = truthy(given[1]), blank = truthy(given[2]);
  const std::string text = require_text(m, self, "indent") + "\n";
  const auto lines = lines_of(text);
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) m.append(&out, "\n");
    if (i == 0 ? first : blank || !lines[i].empty()) m.append(&out, space);
    m.append(&out, lines[i]);
  }
  return m.text(std::move(out));
}

Value to_json_filter(Machine& m, const Value& self, const Items& given) {
  if (given[0].given() && truthy(given[0])) m.fail("tojson with ensure_ascii is not implemented");
  JsonStyle style;
  std::string indent;
  if (given[1].given() && !given[1].is(Kind::none)) {
    indent = indent_of(m, given[1]);
    style.indent = &indent;
    style.comma = ",";
  }
  if (given[2].given() && !given[2].is(Kind::none)) {
    const Items separators = iterate(m, given[2]);
    if (separators.size() != 2) m.fail("tojson needs two separators");
    style.comma = require_text(m, separators[0], "a separator");
    style.colon = require_text(m, separators[1], "a separator");
  }
  style.sorted = truthy(given[3]);
  return m.text(to_json(m, self, style));
}

// --- numbers

// float(): the number that a text spells, or nothing.
std::optional<double> parsed_real(Machine& m, const std::string& text) {
  const std::string digits(without_trailing_space(without_leading_space(text)));
  if (!is_ascii(digits) || digits.find('_') != std::string::npos)
    m.fail("reading a number from text with _ or outside ASCII is not implemented");
  const std::size_t first = digits.find_first_not_of("+-");
  if (first == std::string::npos || first > 1) return std::nullopt;
  const std::string word = to_lower(m, digits.substr(first));
  if (word == "nan" || word == "inf" || word == "infinity") return m.real(INFINITY).real;
  if (digits.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  return *end == '\0' ? std::optional(value) : std::nullopt;
}

std::optional<double> real_of(Machine& m, const Value& value) {
  if (value.is_number()) return value.number();
  if (value.is(Kind::undefined)) m.fail(*value.text);
  if (!value.is(Kind::text)) return std::nullopt;
  return parsed_real(m, *value.text);
}

Value whole_part(Machine& m, double value) {
  if (!(std::fabs(value) < 9.2e18)) m.fail("integers beyond 64 bits are not implemented");
  return Value::of(std::int64_t(value));
}

Value to_int(Machine& m, const Value& self, const Items& given) {
  if (given[1].given() && !(given[1].is(Kind::integer) && given[1].integer == 10))
    m.fail("int with a base other than 10 is not implemented");
  if (self.is_whole()) return Value::of(self.whole());
  const auto value = real_of(m, self);
  if (!value) return given[0].given() ? given[0] : Value::of(std::int64_t{0});
  std::int64_t whole = 0;
  if (self.is(Kind::text)) {
    std::string_view digits = without_trailing_space(without_leading_space(*self.text));
    if (starts_with(digits, "+")) digits.remove_prefix(1);
    if (parse_int(digits, &whole)) return Value::of(whole);
  }
  return whole_part(m, *value);
}

Value to_float(Machine& m, const Value& self, const Items& given) {
  const auto value = real_of(m, self);
  if (value) return m.real(*value);
  return given[0].given() ? given[0] : m.real(0.0);
}

Value absolute(Machine& m, const Value& self, const Items&) {
  if (!self.is_number()) m.fail_type("abs", self);
  if (self.is(Kind::real)) return m.real(std::fabs(self.real));
  if (self.whole() == INT64_MIN) m.fail("integers beyond 64 bits are not implemented");
  return Value::of(std::abs(self.whole()));
}

// Halves go to the even neighbour of the number's exact value, as printf and Python do it.
Value round_number(Machine& m, const Value& self, const Items& given) {
  if (!self.is_number()) m.fail_type("round", self);
  const std::int64_t digits = given[0].given() ? require_whole(m, given[0], "round") : 0;
  const std::string method = given[1].given() ? require_text(m, given[1], "round") : "common";
  if (digits < 0 || digits > 15) m.fail(cat("round to ", digits, " digits is not implemented"));
  if (method == "common" && self.is_whole()) return Value::of(self.whole());
  if (method == "common") return m.real(std::stod(fmt::format("{:.{}f}", self.real, digits)));
  if (method != "ceil" && method != "floor") m.fail(cat("round knows no method '", method, "'"));
  const double scale = std::pow(10.0, double(digits)), scaled = self.number() * scale;
  return m.real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

// --- sequences

// Looks up "a.b.0" or a number, as filters with an attribute do.
Value dotted(Machine& m, Value value, const Value& path) {
  if (!path.given() || path.is(Kind::none)) return value;
  if (!path.is(Kind::text)) return item(m, value, path);
  for (const std::string& part : split(*path.text, '.')) {
    std::int64_t index = 0;
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    value = item(m, value, number && parse_int(part, &index) ? Value::of(index) : m.text(part));
  }
  return value;
}

Value folded(Machine& m, const Value& value, const Value& case_sensitive) {
  return value.is(Kind::text) && !truthy(case_sensitive) ? m.text(to_lower(m, *value.text)) : value;
}

Value length_of(Machine& m, const Value& self, const Items&) { return Value::of(length(m, self)); }
Value list(Machine& m, const Value& self, const Items&) { return m.items(Kind::list, iterate(m, self)); }

Value first(Machine& m, const Value& self, const Items&) {
  const Items all = iterate(m, self);
  return all.empty() ? m.undefined("No first item, sequence was empty.") : all.front();
}
Value last(Machine& m, const Value& self, const Items&) {
  if (self.is(Kind::generator)) m.fail_type("last", self);
  const Items all = iterate(m, self);
  return all.empty() ? m.undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Machine& m, const Value& self, const Items&) {
  Items all = iterate(m, self);
  std::reverse(all.begin(), all.end());
  if (self.is(Kind::text)) return m.text(joined(m, "", all));
  return self.is(Kind::generator) ? m.items(Kind::list, std::move(all)) : m.generator(std::move(all));
}

Value join(Machine& m, const Value& self, const Items& given) {
  Items parts = iterate(m, self);
  for (Value& part : parts) part = dotted(m, part, given[1]);
  return m.text(joined(m, given[0].given() ? str(m, given[0]) : "", parts));
}

Value sort(Machine& m, const Value& self, const Items& given) {
  if (given[2].is(Kind::text) && given[2].text->find(',') != std::string::npos)
    m.fail("sort by several attributes is not implemented");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& value : iterate(m, self))
    keyed.emplace_back(folded(m, dotted(m, value, given[2]), given[1]), value);
  const bool down = truthy(given[0]);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return down ? less(m, b.first, a.first) : less(m, a.first, b.first);
  });
  Items out;
  for (const auto& [key, value] : keyed) out.push_back(value);
  return m.items(Kind::list, std::move(out));
}

Value dictsort(Machine& m, const Value& self, const Items& given) {
  if (!self.is(Kind::dict)) m.fail_type("dictsort", self);
  const std::string by = given[1].given() ? require_text(m, given[1], "dictsort") : "key";
  if (by != "key" && by != "value") m.fail("dictsort sorts by 'key' or 'value'");
  const Value pairs = m.items(Kind::list, pairs_of(m, self));
  return sort(m, pairs, {given[2], given[0], Value::of(std::int64_t{by == "value"})});
}

Value unique(Machine& m, const Value& self, const Items& given) {
  Entries seen;
  for (const Value& value : iterate(m, self)) {
    const Value key = folded(m, dotted(m, value, given[1]), given[0]);
    if (!find(m, seen, key).given()) seen.emplace_back(key, value);
  }
  Items out;
  for (const auto& [key, value] : seen) out.push_back(value);
  return m.generator(std::move(out));
}

template <bool largest>
Value extreme(Machine& m, const Value& self, const Items& given) {
  Value best, best_key;
  for (const Value& value : iterate(m, self)) {
    const Value key = folded(m, dotted(m, value, given[1]), given[0]);
    if (best.given() && !(largest ? less(m, best_key, key) : less(m, key, best_key))) continue;
    best = value;
    best_key = key;
  }
  return best.given() ? best : m.undefined("No aggregated item, sequence was empty.");
}

Value sum(Machine& m, const Value& self, const Items& given) {
  std::int64_t total = given[1].given() ? require_whole(m, given[1], "sum from") : 0;
  for (const Value& value : iterate(m, self)) {
    const Value part = dotted(m, value, given[0]);
    if (!part.is_whole()) m.fail_type("sum", part);
    if (__builtin_add_overflow(total, part.whole(), &total))
      m.fail("integers beyond 64 bits are not implemented");
  }
  return Value::of(total);
}

Value items(Machine& m, const Value& self, const Items&) {
  if (self.is(Kind::undefined)) return m.generator({});
  if (!self.is(Kind::dict)) m.fail_type("items", self);
  return m.generator(pairs_of(m, self));
}

// A filter or test that is named by an argument; what follows are its own arguments.
Arguments after(const Arguments& given, std::size_t skipped) {
  Arguments out = given;
  out.positional.erase(out.positional.begin(), out.positional.begin() + std::ptrdiff_t(skipped));
  return out;
}

Value map_attribute(Machine& m, const Value& self, const Arguments& given) {
  Value path, fallback;
  for (const auto& [name, value] : given.named) {
    if (name != "attribute" && name != "default") m.fail(cat("map takes no argument named ", name));
    (name == "attribute" ? path : fallback) = value;
  }
  Items out;
  for (const Value& element : iterate(m, self)) {
    const Value found = dotted(m, element, path);
    out.push_back(found.is(Kind::undefined) && fallback.given() && !fallback.is(Kind::none) ? fallback
                                                                                            : found);
  }
  return m.generator(std::move(out));
}

Value map(Machine& m, const Value& self, const Arguments& given) {
  if (!truthy(self)) return m.generator({});
  if (given.positional.empty()) return map_attribute(m, self, given);
  const std::string& name = require_text(m, given.positional[0], "the filter of map");
  const Native* filter = find_filter(name);
  if (filter == nullptr) m.fail(cat("the filter '", name, "' is not implemented"));
  Items out;
  for (const Value& element : iterate(m, self)) out.push_back(invoke(m, *filter, element, after(given, 1)));
  return m.generator(std::move(out));
}

// select, reject, selectattr and rejectattr.
template <bool wanted, bool by_attribute>
Value pick(Machine& m, const Value& self, const Arguments& given) {
  if (!truthy(self)) return m.generator({});
  constexpr std::size_t kPath = by_attribute ? 1 : 0;
  if (given.positional.size() < kPath) m.fail("selectattr and rejectattr need the name of an attribute");
  const Native* test = nullptr;
  if (given.positional.size() > kPath) {
    const std::string& name = require_text(m, given.positional[kPath], "the test of select or reject");
    test = find_test(name);
    if (test == nullptr) m.fail(cat("the test '", name, "' is not implemented"));
  }
  Items out;
  for (const Value& element : iterate(m, self)) {
    const Value tested = by_attribute ? dotted(m, element, given.positional[0]) : element;
    const bool passes = truthy(test == nullptr ? tested : invoke(m, *test, tested, after(given, kPath + 1)));
    if (passes == wanted) out.push_back(element);
  }
  return m.generator(std::move(out));
}

// --- other

Value fallback(Machine& m, const Value& self, const Items& given) {
  const bool missing = self.is(Kind::undefined) || (truthy(given[1]) && !truthy(self));
  if (!missing) return self;
  return given[0].given() ? given[0] : m.text("");
}

Value safe(Machine& m, const Value&, const Items&) {
  m.fail("the filter 'safe' is implemented only as the last thing in {{ }}");
}

}  // namespace

const Native* find_filter(std::string_view name) {
  static const Native kFilters[] = {
      {"abs", "", absolute},
      {"capitalize", "", capitalize},
      {"count", "", length_of},
      {"d", "default_value? boolean?", fallback},
      {"default", "default_value? boolean?", fallback},
      {"dictsort", "case_sensitive? by? reverse?", dictsort},
      {"first", "", first},
      {"float", "default?", to_float},
      {"indent", "width? first? blank?", indent},
      {"int", "default? base?", to_int},
      {"items", "", items},
      {"join", "d? attribute?", join},
      {"last", "", last},
      {"length", "", length_of},
      {"list", "", list},
      {"lower", "", lower},
      {"map", "*", nullptr, map},
      {"max", "case_sensitive? attribute?", extreme<true>},
      {"min", "case_sensitive? attribute?", extreme<false>},
      {"reject", "*", nullptr, pick<false, false>},
      {"rejectattr", "*", nullptr, pick<false, true>},
      {"replace", "old new count?", replace},
      {"reverse", "", reverse},
      {"round", "precision? method?", round_number},
      {"safe", "", safe},
      {"select", "*", nullptr, pick<true, false>},
      {"selectattr", "*", nullptr, pick<true, true>},
      {"sort", "reverse? case_sensitive? attribute?", sort},
      {"string", "", string},
      {"sum", "attribute? start?", sum},
      {"title", "", title},
      {"tojson", "ensure_ascii? indent? separators? sort_keys?", to_json_filter},
      {"trim", "chars?", trim},
      {"unique", "case_sensitive? attribute?", unique},
      {"upper", "", upper},
  };
  for (const Native& native : kFilters)
    if (native.name == name) return &native;
  return nullptr;
}

}  // namespace zt::text::jinja
