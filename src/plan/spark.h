// The memory of a step as one line of text for a terminal.
#pragma once

#include <string>

#include "plan/memory_stack.h"
#include "schedule/op.h"

namespace zt::plan {

struct SparkStyle {
  int width = 72;      // cells, at least 8; a shorter step is stretched to them
  bool ascii = false;  // "_.:-=+*#" instead of block characters, for terminals without UTF-8
};

// Two lines, each with its newline: the cells, and their scale. Every cell is the most that any of its ops holds, so
// that no peak is lost. The lowest cell is the constant part, the highest the peak:
//
//   ▁▁▂▃▄▅▆▇█▇▆▅▄▃▂▁▁
//   ▁ 20.10 GiB always, █ peak 34.30 GiB at backward b79 m0 (#4711 of 8,000 ops)
//
// A list without ops gives the constant part alone. Error(bug) when stack and list differ in length.
std::string spark_line(const MemoryStack& stack, const std::vector<schedule::Op>& ops,
                       const SparkStyle& style = {});

}  // namespace zt::plan
