#include "text/jinja_evaluator.h"

#include "base/error.h"
#include "base/text.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/utf8.h"

namespace zt::text::jinja {

Evaluator::Evaluator(const Jinja::Variables& variables, const JinjaLimits& limits) : m_(limits) {
  if (!variables.is_object()) throw Error(Blame::bug, "a chat template's variables must be a JSON object");
  scope_ = new_scope(nullptr);
  for (const auto& [name, value] : variables.items()) scope_->variables.emplace_back(name, from_json(value));
  globals_ = scope_;
}

Value Evaluator::from_json(const Jinja::Variables& json) {
  const Machine::Deeper deeper(&m_);
  switch (json.type()) {
    case Jinja::Variables::value_t::null: return Value::none();
    case Jinja::Variables::value_t::boolean: return Value::of(json.get<bool>());
    case Jinja::Variables::value_t::number_integer: return Value::of(json.get<std::int64_t>());
    case Jinja::Variables::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
        m_.fail("integers beyond 64 bits are not implemented");
      return Value::of(json.get<std::int64_t>());
    case Jinja::Variables::value_t::number_float: return m_.real(json.get<double>());
    case Jinja::Variables::value_t::string:
      require_utf8(json.get_ref<const std::string&>());
      return m_.text(json.get<std::string>());
    case Jinja::Variables::value_t::array: {
      Items items;
      for (const auto& element : json) items.push_back(from_json(element));
      return m_.items(Kind::list, std::move(items));
    }
    case Jinja::Variables::value_t::object: {
      Entries entries;
      for (const auto& [key, value] : json.items()) entries.emplace_back(m_.text(key), from_json(value));
      return m_.entries(Kind::dict, std::move(entries));
    }
    default: throw Error(Blame::bug, "a chat template's variables must be plain JSON");
  }
}

std::string Evaluator::run(const Template& parsed) {
  std::string out;
  out_ = &out;
  run_frame(parsed.frame, new_scope(globals_));
  return out;
}

// --- statements

Evaluator::Flow Evaluator::run(const std::vector<Stmt>& body) {
  for (const Stmt& stmt : body) {
    const Flow flow = run(stmt);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::run(const Stmt& stmt) {
  const Machine::Deeper deeper(&m_);
  m_.at = stmt.at;
  m_.charge(1);
  switch (stmt.kind) {
    case Stmt::Kind::text: m_.append(out_, stmt.text); break;
    case Stmt::Kind::print: m_.append(out_, str(m_, eval(*stmt.value))); break;
    case Stmt::Kind::if_: return run_if(stmt);
    case Stmt::Kind::for_: return run_for(stmt);
    case Stmt::Kind::set: assign(*stmt.target, eval(*stmt.value)); break;
    case Stmt::Kind::set_block: return run_set_block(stmt);
    case Stmt::Kind::macro: set(stmt.text, Value::of(&macros_.emplace_back(Macro{&stmt, scope_}))); break;
    case Stmt::Kind::break_: return Flow::stop_loop;
    case Stmt::Kind::continue_: return Flow::next_round;
    case Stmt::Kind::generation: return run_frame(stmt.frame, new_scope(scope_));
  }
  return Flow::on;
}

Scope* Evaluator::new_scope(const Scope* outer) {
  m_.charge(1);
  return &scopes_.emplace_back(Scope{outer, {}});
}

Evaluator::Flow Evaluator::run_frame(const Frame& frame, Scope* scope) {
  Scope* outer = std::exchange(scope_, scope);
  for (const std::string& name : frame.undefined_at_start)
    set(name, m_.undefined(cat("'", name, "' is undefined")));
  const Flow flow = run(frame.body);
  scope_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::run_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches)
    if (branch.condition == nullptr || truthy(eval(*branch.condition))) return run(branch.body);
  return Flow::on;
}

Evaluator::Flow Evaluator::run_for(const Stmt& stmt) {
  Loop& loop = loops_.emplace_back();
  loop.statement = &stmt;
  loop.outer = scope_;
  loop.source = iterate(m_, eval(*stmt.value));
  Scope* outer = scope_;
  bool completed = false;  // Jinja's `else` runs unless some round came to the end of the body
  for (;;) {
    const Value element = loop.after.given() ? loop.after : take_next(&loop);
    if (!element.given()) break;
    loop.after = {};
    ++loop.index0;
    loop.before = loop.current;
    loop.current = element;
    scope_ = new_scope(outer);
    set("loop", Value::of(&loop));
    m_.at = stmt.at;
    assign(*stmt.target, element);
    const Flow flow = run_frame(stmt.frame, scope_);
    scope_ = outer;
    if (flow == Flow::stop_loop) break;
    completed = completed || flow == Flow::on;
  }
  return completed ? Flow::on : run_frame(stmt.otherwise, new_scope(outer));
}

Evaluator::Flow Evaluator::run_set_block(const Stmt& stmt) {
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  const Flow flow = run_frame(stmt.frame, new_scope(scope_));
  out_ = outer;
  if (flow == Flow::on) assign(*stmt.target, m_.text(std::move(text)));
  return flow;
}

void Evaluator::set(const std::string& name, const Value& value) {
  m_.charge(scope_->variables.size() / 8);
  for (auto& [known, old] : scope_->variables) {
    if (known != name) continue;
    old = value;
    return;
  }
  m_.charge(1);
  scope_->variables.emplace_back(name, value);
}

void Evaluator::assign(const Expr& target, const Value& value) {
  if (target.kind == Expr::Kind::name) return set(target.name, value);
  if (target.kind == Expr::Kind::attribute) return assign_attribute(target, value);
  m_.at = target.at;
  const Items parts = iterate(m_, value);
  if (parts.size() != target.operands.size())
    m_.fail(cat("can't unpack ", parts.size(), " values into ", target.operands.size(), " names"));
  for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.operands[i], parts[i]);
}

void Evaluator::assign_attribute(const Expr& target, const Value& value) {
  const Value object = eval(*target.operands[0]);
  m_.at = target.at;
  if (!object.is(Kind::name_space))
    m_.fail(cat("can't set the attribute ", target.name, " of ", type_name(object.kind),
                "; only of a namespace"));
  if (starts_with(target.name, "_")) m_.fail("a namespace takes no names that start with _");
  put(m_, object.entries, m_.text(target.name), value);
}

// --- loops

Value Evaluator::take_next(Loop* loop) {
  while (loop->next < loop->source.size()) {
    m_.charge(1);
    const Value element = loop->source[loop->next++];
    if (loop->statement->condition == nullptr || accepts(*loop, element)) return element;
  }
  return {};
}

bool Evaluator::accepts(const Loop& loop, const Value& element) {
  Scope* outer = std::exchange(scope_, new_scope(loop.outer));
  assign(*loop.statement->target, element);
  const bool accepted = truthy(eval(*loop.statement->condition));
  scope_ = outer;
  return accepted;
}

const Value& Evaluator::look_ahead(Loop* loop) {
  if (!loop->after.given()) loop->after = take_next(loop);
  return loop->after;
}

std::int64_t Evaluator::loop_length(Loop* loop) {
  if (loop->length) return *loop->length;
  if (loop->statement->condition != nullptr) {
    Items rest;
    for (Value element = take_next(loop); element.given(); element = take_next(loop)) rest.push_back(element);
    loop->length = std::int64_t(rest.size()) + loop->index0 + 1 + (loop->after.given() ? 1 : 0);
    loop->next = 0;
    loop->source = std::move(rest);
  } else {
    loop->length = std::int64_t(loop->source.size());
  }
  return *loop->length;
}

Value Evaluator::loop_attribute(Loop* loop, const std::string& name) {
  if (name == "index0") return Value::of(loop->index0);
  if (name == "index") return Value::of(loop->index0 + 1);
  if (name == "first") return Value::of(loop->index0 == 0);
  if (name == "last") return Value::of(!look_ahead(loop).given());
  if (name == "length") return Value::of(loop_length(loop));
  if (name == "revindex0") return Value::of(loop_length(loop) - loop->index0 - 1);
  if (name == "revindex") return Value::of(loop_length(loop) - loop->index0);
  if (name == "depth0" || name == "depth") return Value::of(std::int64_t{name == "depth"});
  if (name == "previtem") return loop->index0 > 0 ? loop->before : m_.undefined("there is no previous item");
  if (name == "nextitem")
    return look_ahead(loop).given() ? loop->after : m_.undefined("there is no next item");
  if (name == "cycle") return m_.method(&loop_cycle(), Value::of(loop->index0));
  m_.fail(cat("the attribute '", name, "' of loop is not implemented"));
}

// --- expressions

Value Evaluator::eval(const Expr& expr) {
  const Machine::Deeper deeper(&m_);
  m_.charge(1);
  m_.at = expr.at;
  switch (expr.kind) {
    case Expr::Kind::literal: return literal(expr);
    case Expr::Kind::name: return lookup(expr);
    case Expr::Kind::list:
    case Expr::Kind::tuple: return sequence(expr);
    case Expr::Kind::dict: return dict(expr);
    case Expr::Kind::attribute: return attribute_of(expr);
    case Expr::Kind::item:
    case Expr::Kind::slice: return part(expr);
    case Expr::Kind::call:
    case Expr::Kind::filter:
    case Expr::Kind::test: return call(expr);
    case Expr::Kind::negative: return negated(m_, eval_operand(expr, 0));
    case Expr::Kind::positive: return apply(m_, Op::add, Value::of(std::int64_t{0}), eval_operand(expr, 0));
    case Expr::Kind::negation: return Value::of(!truthy(eval_operand(expr, 0)));
    case Expr::Kind::conjunction: {
      const Value left = eval_operand(expr, 0);
      return truthy(left) ? eval_operand(expr, 1) : left;
    }
    case Expr::Kind::disjunction: {
      const Value left = eval_operand(expr, 0);
      return truthy(left) ? left : eval_operand(expr, 1);
    }
    case Expr::Kind::binary: {
      const Value left = eval_operand(expr, 0), right = eval_operand(expr, 1);
      return apply(m_, expr.operators[0], left, right);
    }
    case Expr::Kind::comparison: return comparison(expr);
    case Expr::Kind::concat: return concat(expr);
    case Expr::Kind::conditional: return conditional(expr);
  }
  return {};
}

// The value of one operand; afterwards faults are at the whole expression's place again.
Value Evaluator::eval_operand(const Expr& expr, std::size_t i) {
  const Value value = expr.operands[i] == nullptr ? Value() : eval(*expr.operands[i]);
  m_.at = expr.at;
  return value;
}

Value Evaluator::literal(const Expr& expr) {
  if (const bool* flag = std::get_if<bool>(&expr.literal)) return Value::of(*flag);
  if (const std::int64_t* whole = std::get_if<std::int64_t>(&expr.literal)) return Value::of(*whole);
  if (const double* real = std::get_if<double>(&expr.literal)) return m_.real(*real);
  if (const std::string* text = std::get_if<std::string>(&expr.literal)) return m_.text(*text);
  return Value::none();
}

Value Evaluator::lookup(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    m_.charge(1 + scope->variables.size() / 8);
    for (const auto& [name, value] : scope->variables)
      if (name == expr.name) return value;
  }
  const Native* global = find_global(expr.name);
  return global != nullptr ? Value::of(global) : m_.undefined(cat("'", expr.name, "' is undefined"));
}

