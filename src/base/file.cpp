#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/text.h"

namespace zt {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(Blame blame, const std::string& doing, const fs::path& path, const std::string& hint) {
  throw Error(blame, cat("cannot ", doing, " ", path.string(), ": ", std::strerror(errno)), hint);
}

Descriptor open_for_reading(const fs::path& path, Blame blame) {
  // Without O_NONBLOCK, opening a pipe waits for a writer; regular files don't know the difference.
  const int raw = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (raw < 0) fail(blame, "open", path, "check the path; relative paths start at the current folder");
  return Descriptor(raw);
}

std::int64_t size_of(const Descriptor& file, const fs::path& path, Blame blame) {
  struct stat info = {};
  if (::fstat(file.raw(), &info) != 0) fail(blame, "examine", path, "");
  if (!S_ISREG(info.st_mode)) throw Error(blame, cat(path.string(), " is not a regular file"));
  return info.st_size;
}

// Removes the file when a write stops half-way.
class Partial {
 public:
  explicit Partial(const fs::path& final_path) : path_(fs::path(final_path).concat(".partial")) {}
  ~Partial() {
    if (!complete_) ::unlink(path_.c_str());
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  const fs::path& path() const { return path_; }
  void complete() { complete_ = true; }

 private:
  fs::path path_;
  bool complete_ = false;
};

void sync_folder(const fs::path& folder) {
  const Descriptor handle(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.raw() < 0 || ::fsync(handle.raw()) != 0) fail(Blame::machine, "sync folder", folder, "");
}

}  // namespace

std::string read_text_file(const fs::path& path, Blame blame, std::int64_t limit) {
  const Descriptor file = open_for_reading(path, blame);
  const std::int64_t size = size_of(file, path, blame);
  if (size > limit)
    throw Error(blame, cat(path.string(), " has ", size, " bytes; at most ", limit, " are read here"));
  std::string text(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(file.raw(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(blame, "read", path, "");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return text;
}

bool write_all(int raw, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(raw, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

static void write_all(const Descriptor& file, std::string_view bytes, const fs::path& path,
                      const std::string& hint) {
  if (!write_all(file.raw(), bytes)) fail(Blame::machine, "write", path, hint);
}

void write_file(const fs::path& path, std::string_view bytes) {
  const std::string hint = "is the folder writable, and is there space on the disk?";
  std::error_code ignored;
  if (const fs::file_status there = fs::symlink_status(path, ignored);
      fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there)) {
    // Opening must not wait for somebody who reads from a pipe; writing may.
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644));
    if (file.raw() < 0 || ::fcntl(file.raw(), F_SETFL, 0) != 0) fail(Blame::machine, "write", path, hint);
    write_all(file, bytes, path, hint);
    if (::close(file.release()) != 0) fail(Blame::machine, "close", path, hint);
    return;
  }
  Partial partial(path);
  Descriptor file(::open(partial.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.raw() < 0) fail(Blame::machine, "create", partial.path(), hint);
  write_all(file, bytes, partial.path(), hint);
  if (::fsync(file.raw()) != 0) fail(Blame::machine, "sync", partial.path(), hint);
  if (::close(file.release()) != 0) fail(Blame::machine, "close", partial.path(), hint);
  if (::rename(partial.path().c_str(), path.c_str()) != 0) fail(Blame::machine, "rename to", path, hint);
  partial.complete();
  sync_folder(path.parent_path());
}

MappedFile::MappedFile(const fs::path& path, Blame blame) {
  const Descriptor file = open_for_reading(path, blame);
  size_ = static_cast<std::size_t>(size_of(file, path, blame));
  if (size_ == 0) return;
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.raw(), 0);
  if (mapped == MAP_FAILED) fail(Blame::machine, "map", path, "");
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

static std::string as_hex(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view bytes) { return as_hex(XXH3_128bits(bytes.data(), bytes.size())); }

std::string digest_of_file(const fs::path& path, Blame blame) {
  const Descriptor file = open_for_reading(path, blame);
  size_of(file, path, blame);  // refuses what is not a regular file: a device may have no end
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> piece(1 << 20);
  for (;;) {
    const ssize_t n = ::read(file.raw(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(blame, "read", path, "");
    if (n == 0) return as_hex(XXH3_128bits_digest(state.get()));
    XXH3_128bits_update(state.get(), piece.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace zt
