#include "text/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "text/jinja_text.h"
#include "text/utf8.h"

namespace zt::text::jinja {

Value Value::of(bool value) {
  Value out;
  out.kind = Kind::boolean;
  out.boolean = value;
  return out;
}

Value Value::of(Kind kind, std::int64_t integer) {
  Value out;
  out.kind = kind;
  out.integer = integer;
  return out;
}

Value Value::of(const Native* native) {
  Value out;
  out.kind = Kind::function;
  out.native = native;
  return out;
}

Value Value::of(const Macro* macro) {
  Value out;
  out.kind = Kind::macro;
  out.macro = macro;
  return out;
}

Value Value::of(Loop* loop) {
  Value out;
  out.kind = Kind::loop;
  out.loop = loop;
  return out;
}

void Machine::fail_type(const std::string& operation, const Value& value) const {
  if (value.is(Kind::undefined)) fail(*value.text);
  fail(cat(operation, " is not possible with ", type_name(value.kind)));
}

void Machine::charge(std::size_t steps) {
  if (steps <= std::size_t(steps_left_)) {
    steps_left_ -= std::int64_t(steps);
    return;
  }
  fail(cat("the template takes more than ", with_commas(limits_.steps), " steps"));
}

void Machine::append(std::string* out, std::string_view text) {
  charge_bytes(text.size());
  if (text.size() + out->size() > limits_.output_bytes)
    fail(cat("a text grows beyond ", human_bytes(std::int64_t(limits_.output_bytes))));
  out->append(text);
}

Value Machine::text(std::string text) {
  charge(1 + text.size() / 64);
  if (text.size() > limits_.output_bytes)
    fail(cat("a text grows beyond ", human_bytes(std::int64_t(limits_.output_bytes))));
  Value out;
  out.kind = Kind::text;
  out.text = &texts_.emplace_back(std::move(text));
  return out;
}

Value Machine::undefined(std::string why) {
  Value out = text(std::move(why));
  out.kind = Kind::undefined;
  return out;
}

Value Machine::real(double value) {
  if (!std::isfinite(value)) fail("numbers that are infinite or not numbers are not implemented");
  Value out;
  out.kind = Kind::real;
  out.real = value;
  return out;
}

Value Machine::items(Kind kind, Items items) {
  charge(1 + items.size());
  Value out;
  out.kind = kind;
  out.items = &items_.emplace_back(std::move(items));
  return out;
}

Value Machine::generator(Items items) {
  charge(1 + items.size());
  Value out;
  out.kind = Kind::generator;
  out.generator = &generators_.emplace_back(Generator{std::move(items)});
  return out;
}

Value Machine::entries(Kind kind, Entries entries) {
  charge(1 + entries.size());
  Value out;
  out.kind = kind;
  out.entries = &entries_.emplace_back(std::move(entries));
  return out;
}

Value Machine::method(const Native* native, Value self) {
  charge(1);
  Value out;
  out.kind = Kind::method;
  out.method = &methods_.emplace_back(Method{native, self});
  return out;
}

Machine::Deeper::Deeper(Machine* machine) : machine_(machine) {
  if (++machine_->depth_ <= kMostDepth) return;
  --machine_->depth_;
  machine_->fail(cat("calls or values are nested deeper than ", kMostDepth, " levels"));
}

const char* type_name(Kind kind) {
  static constexpr const char* kNames[] = {"nothing",     "Undefined",   "None", "bool",      "int",
                                           "float",       "str",         "list", "tuple",     "range",
                                           "a dict view", "a generator", "dict", "Namespace", "a function",
                                           "a method",    "a macro",     "loop"};
  return kNames[int(kind)];
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::absent:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return value.boolean;
    case Kind::integer: return value.integer != 0;
    case Kind::real: return value.real != 0;
    case Kind::text: return !value.text->empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: return !value.items->empty();
    case Kind::dict: return !value.entries->empty();
    case Kind::generator:
    case Kind::name_space:
    case Kind::function:
    case Kind::method:
    case Kind::macro:
    case Kind::loop: return true;
  }
  return false;
}

namespace {

std::string repr_of_text(Machine& m, const std::string& text) {
  m.charge_bytes(text.size());
  if (!is_ascii(text)) m.fail("printing a list or dict with text outside ASCII is not implemented");
  return python_literal(text);
}

std::string repr_of_items(Machine& m, const Value& value) {
  const bool tuple = value.is(Kind::tuple);
  std::string out = tuple ? "(" : "[";
  for (std::size_t i = 0; i < value.items->size(); ++i) {
    if (i > 0) out += ", ";
    m.append(&out, repr(m, (*value.items)[i]));
  }
  if (tuple && value.items->size() == 1) out += ",";
  return out + (tuple ? ")" : "]");
}

std::string repr_of_dict(Machine& m, const Entries& entries) {
  std::string out = "{";
  for (const auto& [key, value] : entries) {
    if (out.size() > 1) out += ", ";
    m.append(&out, repr(m, key));
    out += ": ";
    m.append(&out, repr(m, value));
  }
  return out + "}";
}

bool same_items(Machine& m, const Items& a, const Items& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(m, a[i], b[i])) return false;
  return true;
}

bool same_entries(Machine& m, const Entries& a, const Entries& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a) {
    const Value other = find(m, b, key);
    if (!other.given() || !equal(m, value, other)) return false;
  }
  return true;
}

