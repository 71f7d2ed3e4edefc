// Looking into values: attributes, items, slices.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "text/jinja_builtins.h"
#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace zt::text::jinja {
namespace {

using Names = std::set<std::string_view>;

// Attributes that Python's types have and that are not implemented here; others are undefined there too.
// Source: dir() of the types, Python 3.11.
const Names& python_attributes(Kind kind) {
  static const Names kText = {"casefold",  "center",      "count",     "encode",       "expandtabs",
                              "format",    "format_map",  "index",     "isalnum",      "isalpha",
                              "isascii",   "isdecimal",   "isdigit",   "isidentifier", "islower",
                              "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",
                              "ljust",     "maketrans",   "partition", "rfind",        "rindex",
                              "rjust",     "rpartition",  "swapcase",  "translate",    "zfill"};
  static const Names kNumber = {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
                                "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
                                "numerator",        "real",      "to_bytes"};
  static const Names kSequence = {"copy", "count", "index", "isdisjoint", "mapping", "start", "step", "stop"};
  static const Names kDict = {"copy", "fromkeys"};
  static const Names kNone;
  switch (kind) {
    case Kind::text: return kText;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real: return kNumber;
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: return kSequence;
    case Kind::dict: return kDict;
    default: return kNone;
  }
}

// Attributes that the sandbox withholds because they change the object.
bool changes_object(Kind kind, std::string_view name) {
  static const Names kList = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  static const Names kDict = {"clear", "pop", "popitem", "setdefault", "update"};
  return kind == Kind::list ? kList.contains(name) : kind == Kind::dict && kDict.contains(name);
}

// What Python calls the object in "... has no attribute".
std::string described(const Value& value) {
  return value.is(Kind::none) ? "None" : cat(type_name(value.kind), " object");
}

Value missing_attribute(Machine& m, const Value& value, const std::string& name) {
  return m.undefined(cat("'", described(value), "' has no attribute '", name, "'"));
}

Value element(Machine& m, const Value& value, const Value& key) {
  const std::int64_t size = length(m, value);
  const std::int64_t at = key.whole() < 0 ? key.whole() + size : key.whole();
  if (at < 0 || at >= size) return m.undefined(cat(described(value), " has no element ", key.whole()));
  if (value.has_items()) return (*value.items)[std::size_t(at)];
  m.charge(std::size_t(size) / 16);
  return m.text(std::string(characters_of(*value.text)[std::size_t(at)]));
}

std::int64_t slice_bound(Machine& m, const Value& bound, std::int64_t fallback) {
  if (!bound.given() || bound.is(Kind::none)) return fallback;
  if (!bound.is_whole()) m.fail_type("a slice from or to", bound);
  return bound.whole();
}

// The positions that a slice takes. Source: Python's PySlice_AdjustIndices.
std::vector<std::size_t> slice_positions(std::int64_t size, const std::int64_t bounds[2], std::int64_t step,
                                         const bool given[2]) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  std::int64_t ends[2] = {step > 0 ? low : high, step > 0 ? high : low};
  for (int i = 0; i < 2; ++i)
    if (given[i]) ends[i] = std::clamp(bounds[i] < 0 ? bounds[i] + size : bounds[i], low, high);
  step = std::clamp(step, -size - 1, size + 1);
  std::vector<std::size_t> out;
  for (std::int64_t at = ends[0]; step > 0 ? at < ends[1] : at > ends[1]; at += step)
    out.push_back(std::size_t(at));
  return out;
}

}  // namespace

Value attribute(Machine& m, const Value& value, const std::string& name) {
  m.charge(1);
  if (value.is(Kind::undefined)) m.fail(*value.text);
  if (starts_with(name, "__")) m.fail(cat("the attribute ", name, " is not implemented"));
  if (value.is(Kind::name_space)) {
    const Value found = find(m, *value.entries, m.text(name));
    return found.given() ? found : missing_attribute(m, value, name);
  }
  if (const Native* native = find_method(value.kind, name)) return m.method(native, value);
  if (changes_object(value.kind, name))
    return m.undefined(
        cat("'", name, "' would change a ", type_name(value.kind), ", which templates may not"));
  const bool opaque = value.is(Kind::generator) || value.kind >= Kind::function;
  if (opaque || python_attributes(value.kind).contains(name))
    m.fail(cat("the attribute '", name, "' of ", type_name(value.kind), " is not implemented"));
  if (value.is(Kind::dict)) {
    const Value found = find(m, *value.entries, m.text(name));
    if (found.given()) return found;
  }
  return missing_attribute(m, value, name);
}

Value item(Machine& m, const Value& value, const Value& key) {
  m.charge(1);
  if (value.is(Kind::undefined)) m.fail(*value.text);
  if (value.is(Kind::dict)) {
    const Value found = find(m, *value.entries, key);
    if (found.given()) return found;
  }
  const bool indexable = value.is(Kind::text) || (value.has_items() && !value.is(Kind::view));
  if (indexable && key.is_whole()) return element(m, value, key);
  if (key.is(Kind::text)) return attribute(m, value, *key.text);
  return m.undefined(cat(described(value), " has no such element"));
}

Value slice(Machine& m, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (!value.is(Kind::text) && (!value.has_items() || value.is(Kind::view))) m.fail_type("a slice", value);
  const std::int64_t by = slice_bound(m, step, 1);
  if (by == 0) m.fail("a slice can't have step 0");
  const std::int64_t bounds[2] = {slice_bound(m, start, 0), slice_bound(m, stop, 0)};
  const bool given[2] = {start.given() && !start.is(Kind::none), stop.given() && !stop.is(Kind::none)};
  const std::int64_t size = length(m, value);
  m.charge(std::size_t(size) / 16);
  const auto positions = slice_positions(size, bounds, by, given);
  if (value.is(Kind::text)) {
    const auto characters = characters_of(*value.text);
    std::string out;
    for (const std::size_t at : positions) out += characters[at];
    return m.text(std::move(out));
  }
  Items out;
  for (const std::size_t at : positions) out.push_back((*value.items)[at]);
  return m.items(value.kind, std::move(out));
}

}  // namespace zt::text::jinja
