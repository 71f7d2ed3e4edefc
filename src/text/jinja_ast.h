// A parsed template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_lexer.h"

namespace zt::text::jinja {

struct Native;
struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class Op {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};
const char* spelling(Op op);

struct Expr {
  enum class Kind {
    literal,
    name,
    list,       // operands: the elements
    tuple,      // operands: the elements
    dict,       // operands: key, value, key, value
    attribute,  // operands: the object
    item,       // operands: the object, the key
    slice,      // operands: the object, start, stop, step (null where left out)
    call,       // operands: the callee
    filter,     // operands: the value
    test,       // operands: the value
    negative,
    positive,
    negation,
    conjunction,
    disjunction,
    binary,       // operands: two
    comparison,   // operands: two or more, with one operator between each two
    concat,       // operands: two or more
    conditional,  // operands: the condition, the value if true, the value if false or null
  };
  Kind kind = Kind::literal;
  Place at;
  int depth = 1;     // of the tree below
  std::string name;  // of a variable, attribute, filter or test
  std::variant<std::monostate, bool, std::int64_t, double, std::string> literal;
  std::vector<Op> operators;
  std::vector<ExprPtr> operands;
  // Of calls, filters and tests.
  const Native* native = nullptr;
  std::vector<ExprPtr> arguments;
  std::vector<std::pair<std::string, ExprPtr>> named_arguments;
};

struct Stmt;

// Statements with variables of their own. Jinja decides when it compiles where a name lives: one that is set
// in this frame before anything reads it, and that no outer frame mentions, is undefined until it is set, even
// when the caller passed a variable of that name.
struct Frame {
  std::vector<Stmt> body;
  std::vector<std::string> undefined_at_start;
};

struct Branch {
  ExprPtr condition;  // null: else
  std::vector<Stmt> body;
};

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: undefined when it is not given
};

struct Stmt {
  enum class Kind { text, print, if_, for_, set, set_block, macro, break_, continue_, generation };
  Kind kind = Kind::text;
  Place at;
  std::string text;              // text to print; name of the macro
  ExprPtr target;                // for, set, set_block: a name, an attribute or a tuple of these
  ExprPtr value;                 // print, for, set
  ExprPtr condition;             // for: of `if`
  std::vector<Branch> branches;  // if
  Frame frame, otherwise;        // body of for, set_block, macro, generation; else of for
  std::vector<Parameter> parameters;
};

struct Template {
  Frame frame;
};

// Throws Error(model) with the place of what is wrong or not implemented.
Template parse_template(std::string_view source);
// Fills undefined_at_start of every frame.
void resolve_names(Template* parsed);

}  // namespace zt::text::jinja
