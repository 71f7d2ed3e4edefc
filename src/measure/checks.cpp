#include "measure/checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/text.h"
#include "device/arena.h"
#include "measure/rounds.h"

namespace zt::measure {
namespace {

namespace fs = std::filesystem;

// A second program's view of the file: an open file description of its own.
std::string lock_fault(int first, int second) {
  if (::flock(first, LOCK_EX | LOCK_NB) != 0) return std::strerror(errno);
  if (::flock(second, LOCK_EX | LOCK_NB) == 0) return "two programs get the same lock";
  return errno == EWOULDBLOCK ? "" : std::strerror(errno);
}

// Bytes per second; 0 where writing fails.
double write_rate(int file, std::int64_t bytes) {
  constexpr double kLongest = 1;  // seconds
  const std::vector<char> piece(1 << 20, 'z');
  const double start = now();
  std::int64_t written = 0;
  while (written < bytes && now() - start < kLongest) {
    const ssize_t n = ::write(file, piece.data(), piece.size());
    if (n <= 0) return 0;
    written += n;
  }
  if (::fsync(file) != 0) return 0;
  return static_cast<double>(written) / std::max(1e-6, now() - start);
}

FolderCheck try_folder(const fs::path& folder, std::int64_t bytes) {
  FolderCheck check;
  std::string name = (folder / ".zerotrain-doctor-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    check.fault = std::strerror(errno);
    return check;
  }
  const int second = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  ::unlink(name.c_str());
  check.lock_fault = second < 0 ? std::strerror(errno) : lock_fault(file, second);
  check.write = write_rate(file, bytes);
  if (check.write == 0) check.fault = std::strerror(errno);
  if (second >= 0) ::close(second);
  ::close(file);
  return check;
}

bool can_load(const char* library) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

std::int64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

}  // namespace

FolderCheck check_folder(const fs::path& folder, std::int64_t bytes, double patience_seconds) {
  auto promise = std::make_shared<std::promise<FolderCheck>>();
  std::future<FolderCheck> result = promise->get_future();
  std::thread worker([promise, folder, bytes] { promise->set_value(try_folder(folder, bytes)); });
  if (result.wait_for(std::chrono::duration<double>(patience_seconds)) == std::future_status::ready) {
    worker.join();
    return result.get();
  }
  worker.detach();
  FolderCheck check;
  check.answers = false;
  return check;
}

Gpus find_gpus() {
  Gpus gpus;
  gpus.files = fs::exists("/dev/nvidia0") || fs::exists("/dev/dxg");  // the latter under WSL
  for (const char* runtime : {"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
    gpus.library = gpus.library || can_load(runtime);
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return gpus;
  gpus.library = true;
  // CUresult cuInit(unsigned flags), CUresult cuDeviceGetCount(int*): 0 is success. The library stays loaded, for
  // drivers have threads of their own.
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr || init(0) != 0 || count(&gpus.count) != 0) gpus.count = 0;
  return gpus;
}

Limits this_limits() { return {limit_of(RLIMIT_NOFILE), limit_of(RLIMIT_MEMLOCK), limit_of(RLIMIT_CORE)}; }

Swap this_swap() {
  const std::int64_t size = std::max<std::int64_t>(0, device::memory_info("SwapTotal"));
  return {size, size - std::max<std::int64_t>(0, device::memory_info("SwapFree"))};
}

bool may_execute(const fs::path& folder) {
  struct statvfs info = {};
  return ::statvfs(folder.c_str(), &info) != 0 || (info.f_flag & ST_NOEXEC) == 0;
}

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':'))
    if (!folder.empty() && ::access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace zt::measure
