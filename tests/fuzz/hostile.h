// Promises that every reader of files keeps, whatever the file holds.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "allocations.h"
#include "base/error.h"
#include "fuzz.h"
#include "text/utf8.h"

namespace zt::fuzz {

// What reading may hold at a time: so many bytes, and so many for each byte of input.
struct Bound {
  std::int64_t floor, factor;
};

// An error is of this blame and says something that a terminal shows as it is.
inline void check_error(const Error& e, Blame blame) {
  if (e.blame() != blame) std::fprintf(stderr, "blame is %s: %s\n", name(e.blame()), e.what());
  FUZZ_CHECK(e.blame() == blame);
  FUZZ_CHECK(!e.problem().empty());
  const std::string_view text = e.what();
  FUZZ_CHECK(!text::first_invalid_utf8(text));
  const bool plain = std::ranges::none_of(
      text, [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F; });
  if (!plain) std::fprintf(stderr, "control characters in: %s\n", e.what());
  FUZZ_CHECK(plain);
}

// Does `read` on an input of `size` bytes. It ends well or with an Error of `blame`; anything else ends the program.
// Returns whether it ended well.
template <typename Read>
bool survives(std::size_t size, Bound bound, Blame blame, Read read) {
  const Allocations held;
  bool good = false;
  try {
    read();
    good = true;
  } catch (const Error& e) {
    check_error(e, blame);
  }
  const std::int64_t allowed = bound.floor + bound.factor * static_cast<std::int64_t>(size);
  if (held.peak() > allowed)
    std::fprintf(stderr, "%lld bytes were held for %zu of input\n", static_cast<long long>(held.peak()),
                 size);
  FUZZ_CHECK(held.peak() <= allowed);
  return good;
}

// A folder in memory that is gone with the program; what a program left that died is removed by the next one.
class Folder {
 public:
  Folder() {
    const std::string place = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    const std::string prefix = "zerotrain-fuzz-";
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
      const std::string found = entry.path().filename();
      if (!found.starts_with(prefix)) continue;
      const int process = std::atoi(found.c_str() + prefix.size());
      std::error_code ignored;
      if (process > 0 && ::kill(process, 0) != 0) std::filesystem::remove_all(entry.path(), ignored);
    }
    std::string name = place + "/" + prefix + std::to_string(::getpid()) + "-XXXXXX";
    FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream out(path_ / name, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    FUZZ_CHECK(bool(out));
    return path_ / name;
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(entry.path());
  }

 private:
  std::filesystem::path path_;
};

// Made at the first input, removed when the program ends.
inline const Folder& scratch() {
  static const Folder folder;
  return folder;
}

// The parts of an input between bytes 0xFF, which no UTF-8 holds; at most `most`, the last one takes the rest.
inline std::vector<std::string> parts(const std::string& bytes, std::size_t most) {
  std::vector<std::string> out(1);
  for (const char c : bytes) {
    if (c == '\xff' && out.size() < most)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

}  // namespace zt::fuzz