Value Evaluator::sequence(const Expr& expr) {
  Items items;
  for (std::size_t i = 0; i < expr.operands.size(); ++i) items.push_back(eval_operand(expr, i));
  return m_.items(expr.kind == Expr::Kind::list ? Kind::list : Kind::tuple, std::move(items));
}

Value Evaluator::dict(const Expr& expr) {
  Entries entries;
  for (std::size_t i = 0; i < expr.operands.size(); i += 2) {
    const Value key = eval_operand(expr, i), value = eval_operand(expr, i + 1);
    put(m_, &entries, key, value);
  }
  return m_.entries(Kind::dict, std::move(entries));
}

Value Evaluator::attribute_of(const Expr& expr) {
  const Value object = eval_operand(expr, 0);
  return object.is(Kind::loop) ? loop_attribute(object.loop, expr.name) : attribute(m_, object, expr.name);
}

Value Evaluator::part(const Expr& expr) {
  const Value object = eval_operand(expr, 0), first = eval_operand(expr, 1);
  if (expr.kind == Expr::Kind::slice) {
    const Value stop = eval_operand(expr, 2), step = eval_operand(expr, 3);
    return slice(m_, object, first, stop, step);
  }
  if (object.is(Kind::loop) && first.is(Kind::text)) return loop_attribute(object.loop, *first.text);
  return item(m_, object, first);
}

