#include <algorithm>

#include "base/text.h"
#include "text/jinja_builtins.h"
#include "text/jinja_parser.h"

namespace zt::text::jinja {
namespace {

using Type = Token::Type;

// Words with a meaning in expressions; as variables they would only hide a mistake.
bool is_reserved(std::string_view word) {
  static const std::set<std::string_view> kReserved = {"and", "or", "not", "in", "is", "if", "else"};
  return kReserved.contains(word);
}

}  // namespace

const char* spelling(Op op) {
  static constexpr const char* kSpellings[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[int(op)];
}

ExprParser::Nested::Nested(ExprParser* parser) : parser_(parser) {
  if (++parser_->nesting_ <= kMostNesting) return;
  --parser_->nesting_;
  refuse(parser_->now().at, cat("nested deeper than ", kMostNesting, " levels"));
}

bool ExprParser::take_sign(std::string_view sign) {
  if (!now().is_sign(sign)) return false;
  take();
  return true;
}

bool ExprParser::take_word(std::string_view word) {
  if (!now().is_name(word)) return false;
  take();
  return true;
}

void ExprParser::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) refuse(now().at, cat("expected '", sign, "', got ", describe(now())));
}

void ExprParser::expect_word(std::string_view word) {
  if (!take_word(word)) refuse(now().at, cat("expected '", word, "', got ", describe(now())));
}

std::string ExprParser::expect_name() {
  if (now().type != Type::name) refuse(now().at, cat("expected a name, got ", describe(now())));
  return take().text;
}

ExprPtr ExprParser::make(Kind kind, const Place& at) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->at = at;
  return expr;
}

void ExprParser::deepen(Expr* parent, const Expr& child) {
  parent->depth = std::max(parent->depth, child.depth + 1);
  if (parent->depth > kMostDepth)
    refuse(parent->at, cat("an expression deeper than ", kMostDepth, " levels"));
}

void ExprParser::adopt(Expr* parent, ExprPtr child) {
  if (child != nullptr) deepen(parent, *child);
  parent->operands.push_back(std::move(child));
}

ExprPtr ExprParser::with_operands(Kind kind, const Place& at, ExprPtr first, ExprPtr second) {
  ExprPtr expr = make(kind, at);
  adopt(expr.get(), std::move(first));
  if (second != nullptr) adopt(expr.get(), std::move(second));
  return expr;
}

ExprPtr ExprParser::tuple(bool with_conditional, bool may_be_empty) {
  const Place at = now().at;
  const auto ends = [&] {
    return now().type == Type::print_end || now().type == Type::tag_end || now().is_sign(")");
  };
  if (ends() && may_be_empty) return make(Kind::tuple, at);
  if (ends()) refuse(at, cat("expected an expression, got ", describe(now())));
  ExprPtr first = with_conditional ? conditional() : disjunction();
  if (!now().is_sign(",")) return first;
  ExprPtr all = with_operands(Kind::tuple, at, std::move(first), nullptr);
  while (take_sign(",") && !ends()) adopt(all.get(), with_conditional ? conditional() : disjunction());
  return all;
}

