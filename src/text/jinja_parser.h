// Turns tokens into a tree, with the grammar and precedences of Jinja.
// Source: https://jinja.palletsprojects.com/en/stable/templates/#expressions
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"

namespace zt::text::jinja {

// Expressions. Bounded: nesting of the source and depth of the tree.
class ExprParser {
 public:
  explicit ExprParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  using Kind = Expr::Kind;
  static constexpr int kMostNesting = 200, kMostDepth = 400;

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take_sign(std::string_view sign);
  bool take_word(std::string_view word);
  void expect_sign(std::string_view sign);
  void expect_word(std::string_view word);
  std::string expect_name();

  // A tuple without brackets when commas follow. `conditional`: whether `if` belongs to it.
  ExprPtr tuple(bool conditional, bool may_be_empty = false);
  ExprPtr expression() { return conditional(); }
  // A name, name.attribute where allowed, or a tuple of these.
  ExprPtr target(bool with_attributes);
  void check_assignable(const std::string& name, const Place& at) const;

  // Counts nesting of the source while it lives.
  struct Nested {
    explicit Nested(ExprParser* parser);
    ~Nested() { --parser_->nesting_; }
    ExprParser* parser_;
  };

  bool in_macro_ = false;

 private:
  ExprPtr make(Kind kind, const Place& at);
  void adopt(Expr* parent, ExprPtr child);
  void deepen(Expr* parent, const Expr& child);
  ExprPtr with_operands(Kind kind, const Place& at, ExprPtr first, ExprPtr second);

  ExprPtr conditional();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  bool take_comparison(Op* op);
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr left_associative(ExprPtr (ExprParser::*operand)(), std::initializer_list<Op> operators);
  ExprPtr unary(bool with_filters);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr string();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr value);
  ExprPtr filters_and_tests(ExprPtr value);
  ExprPtr subscript(ExprPtr object);
  ExprPtr slice_or_item(ExprPtr object);
  ExprPtr slice_part();
  ExprPtr call(ExprPtr callee);
  void arguments(Expr* owner);
  ExprPtr filter(ExprPtr value);
  ExprPtr test(ExprPtr value);
  ExprPtr target_part(bool with_attributes);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

// Statements and whole templates.
class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;
  Template whole();

 private:
  using Words = std::initializer_list<std::string_view>;
  std::vector<Stmt> statements_until(Words ends);
  std::vector<Stmt> block(Words ends);
  void end_tag(std::string_view word);
  Stmt print();
  Stmt statement();
  void if_(Stmt* out);
  void for_(Stmt* out);
  void set(Stmt* out);
  void macro(Stmt* out);
  void parameters(Stmt* out);
  void generation(Stmt* out);
  void jump(Stmt* out, Stmt::Kind kind);

  int loops_ = 0;  // that `break` could leave
};

}  // namespace zt::text::jinja
