// Runs a parsed template.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"
#include "text/jinja_value.h"

namespace zt::text::jinja {

// The variables of one run of a frame. Lives as long as the evaluator, as macros remember where they were made.
struct Scope {
  const Scope* outer = nullptr;
  std::vector<std::pair<std::string, Value>> variables;
};

struct Macro {
  const Stmt* definition;
  const Scope* scope;
};

// A running `for`. Elements are taken one by one, because its filter may depend on what the body did; only
// `last`, `nextitem` and `length` look ahead, as in Jinja.
struct Loop {
  const Stmt* statement = nullptr;
  const Scope* outer = nullptr;
  Items source;
  std::size_t next = 0;
  Value before, current, after;  // absent: there is none, or (after) it was not looked at
  std::int64_t index0 = -1;
  std::optional<std::int64_t> length;
};

class Evaluator {
 public:
  Evaluator(const Jinja::Variables& variables, const JinjaLimits& limits);
  std::string run(const Template& parsed);

 private:
  enum class Flow { on, stop_loop, next_round };

  Value from_json(const Jinja::Variables& json);

  // Statements.
  Flow run(const std::vector<Stmt>& body);
  Flow run(const Stmt& stmt);
  Flow run_frame(const Frame& frame, Scope* scope);
  Flow run_if(const Stmt& stmt);
  Flow run_for(const Stmt& stmt);
  Flow run_set_block(const Stmt& stmt);
  Scope* new_scope(const Scope* outer);
  void set(const std::string& name, const Value& value);
  void assign(const Expr& target, const Value& value);
  void assign_attribute(const Expr& target, const Value& value);

  Value take_next(Loop* loop);
  bool accepts(const Loop& loop, const Value& element);
  const Value& look_ahead(Loop* loop);
  std::int64_t loop_length(Loop* loop);
  Value loop_attribute(Loop* loop, const std::string& name);

  // Expressions.
  Value eval(const Expr& expr);
  Value eval_operand(const Expr& expr, std::size_t i);
  Value literal(const Expr& expr);
  Value lookup(const Expr& expr);
  Value sequence(const Expr& expr);
  Value dict(const Expr& expr);
  Value attribute_of(const Expr& expr);
  Value part(const Expr& expr);
  Value comparison(const Expr& expr);
  Value concat(const Expr& expr);
  Value conditional(const Expr& expr);
  Value call(const Expr& expr);
  Value call_macro(const Macro& macro, const Arguments& given);
  void bind_parameters(const Stmt& definition, const Arguments& given);

  Machine m_;
  const Scope* globals_ = nullptr;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  std::deque<Scope> scopes_;
  std::deque<Loop> loops_;
  std::deque<Macro> macros_;
};

}  // namespace zt::text::jinja
