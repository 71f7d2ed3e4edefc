// What a piece of a program says when the emulator stops it.
#pragma once

#include <functional>
#include <string>

namespace zt::emulator {

// Runs `body` in a process of its own and returns what it wrote to standard error; "" if it was not stopped.
std::string stopped_with(const std::function<void()>& body);

// Runs `body` in a process of its own that then ends as a program does; its exit status, and what it said.
struct Ended {
  int status;
  std::string said;
};
Ended ended_with(const std::function<void()>& body);

}  // namespace zt::emulator
