// Arithmetic and comparison of values, as Python does them.
#include "text/jinja_operators.h"

#include <cmath>

#include "base/text.h"

namespace zt::text::jinja {
namespace {

[[noreturn]] void no_operator(Machine& m, Op op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) m.fail(*a.text);
  if (b.is(Kind::undefined)) m.fail(*b.text);
  m.fail(cat("'", spelling(op), "' is not possible between ", type_name(a.kind), " and ", type_name(b.kind)));
}

[[noreturn]] void overflow(Machine& m) { m.fail("integers beyond 64 bits are not implemented"); }

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Quotient of integers that a double holds exactly; larger ones would be rounded twice.
double quotient(Machine& m, const Value& a, const Value& b) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  for (const Value* value : {&a, &b})
    if (value->is_whole() && (value->whole() > kExact || value->whole() < -kExact))
      m.fail("division of integers beyond 53 bits is not implemented");
  return a.number() / b.number();
}

Value whole_power(Machine& m, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) m.fail("integers to a negative power are not implemented");
  std::int64_t out = 1;
  if (base == 0 || base == 1) return Value::of(exponent == 0 ? out : base);
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(out, base, &out)) overflow(m);
  return Value::of(out);
}

Value whole_arithmetic(Machine& m, Op op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (op == Op::power) return whole_power(m, a, b);
  if ((op == Op::floor_divide || op == Op::modulo) && b == 0) m.fail("division by zero");
  if (b == -1 && op == Op::modulo) return Value::of(out);
  if (b == -1 && op == Op::floor_divide) {
    a = std::exchange(b, a);
    op = Op::multiply;
  }
  bool bad = false;
  switch (op) {
    case Op::add: bad = __builtin_add_overflow(a, b, &out); break;
    case Op::subtract: bad = __builtin_sub_overflow(a, b, &out); break;
    case Op::multiply: bad = __builtin_mul_overflow(a, b, &out); break;
    case Op::floor_divide: out = floor_quotient(a, b); break;
    default: out = a - floor_quotient(a, b) * b; break;
  }
  if (bad) overflow(m);
  return Value::of(out);
}

Value real_arithmetic(Machine& m, Op op, double a, double b) {
  if ((op == Op::floor_divide || op == Op::modulo) && b == 0) m.fail("division by zero");
  switch (op) {
    case Op::add: return m.real(a + b);
    case Op::subtract: return m.real(a - b);
    case Op::multiply: return m.real(a * b);
    case Op::power: return m.real(std::pow(a, b));
    default: m.fail(cat("'", spelling(op), "' of floats is not implemented"));
  }
}

Value arithmetic(Machine& m, Op op, const Value& a, const Value& b) {
  // Jinja means -(a ** b) where the base is constant and the exponent is not.
  if (op == Op::power && a.number() < 0) m.fail("a power of a negative number is not implemented");
  if (op == Op::divide) {
    if (b.number() == 0) m.fail("division by zero");
    return m.real(quotient(m, a, b));
  }
  if (a.is_whole() && b.is_whole()) return whole_arithmetic(m, op, a.whole(), b.whole());
  return real_arithmetic(m, op, a.number(), b.number());
}

Value repeated(Machine& m, const Value& sequence, std::int64_t times) {
  std::string text;
  Items items;
  for (std::int64_t i = 0; i < times; ++i) {
    m.charge(1);
    if (sequence.is(Kind::text)) {
      m.append(&text, *sequence.text);
    } else {
      m.charge(sequence.items->size());
      items.insert(items.end(), sequence.items->begin(), sequence.items->end());
    }
  }
  return sequence.is(Kind::text) ? m.text(std::move(text)) : m.items(sequence.kind, std::move(items));
}

bool is_sequence(const Value& value) {
  return value.is(Kind::text) || value.is(Kind::list) || value.is(Kind::tuple);
}

Value sum(Machine& m, const Value& a, const Value& b) {
  if (a.is(Kind::text)) {
    std::string text = *a.text;
    m.append(&text, *b.text);
    return m.text(std::move(text));
  }
  m.charge(a.items->size() + b.items->size());
  Items items = *a.items;
  items.insert(items.end(), b.items->begin(), b.items->end());
  return m.items(a.kind, std::move(items));
}

}  // namespace

Value apply(Machine& m, Op op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return arithmetic(m, op, a, b);
  if (op == Op::add && a.kind == b.kind && is_sequence(a)) return sum(m, a, b);
  if (op == Op::multiply && is_sequence(a) && b.is_whole()) return repeated(m, a, b.whole());
  if (op == Op::multiply && is_sequence(b) && a.is_whole()) return repeated(m, b, a.whole());
  if (op == Op::modulo && a.is(Kind::text)) m.fail("formatting a string with '%' is not implemented");
  no_operator(m, op, a, b);
}

bool compare(Machine& m, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::equal: return equal(m, a, b);
    case Op::not_equal: return !equal(m, a, b);
    case Op::less: return less(m, a, b);
    case Op::greater: return less(m, b, a);
    case Op::less_equal: return less(m, a, b) || equal(m, a, b);
    case Op::greater_equal: return less(m, b, a) || equal(m, a, b);
    case Op::in: return contains(m, b, a);
    case Op::not_in: return !contains(m, b, a);
    default: no_operator(m, op, a, b);
  }
}

Value negated(Machine& m, const Value& value) {
  if (!value.is_number()) m.fail_type("a minus sign", value);
  if (value.is(Kind::real)) return m.real(-value.real);
  if (value.whole() == INT64_MIN) overflow(m);
  return Value::of(-value.whole());
}

}  // namespace zt::text::jinja
