// Takes a module's text apart: file names, variables, kernels with their parameters and bodies. Bodies stay
// text until a kernel is first launched.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interpreter.h"

namespace zt::emulator::ptx {

// One directive, label or instruction of a kernel's body.
struct Statement {
  std::string text;
  int line = 0;  // in the module's text
};

struct SharedVariable {
  std::string name;
  std::uint32_t bytes = 0, align = 1;
  bool dynamic = false;  // extern, sized by the launch
};

struct KernelText {
  KernelInfo info;
  std::map<std::string, Parameter> parameters;  // by name
  std::vector<Statement> body;
  std::vector<SharedVariable> shared;  // those of the module and its own
  std::vector<SharedVariable> local;
};

struct ModuleText {
  std::map<int, std::string> files;  // last part of the path
  std::vector<Variable> variables;
  std::map<std::string, KernelText> kernels;
};

// The size in bytes that a type such as "f32", "b8" or "bf16x2" takes in memory; 0 when it is no type.
std::uint32_t type_bytes(std::string_view type);

ModuleText read_module(std::string_view text);

}  // namespace zt::emulator::ptx
