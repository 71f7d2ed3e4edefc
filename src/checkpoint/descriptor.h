// An open file of the system.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"

namespace zt::checkpoint {

// Owns a descriptor. Move-only; the destructor never throws.
class Descriptor {
 public:
  explicit Descriptor(int raw) : raw_(raw) {}
  ~Descriptor() {
    if (raw_ >= 0) ::close(raw_);
  }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  int raw() const { return raw_; }

 private:
  int raw_;
};

// Throws with the system's reason (errno).
[[noreturn]] void system_error(Blame blame, const std::string& doing, const std::filesystem::path& path,
                               const std::string& hint = "");
// A regular file, opened for reading.
Descriptor open_to_read(const std::filesystem::path& file, Blame blame);
// Waits until the disk holds the file's bytes, or the folder's names.
void sync_file(const std::filesystem::path& file);
void sync_folder(const std::filesystem::path& folder);

}  // namespace zt::checkpoint
