#include "text/jinja_parser.h"

#include "base/text.h"

namespace zt::text::jinja {

using Type = Token::Type;

Template Parser::whole() {
  Template out;
  out.frame.body = statements_until({});
  return out;
}

// Leaves the parser behind the end word, which is the token before.
std::vector<Stmt> Parser::statements_until(Words ends) {
  const Nested nested(this);
  std::vector<Stmt> out;
  while (now().type != Type::end) {
    if (now().type == Type::data) {
      Stmt text;
      text.at = now().at;
      text.text = take().text;
      out.push_back(std::move(text));
    } else if (now().type == Type::print_begin) {
      out.push_back(print());
    } else {
      take();  // {%
      for (const std::string_view end : ends)
        if (now().is_name(end)) return out;
      out.push_back(statement());
    }
  }
  if (ends.size() != 0) refuse(now().at, cat("the template ends before {% ", *(ends.end() - 1), " %}"));
  return out;
}

// The rest of an opening tag, a body, and the `{%` of a closing one.
std::vector<Stmt> Parser::block(Words ends) {
  take_sign(":");  // as in Python
  end_tag("");
  return statements_until(ends);
}

void Parser::end_tag(std::string_view word) {
  if (!word.empty()) expect_word(word);
  if (now().type != Type::tag_end)
    refuse(now().at, cat("expected the end of the tag, got ", describe(now())));
  take();
}

// `safe` changes nothing where it is the last thing before printing; elsewhere its result would make Jinja
// escape what is added to it.
Stmt Parser::print() {
  Stmt out;
  out.kind = Stmt::Kind::print;
  out.at = take().at;
  out.value = tuple(true);
  if (now().type != Type::print_end) refuse(now().at, cat("expected '}}', got ", describe(now())));
  take();
  if (out.value->kind == Kind::filter && out.value->name == "safe" && out.value->arguments.empty() &&
      out.value->named_arguments.empty()) {
    ExprPtr inside = std::move(out.value->operands[0]);
    out.value = std::move(inside);
  }
  return out;
}

Stmt Parser::statement() {
  Stmt out;
  out.at = now().at;
  const std::string tag = expect_name();
  if (tag == "if")
    if_(&out);
  else if (tag == "for")
    for_(&out);
  else if (tag == "set")
    set(&out);
  else if (tag == "macro")
    macro(&out);
  else if (tag == "generation")
    generation(&out);
  else if (tag == "break" || tag == "continue")
    jump(&out, tag == "break" ? Stmt::Kind::break_ : Stmt::Kind::continue_);
  else
    refuse(out.at, cat("the tag '", tag, "' is not implemented, or not expected here"));
  return out;
}

void Parser::if_(Stmt* out) {
  out->kind = Stmt::Kind::if_;
  for (;;) {
    Branch branch;
    branch.condition = tuple(false);
    branch.body = block({"elif", "else", "endif"});
    out->branches.push_back(std::move(branch));
    if (take_word("elif")) continue;
    if (take_word("else")) out->branches.push_back({nullptr, block({"endif"})});
    return end_tag("endif");
  }
}

void Parser::for_(Stmt* out) {
  out->kind = Stmt::Kind::for_;
  out->target = target(false);
  expect_word("in");
  out->value = tuple(false);
  if (take_word("if")) out->condition = expression();
  if (now().is_name("recursive")) refuse(now().at, "'recursive' loops are not implemented");
  ++loops_;
  out->frame.body = block({"else", "endfor"});
  --loops_;
  if (take_word("else")) out->otherwise.body = block({"endfor"});
  end_tag("endfor");
}

void Parser::set(Stmt* out) {
  out->target = target(true);
  if (take_sign("=")) {
    out->kind = Stmt::Kind::set;
    out->value = tuple(true);
    return end_tag("");
  }
  if (now().is_sign("|")) refuse(now().at, "a filter on a block 'set' is not implemented");
  out->kind = Stmt::Kind::set_block;
  out->frame.body = block({"endset"});
  end_tag("endset");
}

void Parser::macro(Stmt* out) {
  out->kind = Stmt::Kind::macro;
  const Place at = now().at;
  out->text = expect_name();
  check_assignable(out->text, at);
  const bool outer = std::exchange(in_macro_, true);
  const int loops = std::exchange(loops_, 0);
  parameters(out);
  out->frame.body = block({"endmacro"});
  end_tag("endmacro");
  in_macro_ = outer;
  loops_ = loops;
}

void Parser::parameters(Stmt* out) {
  expect_sign("(");
  while (!now().is_sign(")")) {
    const Place at = now().at;
    Parameter parameter;
    parameter.name = expect_name();
    check_assignable(parameter.name, at);
    for (const Parameter& other : out->parameters)
      if (other.name == parameter.name) refuse(at, cat("the parameter ", other.name, " is named twice"));
    if (take_sign("="))
      parameter.fallback = expression();
    else if (!out->parameters.empty() && out->parameters.back().fallback != nullptr)
      refuse(at, "a parameter without a default follows one with a default");
    out->parameters.push_back(std::move(parameter));
    if (!take_sign(",")) break;
  }
  expect_sign(")");
}

// Marks answers for a mask of trained tokens. Jinja runs its body as a function of its own.
void Parser::generation(Stmt* out) {
  out->kind = Stmt::Kind::generation;
  const int loops = std::exchange(loops_, 0);
  out->frame.body = block({"endgeneration"});
  end_tag("endgeneration");
  loops_ = loops;
}

void Parser::jump(Stmt* out, Stmt::Kind kind) {
  out->kind = kind;
  if (loops_ == 0) refuse(out->at, "'break' and 'continue' need a loop around them");
  end_tag("");
}

Template parse_template(std::string_view source) {
  Template out = Parser(tokenize(source)).whole();
  resolve_names(&out);
  return out;
}

}  // namespace zt::text::jinja
