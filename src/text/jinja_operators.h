// Arithmetic and comparison of values.
#pragma once

#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace zt::text::jinja {

// a op b for an arithmetic operator; true and false count as 1 and 0, as in Python.
Value apply(Machine& m, Op op, const Value& a, const Value& b);
bool compare(Machine& m, Op op, const Value& a, const Value& b);
Value negated(Machine& m, const Value& value);

}  // namespace zt::text::jinja
