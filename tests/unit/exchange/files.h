// Safetensors files made by hand, faults included.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace zt::test {

inline std::string length_bytes(std::uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += char(n >> (8 * i) & 0xFF);
  return out;
}

// A file of this header and data; the length is the header's own.
inline std::string file_of(const std::string& header, const std::string& data) {
  return length_bytes(header.size()) + header + data;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The text of the Error(blame) that `f` throws; another outcome is told in words.
template <typename F>
std::string error_of(Blame blame, F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.blame() == blame ? e.what() : std::string("other blame ") + name(e.blame()) + ": " + e.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace zt::test
