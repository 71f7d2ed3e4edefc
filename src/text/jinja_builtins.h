// Filters, tests, methods and global functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace zt::text::jinja {

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A function written here. `parameters` lists its names: "old new count?", `?` for those that may be left out,
// a first "/" when none can be passed by name. Parameters "*" take everything as it comes.
struct Native {
  const char* name;
  const char* parameters;
  // `self` is what a filter, test or method is applied to. Arguments left out are absent.
  Value (*run)(Machine& m, const Value& self, const Items& given) = nullptr;
  Value (*run_any)(Machine& m, const Value& self, const Arguments& given) = nullptr;
};

// Binds the arguments to the parameters, or refuses them as Python does, and runs.
Value invoke(Machine& m, const Native& native, const Value& self, const Arguments& given);

// All give null for what is not implemented.
const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);
const Native* find_method(Kind kind, std::string_view name);
const Native* find_global(std::string_view name);
// loop.cycle; its `self` is the loop's index0.
const Native& loop_cycle();

}  // namespace zt::text::jinja
