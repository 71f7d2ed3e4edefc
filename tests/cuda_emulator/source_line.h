// Where in the sources an address of code lies.
#pragma once

#include <array>
#include <string>

namespace zt::emulator {

// "exchange.cpp:88" of the instruction before a return address; inlined functions as "stream.h:40 from exchange.cpp:88".
// Program and offset where there are no line numbers.
std::string source_line(const void* return_address);

// The callers of an entry point. Cheap to take; the names are looked up when asked for.
class CallStack {
 public:
  static CallStack here();
  // "stream.cpp:30 from executor.cpp:88": the innermost `frames` callers outside the emulator.
  std::string text(int frames = 2) const;

 private:
  std::array<void*, 12> frames_{};
  int depth_ = 0;
};

}  // namespace zt::emulator
