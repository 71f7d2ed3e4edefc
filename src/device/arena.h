// One region of a device's memory, claimed once at start. Everything a step touches lies in arenas; nothing
// is allocated after start-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace zt::device {

// Owns bytes of a device. Move-only.
class Arena {
 public:
  Arena() = default;
  // Zeroed host memory, aligned to a page. Throws Error(machine) with the numbers when memory is short.
  Arena(std::int64_t bytes, const std::string& purpose);
  // What another device has given, which `release` gives back.
  Arena(std::byte* data, std::int64_t bytes, std::function<void(std::byte*)> release);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  std::byte* at(std::int64_t offset) const { return data_ + offset; }
  template <typename T>
  T* as(std::int64_t offset = 0) const {
    return reinterpret_cast<T*>(data_ + offset);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::function<void(std::byte*)> release_;
};

// Bytes that all arenas of this process hold now, and how often one was claimed.
std::int64_t arena_bytes();
std::int64_t arena_claims();
// Memory this process has used at its peak, as the system counts it (VmHWM).
std::int64_t process_peak_bytes();
// Of the machine's memory, by a name of /proc/meminfo ("MemTotal"); -1 where the system does not say.
std::int64_t memory_info(const std::string& name);
// What the system could still give, or -1 where it does not say.
inline std::int64_t available_bytes() { return memory_info("MemAvailable"); }

}  // namespace zt::device