// int64 and double compare as the numbers they are; a long double holds both exactly.
long double exact(const Value& value) {
  return value.is(Kind::real) ? static_cast<long double>(value.real)
                              : static_cast<long double>(value.whole());
}

void require_hashable(Machine& m, const Value& key) {
  if (key.is(Kind::undefined) || key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::view) ||
      key.kind >= Kind::generator)
    m.fail_type("a dict key", key);
  if (key.is(Kind::tuple))
    for (const Value& part : *key.items) require_hashable(m, part);
}

}  // namespace

std::string repr(Machine& m, const Value& value) {
  const Machine::Deeper deeper(&m);
  m.charge(1);
  switch (value.kind) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "None";
    case Kind::boolean: return value.boolean ? "True" : "False";
    case Kind::integer: return cat(value.integer);
    case Kind::real: return python_literal(value.real);
    case Kind::text: return repr_of_text(m, *value.text);
    case Kind::list:
    case Kind::tuple: return repr_of_items(m, value);
    case Kind::dict: return repr_of_dict(m, *value.entries);
    default: m.fail(cat("printing ", type_name(value.kind), " is not implemented"));
  }
}

std::string str(Machine& m, const Value& value) {
  if (value.is(Kind::text)) return *value.text;
  return value.is(Kind::undefined) ? "" : repr(m, value);
}

bool equal(Machine& m, const Value& a, const Value& b) {
  const Machine::Deeper deeper(&m);
  m.charge(1);
  if (a.is_number() && b.is_number()) return exact(a) == exact(b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::text: m.charge_bytes(a.text->size()); return *a.text == *b.text;
    case Kind::list:
    case Kind::tuple:
    case Kind::range: return same_items(m, *a.items, *b.items);
    case Kind::dict: return same_entries(m, *a.entries, *b.entries);
    case Kind::view: m.fail("comparing dict views is not implemented");
    case Kind::method: m.fail("comparing methods is not implemented");
    case Kind::undefined:
    case Kind::none: return true;
    default: return a.identity == b.identity;
  }
}

bool less(Machine& m, const Value& a, const Value& b) {
  const Machine::Deeper deeper(&m);
  m.charge(1);
  if (a.is(Kind::undefined) || b.is(Kind::undefined)) m.fail(*(a.is(Kind::undefined) ? a : b).text);
  if (a.is_number() && b.is_number()) return exact(a) < exact(b);
  if (a.is(Kind::text) && b.is(Kind::text)) {
    m.charge_bytes(a.text->size());
    return *a.text < *b.text;  // UTF-8 sorts as its characters do
  }
  if (a.kind != b.kind || (!a.is(Kind::list) && !a.is(Kind::tuple)))
    m.fail(cat(type_name(a.kind), " and ", type_name(b.kind), " have no order"));
  for (std::size_t i = 0; i < std::min(a.items->size(), b.items->size()); ++i)
    if (!equal(m, (*a.items)[i], (*b.items)[i])) return less(m, (*a.items)[i], (*b.items)[i]);
  return a.items->size() < b.items->size();
}

bool contains(Machine& m, const Value& container, const Value& element) {
  if (container.is(Kind::text)) {
    if (!element.is(Kind::text))
      m.fail(cat("'in' a string needs a string on its left, not ", type_name(element.kind)));
    m.charge_search(container.text->size(), element.text->size());
    return container.text->find(*element.text) != std::string::npos;
  }
  if (container.is(Kind::dict)) return find(m, *container.entries, element).given();
  for (const Value& candidate : iterate(m, container))
    if (equal(m, candidate, element)) return true;
  return false;
}

Items iterate(Machine& m, const Value& value) {
  m.charge(1);
  Items out;
  switch (value.kind) {
    case Kind::undefined: return out;
    case Kind::text:
      for (const std::string_view c : characters_of(*value.text)) out.push_back(m.text(std::string(c)));
      return out;
    case Kind::dict:
      m.charge(value.entries->size());
      for (const auto& [key, entry] : *value.entries) out.push_back(key);
      return out;
    case Kind::generator:
      if (std::exchange(value.generator->used, true))
        m.fail("going twice through the result of a filter such as map or select is not implemented");
      m.charge(value.generator->items.size());
      return value.generator->items;
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: m.charge(value.items->size()); return *value.items;
    default: m.fail_type("going through the elements", value);
  }
}

std::int64_t length(Machine& m, const Value& value) {
  if (value.is(Kind::undefined)) return 0;
  if (value.has_items()) return std::int64_t(value.items->size());
  if (value.is(Kind::dict)) return std::int64_t(value.entries->size());
  if (!value.is(Kind::text)) m.fail_type("a length", value);
  m.charge_bytes(value.text->size());
  return std::int64_t(character_count(*value.text));
}

Value find(Machine& m, const Entries& entries, const Value& key) {
  require_hashable(m, key);
  m.charge(1 + entries.size() / 8);
  for (const auto& [candidate, value] : entries) {
    if (key.is(Kind::text) && candidate.is(Kind::text) ? *key.text == *candidate.text
                                                       : equal(m, candidate, key))
      return value;
  }
  return {};
}

void put(Machine& m, Entries* entries, const Value& key, const Value& value) {
  require_hashable(m, key);
  m.charge(1 + entries->size() / 8);
  for (auto& [candidate, old] : *entries) {
    if (!equal(m, candidate, key)) continue;
    old = value;
    return;
  }
  entries->emplace_back(key, value);
}

}  // namespace zt::text::jinja
