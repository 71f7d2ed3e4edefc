// How fast files are written to a folder's disk and read back from it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "measure/calibrate.h"
#include "measure/rounds.h"

namespace zt::measure {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20;

// A file without a name: it is gone when it is closed, also when the process is killed.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& folder) : folder_(folder.empty() ? "." : folder) {
    std::string name = (folder_ / "zerotrain-disk-XXXXXX").string();
    raw_ = ::mkstemp(name.data());
    if (raw_ < 0) fail("make a file in");
    ::unlink(name.c_str());
  }
  ~Scratch() { ::close(raw_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void write(const std::vector<char>& piece, std::int64_t bytes) {
    for (std::int64_t left = bytes; left > 0;) {
      const auto want = static_cast<std::size_t>(std::min<std::int64_t>(left, kPiece));
      const ssize_t written = ::write(raw_, piece.data(), want);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("write to");
      left -= written;
    }
    if (::fsync(raw_) != 0) fail("sync a file in");
  }
  void read(std::vector<char>& piece, std::int64_t bytes) {
    ::posix_fadvise(raw_, 0, 0, POSIX_FADV_DONTNEED);  // from the disk, not from memory
    if (::lseek(raw_, 0, SEEK_SET) != 0) fail("read a file in");
    for (std::int64_t left = bytes; left > 0;) {
      const ssize_t got = ::read(raw_, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("read a file in");
      left -= got;
    }
  }

 private:
  [[noreturn]] void fail(const char* doing) const {
    throw Error(Blame::machine, cat("cannot ", doing, " ", folder_.string(), ": ", std::strerror(errno)),
                "the cluster file's folder must exist, be writable and have some hundred MB of space; --to "
                "names another");
  }
  std::filesystem::path folder_;
  int raw_ = -1;
};

}  // namespace

DiskRates measure_disk(const std::filesystem::path& folder, std::int64_t bytes) {
  std::vector<char> piece(static_cast<std::size_t>(kPiece), 'z');
  Scratch file(folder);
  const double size = static_cast<double>(bytes), start = now();
  file.write(piece, bytes);
  const double written = now();
  file.read(piece, bytes);
  return {size / (written - start), size / (now() - written)};
}

}  // namespace zt::measure
