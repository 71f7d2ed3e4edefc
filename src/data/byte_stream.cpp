#include "data/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kInput = 256 << 10;  // packed bytes held at a time

// The bytes as they lie on disk or in memory.
class RawFile {
 public:
  explicit RawFile(const fs::path& path) : name_(path.string()) {
    // Without O_NONBLOCK, opening a pipe waits for a writer; regular files don't know the difference.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0)
      throw Error(Blame::data, cat("cannot open ", name_, ": ", std::strerror(errno)),
                  "check the path; relative paths start at the current folder");
    struct stat info = {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd_);
      throw Error(Blame::data, cat(name_, " is not a regular file"));
    }
    size_ = info.st_size;
  }
  RawFile(std::string bytes, std::string name)
      : name_(std::move(name)), memory_(std::move(bytes)), size_(static_cast<std::int64_t>(memory_.size())) {}
  ~RawFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // Fills `into`; fewer bytes only at the end of the file.
  std::size_t read(std::span<char> into) {
    const std::size_t got = fd_ < 0 ? read_memory(into) : read_disk(into);
    done_ += static_cast<std::int64_t>(got);
    return got;
  }
  const std::string& name() const { return name_; }
  std::int64_t size() const { return size_; }
  std::int64_t done() const { return done_; }

 private:
  std::size_t read_memory(std::span<char> into) {
    return memory_.copy(into.data(), into.size(), static_cast<std::size_t>(done_));
  }
  std::size_t read_disk(std::span<char> into) {
    std::size_t got = 0;
    while (got < into.size()) {
      const ssize_t n = ::read(fd_, into.data() + got, into.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Blame::machine, cat("cannot read ", name_, ": ", std::strerror(errno)));
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  std::string name_, memory_;
  int fd_ = -1;
  std::int64_t size_ = 0, done_ = 0;
};

}  // namespace

struct ByteStream::State {
  explicit State(const fs::path& path) : file(path) { begin(); }
  State(std::string bytes, std::string name) : file(std::move(bytes), std::move(name)) { begin(); }
  ~State() {
    if (compressed) inflateEnd(&z);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void begin() {
    refill();
    compressed = input_left() >= 2 && starts_with_magic();
    if (!compressed) return;
    // 15 is the largest window; 16 asks for gzip's header and check sum.
    if (inflateInit2(&z, 15 + 16) != Z_OK) throw Error(Blame::machine, "no memory to unpack gzip data");
  }

  std::size_t input_left() const { return filled - taken; }
  bool starts_with_magic() const { return input[taken] == '\x1f' && input[taken + 1] == '\x8b'; }
  // Keeps what is left and reads more behind it.
  void refill() {
    std::memmove(input.get(), input.get() + taken, input_left());
    filled -= taken;
    taken = 0;
    filled += file.read({input.get() + filled, kInput - filled});
  }
  std::int64_t consumed() const { return file.done() - static_cast<std::int64_t>(input_left()); }

  std::size_t read_plain(std::span<char> into) {
    const std::size_t held = std::min(input_left(), into.size());
    std::copy_n(input.get() + taken, held, into.begin());
    taken += held;
    return held + (held < into.size() ? file.read(into.subspan(held)) : 0);
  }

  std::size_t read_gzip(std::span<char> into) {
    std::size_t got = 0;
    while (got < into.size() && !ended && damage.empty()) got += inflate_some(into.subspan(got));
    if (got == 0 && !damage.empty())
      throw Error(Blame::data, damage, "fetch the file again; `gzip -t` tells whether it is whole");
    return got;
  }

  std::size_t inflate_some(std::span<char> into) {
    if (input_left() == 0) refill();
    z.next_in = reinterpret_cast<Bytef*>(input.get() + taken);
    z.avail_in = static_cast<uInt>(input_left());
    z.next_out = reinterpret_cast<Bytef*>(into.data());
    z.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1 << 30));
    const std::size_t room = z.avail_out;
    const bool dry = z.avail_in == 0;
    const int status = inflate(&z, Z_NO_FLUSH);
    taken = filled - z.avail_in;
    if (status == Z_STREAM_END) {
      next_member();
    } else if (dry && status == Z_BUF_ERROR) {
      damaged("the file is cut");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      damaged(z.msg != nullptr ? z.msg : "it asks for a dictionary");
    }
    return room - z.avail_out;
  }

  // Behind a member stands another, or nothing; zeros are padding, as for gzip(1).
  void next_member() {
    if (input_left() < 2) refill();
    if (input_left() >= 2 && starts_with_magic()) {
      inflateReset(&z);
      return;
    }
    while (input_left() > 0) {
      if (input[taken] != 0) return damaged("what follows the packed data is none");
      if (++taken == filled) refill();
    }
    ended = true;
  }

  void damaged(const std::string& reason) {
    damage = cat("gzip data of ", file.name(), " are damaged at byte ", consumed(), " of ", file.size(), ": ",
                 reason);
  }

  RawFile file;
  std::unique_ptr<char[]> input = std::make_unique_for_overwrite<char[]>(kInput);
  std::size_t taken = 0, filled = 0;  // the unread input
  z_stream z = {};
  bool compressed = false, ended = false;
  std::string damage;
};

ByteStream::ByteStream(const fs::path& path) : state_(std::make_unique<State>(path)) {}
ByteStream::ByteStream(std::string bytes, std::string name)
    : state_(std::make_unique<State>(std::move(bytes), std::move(name))) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;

std::size_t ByteStream::read(std::span<char> into) {
  return state_->compressed ? state_->read_gzip(into) : state_->read_plain(into);
}

const std::string& ByteStream::name() const { return state_->file.name(); }
bool ByteStream::compressed() const { return state_->compressed; }
std::int64_t ByteStream::file_bytes() const { return state_->file.size(); }
std::int64_t ByteStream::file_bytes_read() const { return state_->consumed(); }

}  // namespace zt::data
