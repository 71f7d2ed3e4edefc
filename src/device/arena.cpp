#include "device/arena.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace zt::device {
namespace {

std::atomic<std::int64_t> live_bytes{0}, claims{0};

// A "Name:   123 kB" line of a /proc file, in bytes; -1 where it is missing.
std::int64_t proc_value(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!starts_with(line, name + ":")) continue;
    std::int64_t kilobytes = -1;
    std::istringstream(line.substr(name.size() + 1)) >> kilobytes;
    return kilobytes < 0 ? -1 : kilobytes * 1024;
  }
  return -1;
}

}  // namespace

Arena::Arena(std::int64_t bytes, const std::string& purpose) {
  if (bytes < 0) throw Error(Blame::bug, cat(purpose, " was planned with ", bytes, " bytes"));
  if (bytes == 0) return;
  const std::int64_t free_now = available_bytes();
  const std::string hint =
      "a smaller train.micro_batch_size, memory.recompute: full or model.dtype: bfloat16 needs less";
  if (free_now >= 0 && bytes > free_now)
    throw Error(Blame::machine,
                cat("not enough memory: ", purpose, " needs ", human_bytes(bytes), ", ",
                    human_bytes(free_now), " are free"),
                hint);
  void* const raw = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    throw Error(Blame::machine,
                cat("cannot get ", human_bytes(bytes), " for ", purpose, ": ", std::strerror(errno)), hint);
  ::madvise(raw, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // fewer TLB misses; harmless where refused
  const auto unmap = [bytes](std::byte* data) { ::munmap(data, static_cast<std::size_t>(bytes)); };
  *this = Arena(static_cast<std::byte*>(raw), bytes, unmap);
}

Arena::Arena(std::byte* data, std::int64_t bytes, std::function<void(std::byte*)> release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {
  live_bytes += bytes;
  ++claims;
}

Arena::~Arena() {
  if (data_ == nullptr) return;
  release_(data_);
  live_bytes -= bytes_;
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::move(other.release_)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

std::int64_t arena_bytes() { return live_bytes; }
std::int64_t arena_claims() { return claims; }
std::int64_t process_peak_bytes() { return proc_value("/proc/self/status", "VmHWM"); }
std::int64_t memory_info(const std::string& name) { return proc_value("/proc/meminfo", name); }

}  // namespace zt::device
