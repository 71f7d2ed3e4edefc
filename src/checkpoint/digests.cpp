#include "checkpoint/digests.h"

#include <xxhash.h>

#include <cerrno>
#include <memory>
#include <new>

#include "base/text.h"
#include "checkpoint/descriptor.h"

namespace zt::checkpoint {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) {
    if (!state_) throw std::bad_alloc();
    restart();
  }
  void restart() { XXH3_128bits_reset(state_.get()); }
  void add(const char* bytes, std::int64_t count) {
    XXH3_128bits_update(state_.get(), bytes, std::size_t(count));
  }
  std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// Feeds a stream of bytes to the regions it passes.
class RegionHasher {
 public:
  explicit RegionHasher(const std::vector<Region>& regions) : regions_(regions) {}

  void add(std::int64_t at, const char* bytes, std::int64_t count) {
    while (done_.size() < regions_.size()) {
      const Region& region = regions_[done_.size()];
      const std::int64_t from = std::max(region.begin, at), to = std::min(region.end, at + count);
      if (from < to) hasher_.add(bytes + (from - at), to - from);
      if (region.end > at + count) return;
      next();
    }
  }
  std::vector<std::string> finish() {
    while (done_.size() < regions_.size()) next();
    return std::move(done_);
  }

 private:
  void next() {
    done_.push_back(hasher_.text());
    hasher_.restart();
  }
  const std::vector<Region>& regions_;
  std::vector<std::string> done_;
  Hasher hasher_;
};

}  // namespace

FileDigests digests_of_file(const std::filesystem::path& file, const std::vector<Region>& regions,
                            Blame blame) {
  const Descriptor descriptor = open_to_read(file, blame);
  Hasher whole;
  RegionHasher parts(regions);
  const auto buffer = std::make_unique<char[]>(kBuffer);
  std::int64_t at = 0;
  for (;;) {
    const ssize_t n = ::read(descriptor.raw(), buffer.get(), kBuffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) system_error(blame, "read", file);
    if (n == 0) break;
    whole.add(buffer.get(), n);
    parts.add(at, buffer.get(), n);
    at += n;
  }
  return {at, whole.text(), parts.finish()};
}

}  // namespace zt::checkpoint
