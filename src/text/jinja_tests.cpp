// What stands behind `is`.
#include "base/text.h"
#include "text/jinja_builtins.h"

namespace zt::text::jinja {
namespace {

template <Kind... kinds>
Value kind_is(Machine&, const Value& self, const Items&) {
  return Value::of((self.is(kinds) || ...));
}

Value is_defined(Machine&, const Value& self, const Items&) { return Value::of(!self.is(Kind::undefined)); }
template <bool wanted>
Value is_exactly(Machine&, const Value& self, const Items&) {
  return Value::of(self.is(Kind::boolean) && self.boolean == wanted);
}

template <std::int64_t remainder>
Value has_parity(Machine& m, const Value& self, const Items&) {
  if (!self.is_whole()) m.fail_type("odd or even", self);
  return Value::of((self.whole() % 2 != 0) == (remainder != 0));
}
Value is_divisible(Machine& m, const Value& self, const Items& given) {
  if (!self.is_whole() || !given[0].is_whole()) m.fail_type("divisibleby", self.is_whole() ? given[0] : self);
  if (given[0].whole() == 0) m.fail("division by zero");
  return Value::of(given[0].whole() == -1 || self.whole() % given[0].whole() == 0);
}

Value equals(Machine& m, const Value& self, const Items& given) {
  return Value::of(equal(m, self, given[0]));
}
Value differs(Machine& m, const Value& self, const Items& given) {
  return Value::of(!equal(m, self, given[0]));
}
Value is_less(Machine& m, const Value& self, const Items& given) {
  return Value::of(less(m, self, given[0]));
}
Value is_greater(Machine& m, const Value& self, const Items& given) {
  return Value::of(less(m, given[0], self));
}
Value is_at_most(Machine& m, const Value& self, const Items& given) {
  return Value::of(less(m, self, given[0]) || equal(m, self, given[0]));
}
Value is_at_least(Machine& m, const Value& self, const Items& given) {
  return Value::of(less(m, given[0], self) || equal(m, self, given[0]));
}
Value is_in(Machine& m, const Value& self, const Items& given) {
  return Value::of(contains(m, given[0], self));
}

// Identity is plain only for none, true and false.
Value same_as(Machine& m, const Value& self, const Items& given) {
  const Value& other = given[0];
  if (!other.is(Kind::none) && !other.is(Kind::boolean))
    m.fail(cat("'sameas' with ", type_name(other.kind), " is not implemented"));
  return Value::of(self.kind == other.kind && (other.is(Kind::none) || self.boolean == other.boolean));
}

}  // namespace

const Native* find_test(std::string_view name) {
  using enum Kind;
  static const Native kTests[] = {
      {"defined", "", is_defined},
      {"undefined", "", kind_is<undefined>},
      {"none", "", kind_is<none>},
      {"boolean", "", kind_is<boolean>},
      {"true", "", is_exactly<true>},
      {"false", "", is_exactly<false>},
      {"integer", "", kind_is<integer>},
      {"float", "", kind_is<real>},
      {"number", "", kind_is<boolean, integer, real>},
      {"string", "", kind_is<text>},
      {"mapping", "", kind_is<dict>},
      // As Python answers: an undefined variable has a length, elements and can be called.
      {"sequence", "", kind_is<text, list, tuple, range, dict, undefined>},
      {"iterable", "", kind_is<text, list, tuple, range, view, generator, dict, undefined, loop>},
      {"callable", "", kind_is<function, method, macro, loop, undefined>},
      {"odd", "", has_parity<1>},
      {"even", "", has_parity<0>},
      {"divisibleby", "num", is_divisible},
      {"eq", "/ other", equals},
      {"equalto", "/ other", equals},
      {"==", "/ other", equals},
      {"ne", "/ other", differs},
      {"!=", "/ other", differs},
      {"lt", "/ other", is_less},
      {"lessthan", "/ other", is_less},
      {"<", "/ other", is_less},
      {"le", "/ other", is_at_most},
      {"<=", "/ other", is_at_most},
      {"gt", "/ other", is_greater},
      {"greaterthan", "/ other", is_greater},
      {">", "/ other", is_greater},
      {"ge", "/ other", is_at_least},
      {">=", "/ other", is_at_least},
      {"in", "seq", is_in},
      {"sameas", "other", same_as},
  };
  for (const Native& native : kTests)
    if (native.name == name) return &native;
  return nullptr;
}

}  // namespace zt::text::jinja
