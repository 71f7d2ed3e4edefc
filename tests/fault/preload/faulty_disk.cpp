// A disk that fails as told, loaded before the system's library (LD_PRELOAD). ZEROTRAIN_TEST_DISK is a list of rules
// "CALL PART ERRNO SKIP;...": when CALL (write, fsync, close, rename, flock, mkdir) is about a path that holds PART, it fails
// with the error number, after SKIP calls that go well. A failing close closes; nothing else is done. A negative number makes the call wait so many seconds and then go well.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Rule {
  char call[16], part[64];
  int error, skip;
  std::atomic<int> seen;
};

constexpr int kMost = 8;
Rule rules[kMost];

int read_rules() {
  const char* at = std::getenv("ZEROTRAIN_TEST_DISK");
  int count = 0;
  for (; at != nullptr && count < kMost; ++count) {
    Rule& r = rules[count];
    if (std::sscanf(at, "%15s %63s %d %d", r.call, r.part, &r.error, &r.skip) != 4) break;
    at = std::strchr(at, ';');
    if (at != nullptr) ++at;
  }
  return count;
}

// Sets errno and says true when a rule wants this call to fail.
bool fails(const char* call, const char* path) {
  static const int count = read_rules();
  for (int i = 0; i < count; ++i) {
    Rule& r = rules[i];
    if (std::strcmp(r.call, call) != 0 || std::strstr(path, r.part) == nullptr) continue;
    if (r.seen++ < r.skip) continue;
    if (r.error < 0) {
      ::sleep(static_cast<unsigned>(-r.error));
      continue;
    }
    errno = r.error;
    return true;
  }
  return false;
}

bool fails(const char* call, int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const int saved = errno;
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  errno = saved;
  if (size < 0) return false;
  path[size] = '\0';
  return fails(call, path);
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t size) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  return fails("write", file) ? -1 : next(file, bytes, size);
}
ssize_t writev(int file, const iovec* parts, int count) {
  static auto* const next = real<ssize_t(int, const iovec*, int)>("writev");
  return fails("write", file) ? -1 : next(file, parts, count);
}
ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails("write", file) ? -1 : next(file, bytes, size, at);
}
ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t at) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return fails("write", file) ? -1 : next(file, bytes, size, at);
}
int fsync(int file) {
  static auto* const next = real<int(int)>("fsync");
  return fails("fsync", file) ? -1 : next(file);
}
int close(int file) {
  static auto* const next = real<int(int)>("close");
  const bool bad = fails("close", file);
  const int error = errno, status = next(file);
  if (!bad) return status;
  errno = error;
  return -1;
}
int rename(const char* from, const char* to) noexcept {
  static auto* const next = real<int(const char*, const char*)>("rename");
  return fails("rename", to) ? -1 : next(from, to);
}
int flock(int file, int operation) noexcept {
  static auto* const next = real<int(int, int)>("flock");
  return fails("flock", file) ? -1 : next(file, operation);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = real<int(const char*, mode_t)>("mkdir");
  return fails("mkdir", path) ? -1 : next(path, mode);
}

}  // extern "C"
