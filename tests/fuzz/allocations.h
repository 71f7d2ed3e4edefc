// What a fuzz target's code holds on the heap, so that an input which asks for more than its size explains is noticed.
#pragma once

#include <cstdint>

namespace zt::fuzz {

// The most bytes that operator new had handed out at one time since this was made, less those it had handed out then.
// One at a time. Memory that C libraries take with malloc is not in it: the fuzzer's limit on the process's is for that.
class Allocations {
 public:
  Allocations();
  std::int64_t peak() const;

 private:
  std::int64_t begin_;
};

}  // namespace zt::fuzz
