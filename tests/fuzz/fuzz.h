// What every fuzz target has: the entry point that libFuzzer and the replay of the corpus call, and a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A broken promise ends the program, so that the fuzzer keeps the input.
#define FUZZ_CHECK(promise)                                                              \
  do {                                                                                   \
    if (!(promise)) {                                                                    \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #promise); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

namespace zt::fuzz {

// The first byte of an input chooses among cases, the rest is what is read.
struct Input {
  unsigned choice = 0;
  std::string bytes;
};

inline Input input_of(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return {};
  return {data[0], std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
}

}  // namespace zt::fuzz