ExprPtr ExprParser::conditional() {
  const Nested nested(this);
  ExprPtr value = disjunction();
  while (now().is_name("if")) {
    ExprPtr choice = make(Kind::conditional, take().at);
    adopt(choice.get(), disjunction());
    adopt(choice.get(), std::move(value));
    adopt(choice.get(), take_word("else") ? conditional() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExprPtr ExprParser::disjunction() {
  ExprPtr left = conjunction();
  while (now().is_name("or")) {
    const Place at = take().at;
    left = with_operands(Kind::disjunction, at, std::move(left), conjunction());
  }
  return left;
}

ExprPtr ExprParser::conjunction() {
  ExprPtr left = negation();
  while (now().is_name("and")) {
    const Place at = take().at;
    left = with_operands(Kind::conjunction, at, std::move(left), negation());
  }
  return left;
}

ExprPtr ExprParser::negation() {
  if (!now().is_name("not")) return comparison();
  const Nested nested(this);
  const Place at = take().at;
  return with_operands(Kind::negation, at, negation(), nullptr);
}

bool ExprParser::take_comparison(Op* op) {
  for (const Op sign : {Op::equal, Op::not_equal, Op::less_equal, Op::less, Op::greater_equal, Op::greater}) {
    *op = sign;
    if (take_sign(spelling(sign))) return true;
  }
  *op = Op::in;
  if (take_word("in")) return true;
  *op = Op::not_in;
  return now().is_name("not") && ahead().is_name("in") && take_word("not") && take_word("in");
}

ExprPtr ExprParser::comparison() {
  ExprPtr first = sum();
  const Place at = now().at;
  Op op;
  if (!take_comparison(&op)) return first;
  ExprPtr chain = with_operands(Kind::comparison, at, std::move(first), nullptr);
  do {
    chain->operators.push_back(op);
    adopt(chain.get(), sum());
  } while (take_comparison(&op));
  return chain;
}

ExprPtr ExprParser::left_associative(ExprPtr (ExprParser::*operand)(), std::initializer_list<Op> operators) {
  ExprPtr left = (this->*operand)();
  for (;;) {
    const Place at = now().at;
    const Op* op =
        std::find_if(operators.begin(), operators.end(), [&](Op o) { return take_sign(spelling(o)); });
    if (op == operators.end()) return left;
    left = with_operands(Kind::binary, at, std::move(left), (this->*operand)());
    left->operators = {*op};
  }
}

ExprPtr ExprParser::sum() { return left_associative(&ExprParser::concat, {Op::add, Op::subtract}); }

ExprPtr ExprParser::concat() {
  const Place at = now().at;
  ExprPtr first = product();
  if (!now().is_sign("~")) return first;
  ExprPtr all = with_operands(Kind::concat, at, std::move(first), nullptr);
  while (take_sign("~")) adopt(all.get(), product());
  return all;
}

ExprPtr ExprParser::product() {
  return left_associative(&ExprParser::power, {Op::multiply, Op::divide, Op::floor_divide, Op::modulo});
}

// Unlike Python's, this power associates to the left and binds less than a minus sign before it.
ExprPtr ExprParser::power() {
  ExprPtr left = unary(true);
  while (now().is_sign("**")) {
    const Place at = take().at;
    left = with_operands(Kind::binary, at, std::move(left), unary(true));
    left->operators = {Op::power};
  }
  return left;
}

ExprPtr ExprParser::unary(bool with_filters) {
  const Nested nested(this);
  const Place at = now().at;
  ExprPtr value;
  if (take_sign("-"))
    value = with_operands(Kind::negative, at, unary(false), nullptr);
  else if (take_sign("+"))
    value = with_operands(Kind::positive, at, unary(false), nullptr);
  else
    value = primary();
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExprPtr ExprParser::primary() {
  if (now().type == Type::name) return name_or_constant();
  if (now().type == Type::text) return string();
  if (now().type == Type::integer || now().type == Type::real) return number();
  if (now().is_sign("[")) return list();
  if (now().is_sign("{")) return dict();
  if (!now().is_sign("(")) refuse(now().at, cat("expected an expression, got ", describe(now())));
  take();
  ExprPtr inside = tuple(true, true);
  expect_sign(")");
  return inside;
}

ExprPtr ExprParser::name_or_constant() {
  const Token token = take();
  ExprPtr expr = make(Kind::literal, token.at);
  const std::string& word = token.text;
  if (word == "true" || word == "True") {
    expr->literal = true;
  } else if (word == "false" || word == "False") {
    expr->literal = false;
  } else if (word != "none" && word != "None") {
    if (is_reserved(word)) refuse(token.at, cat("expected an expression, got '", word, "'"));
    const bool special = word == "self" || word == "super";
    if (special || (in_macro_ && (word == "caller" || word == "varargs" || word == "kwargs")))
      refuse(token.at, cat("the variable '", word, "' is not implemented"));
    expr->kind = Kind::name;
    expr->name = word;
  }
  return expr;
}

ExprPtr ExprParser::string() {
  ExprPtr expr = make(Kind::literal, now().at);
  std::string text;
  while (now().type == Type::text) text += take().text;
  expr->literal = std::move(text);
  return expr;
}

ExprPtr ExprParser::number() {
  const Token token = take();
  ExprPtr expr = make(Kind::literal, token.at);
  if (token.type == Type::integer)
    expr->literal = token.integer;
  else
    expr->literal = token.real;
  return expr;
}

ExprPtr ExprParser::list() {
  ExprPtr all = make(Kind::list, take().at);
  while (!now().is_sign("]")) {
    adopt(all.get(), expression());
    if (!take_sign(",")) break;
  }
  expect_sign("]");
  return all;
}

ExprPtr ExprParser::dict() {
  ExprPtr all = make(Kind::dict, take().at);
  while (!now().is_sign("}")) {
    adopt(all.get(), expression());
    expect_sign(":");
    adopt(all.get(), expression());
    if (!take_sign(",")) break;
  }
  expect_sign("}");
  return all;
}

ExprPtr ExprParser::postfix(ExprPtr value) {
  for (;;) {
    if (now().is_sign(".") || now().is_sign("["))
      value = subscript(std::move(value));
    else if (now().is_sign("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExprPtr ExprParser::filters_and_tests(ExprPtr value) {
  for (;;) {
    if (now().is_sign("|"))
      value = filter(std::move(value));
    else if (now().is_name("is"))
      value = test(std::move(value));
    else if (now().is_sign("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExprPtr ExprParser::subscript(ExprPtr object) {
  const Place at = now().at;
  if (take_sign("[")) return slice_or_item(std::move(object));
  expect_sign(".");
  if (now().type == Type::integer) return with_operands(Kind::item, at, std::move(object), number());
  ExprPtr expr = with_operands(Kind::attribute, at, std::move(object), nullptr);
  expr->name = expect_name();
  return expr;
}

ExprPtr ExprParser::slice_part() { return now().is_sign(":") || now().is_sign("]") ? nullptr : expression(); }

ExprPtr ExprParser::slice_or_item(ExprPtr object) {
  const Place at = now().at;
  ExprPtr expr = with_operands(Kind::item, at, std::move(object), nullptr);
  ExprPtr first = slice_part();
  if (now().is_sign(",")) refuse(now().at, "an index of several parts is not implemented");
  if (take_sign(":")) {
    expr->kind = Kind::slice;
    adopt(expr.get(), std::move(first));
    adopt(expr.get(), slice_part());
    adopt(expr.get(), take_sign(":") ? slice_part() : nullptr);
  } else {
    if (first == nullptr) refuse(at, "expected an index between [ and ]");
    adopt(expr.get(), std::move(first));
  }
  expect_sign("]");
  return expr;
}

ExprPtr ExprParser::call(ExprPtr callee) {
  ExprPtr expr = with_operands(Kind::call, now().at, std::move(callee), nullptr);
  arguments(expr.get());
  return expr;
}

void ExprParser::arguments(Expr* owner) {
  expect_sign("(");
  while (!now().is_sign(")")) {
    const Place at = now().at;
    if (now().is_sign("*") || now().is_sign("**"))
      refuse(at, cat("'", now().text, "' before an argument is not implemented"));
    if (now().type == Type::name && ahead().is_sign("=")) {
      const std::string name = take().text;
      take();
      for (const auto& [taken, value] : owner->named_arguments)
        if (taken == name) refuse(at, cat("the argument ", name, " is given twice"));
      ExprPtr value = expression();
      deepen(owner, *value);
      owner->named_arguments.emplace_back(name, std::move(value));
    } else {
      if (!owner->named_arguments.empty()) refuse(at, "an argument without a name follows one with a name");
      ExprPtr value = expression();
      deepen(owner, *value);
      owner->arguments.push_back(std::move(value));
    }
    if (!take_sign(",")) break;
  }
  expect_sign(")");
}

ExprPtr ExprParser::filter(ExprPtr value) {
  expect_sign("|");
  const Place at = now().at;
  ExprPtr expr = with_operands(Kind::filter, at, std::move(value), nullptr);
  expr->name = expect_name();
  expr->native = find_filter(expr->name);
  if (expr->native == nullptr) refuse(at, cat("the filter '", expr->name, "' is not implemented"));
  if (now().is_sign("(")) arguments(expr.get());
  return expr;
}

ExprPtr ExprParser::test(ExprPtr value) {
  const Place at = take().at;
  const bool negated = take_word("not");
  ExprPtr expr = with_operands(Kind::test, at, std::move(value), nullptr);
  expr->name = expect_name();
  expr->native = find_test(expr->name);
  if (expr->native == nullptr) refuse(at, cat("the test '", expr->name, "' is not implemented"));
  const bool value_follows =
      now().type == Type::text || now().type == Type::integer || now().type == Type::real ||
      now().is_sign("[") || now().is_sign("{") ||
      (now().type == Type::name && !now().is_name("else") && !now().is_name("or") && !now().is_name("and"));
  if (now().is_sign("(")) {
    arguments(expr.get());
  } else if (value_follows) {
    if (now().is_name("is")) refuse(now().at, "tests can't be chained with 'is'");
    ExprPtr argument = postfix(primary());
    deepen(expr.get(), *argument);
    expr->arguments.push_back(std::move(argument));
  }
  return negated ? with_operands(Kind::negation, at, std::move(expr), nullptr) : std::move(expr);
}

void ExprParser::check_assignable(const std::string& name, const Place& at) const {
  static const std::set<std::string_view> kFixed = {"true", "false", "none", "True",  "False",
                                                    "None", "loop",  "self", "super", "caller"};
  if (is_reserved(name) || kFixed.contains(name)) refuse(at, cat("'", name, "' can't be set"));
}

ExprPtr ExprParser::target_part(bool with_attributes) {
  const Nested nested(this);
  if (take_sign("(")) {
    ExprPtr inside = target(with_attributes);
    expect_sign(")");
    return inside;
  }
  const Place at = now().at;
  ExprPtr expr = make(Kind::name, at);
  expr->name = expect_name();
  if (with_attributes && take_sign(".")) {
    expr = with_operands(Kind::attribute, at, std::move(expr), nullptr);
    expr->name = expect_name();
  } else {
    check_assignable(expr->name, at);
  }
  return expr;
}

ExprPtr ExprParser::target(bool with_attributes) {
  const Place at = now().at;
  ExprPtr first = target_part(with_attributes);
  if (!now().is_sign(",")) return first;
  ExprPtr all = with_operands(Kind::tuple, at, std::move(first), nullptr);
  while (take_sign(",") && (now().type == Type::name || now().is_sign("(")) && !now().is_name("in"))
    adopt(all.get(), target_part(with_attributes));
  return all;
}

}  // namespace zt::text::jinja
