// What fills the memory during a step, as an SVG.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/memory_stack.h"
#include "plan/simulator.h"

namespace zt::plan {

struct MemoryPicture {
  std::string title = "Memory of one step";
  std::string id = "memory";         // of its elements: differs between the pictures of one page
  std::int64_t device_bytes = 0;     // what the device offers, drawn as a line; 0: unlimited or unknown
  const Simulation* time = nullptr;  // where given, x is time; else the ops of the list, one after another
};

// A file of its own, which also may stand inside an HTML page: valid XML, text in <title> and <desc> for those who
// cannot see it, light or dark as the reader's system is, as wide as its place (from 320 pixels on) with letters of
// constant size. Areas are stacked from zero. It has 1,200 columns; a column with several ops shows the one with the
// most bytes, so that no peak is lost and the picture of a million ops is as large as that of a thousand.
// With time, the compute lane is the clock: the bytes of a compute op, and those of the ops of other lanes that follow
// it in the list, are drawn from its start to the next compute op's.
std::string memory_svg(const MemoryStack& stack, const schedule::Schedule& list,
                       const MemoryPicture& picture = {});

}  // namespace zt::plan
