// What came out of a conformance case, for scripts/compare_conformance.py: an emulated GPU's words against a real one's.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace zt::emulator {

// Of a case's results: the same bits everywhere, or floats near each other (approximate functions).
enum class Sameness : std::uint8_t { exact, near };

// Appends a line with the running case's name and one with the words in hexadecimal to the file that ZEROTRAIN_CONFORMANCE
// names; without it does nothing.
inline void record(const void* data, std::size_t bytes, Sameness sameness) {
  const char* const name = std::getenv("ZEROTRAIN_CONFORMANCE");
  if (name == nullptr || *name == 0) return;
  std::FILE* const file = std::fopen(name, "a");
  REQUIRE_MESSAGE(file != nullptr, "cannot write ", name);
  std::vector<std::uint32_t> words((bytes + 3) / 4);
  std::memcpy(words.data(), data, bytes);
  std::fprintf(file, "%s %s\n", sameness == Sameness::exact ? "exact" : "near",
               doctest::getContextOptions()->currentTest->m_name);
  for (const std::uint32_t w : words) std::fprintf(file, "%08x ", w);
  std::fprintf(file, "\n");
  REQUIRE_MESSAGE(std::fclose(file) == 0, "cannot write ", name);
}

}  // namespace zt::emulator