Value Evaluator::comparison(const Expr& expr) {
  Value left = eval_operand(expr, 0);
  for (std::size_t i = 1; i < expr.operands.size(); ++i) {
    const Value right = eval_operand(expr, i);
    if (!compare(m_, expr.operators[i - 1], left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Evaluator::concat(const Expr& expr) {
  std::string text;
  for (std::size_t i = 0; i < expr.operands.size(); ++i) {
    const Value value = eval_operand(expr, i);
    m_.append(&text, str(m_, value));
  }
  return m_.text(std::move(text));
}

Value Evaluator::conditional(const Expr& expr) {
  if (truthy(eval_operand(expr, 0))) return eval_operand(expr, 1);
  if (expr.operands[2] == nullptr)
    return m_.undefined("an 'if' without 'else' has no value where it is false");
  return eval_operand(expr, 2);
}

// Calls of functions, methods and macros, and filters and tests, which are calls in another spelling.
Value Evaluator::call(const Expr& expr) {
  const Value callee = eval_operand(expr, 0);
  Arguments given;
  for (const ExprPtr& argument : expr.arguments) given.positional.push_back(eval(*argument));
  for (const auto& [name, argument] : expr.named_arguments) given.named.emplace_back(name, eval(*argument));
  m_.at = expr.at;
  if (expr.native != nullptr) return invoke(m_, *expr.native, callee, given);
  if (callee.is(Kind::macro)) return call_macro(*callee.macro, given);
  if (callee.is(Kind::function)) return invoke(m_, *callee.native, Value(), given);
  if (callee.is(Kind::method)) return invoke(m_, *callee.method->native, callee.method->self, given);
  m_.fail_type("a call", callee);
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& given) {
  std::string text;
  Scope* outer = std::exchange(scope_, new_scope(macro.scope));
  std::string* outer_text = std::exchange(out_, &text);
  bind_parameters(*macro.definition, given);
  run_frame(macro.definition->frame, scope_);
  scope_ = outer;
  out_ = outer_text;
  return m_.text(std::move(text));
}

void Evaluator::bind_parameters(const Stmt& definition, const Arguments& given) {
  const std::vector<Parameter>& parameters = definition.parameters;
  if (given.positional.size() > parameters.size())
    m_.fail(cat("the macro ", definition.text, " takes at most ", parameters.size(), " arguments, is given ",
                given.positional.size()));
  std::vector<bool> missing(parameters.size());
  std::size_t used = given.positional.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    Value value = i < given.positional.size() ? given.positional[i] : Value();
    for (const auto& [named, argument] : given.named)
      if (!value.given() && named == name) {
        value = argument;
        ++used;
      }
    missing[i] = !value.given();
    set(name, missing[i] ? m_.undefined(cat("the parameter '", name, "' was not given")) : value);
  }
  if (used != given.positional.size() + given.named.size())
    m_.fail(cat("the macro ", definition.text, " is given a named argument that it does not take, or twice"));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (missing[i] && parameters[i].fallback != nullptr)
      set(parameters[i].name, eval(*parameters[i].fallback));
}

}  // namespace zt::text::jinja
