#include "data/token_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

// All fields little-endian, as every machine this runs on is.
struct Header {
  char magic[8] = {'Z', 'T', 'T', 'O', 'K', 'E', 'N', 'S'};
  std::uint32_t version = 2;
  std::uint32_t width = 2;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t digest = 0;  // XXH3-64 of the whole file with zeros in this field
  std::uint64_t flags = 0;
  std::int64_t note_bytes = 0;
};
static_assert(sizeof(Header) == 56);

constexpr std::uint64_t kMasked = 1, kOrigins = 2, kContinues = 4, kLast = 8, kAllFlags = 15;

// Each section is padded so that the next one is aligned.
std::int64_t padded(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Where the sections of a file begin, from the end of its header.
struct Sections {
  std::int64_t mask, offsets, origins, notes, end;
  explicit Sections(const Header& h) {
    mask = padded(h.tokens * h.width);
    offsets = mask + ((h.flags & kMasked) != 0 ? padded((h.tokens + 7) / 8) : 0);
    origins = offsets + (h.documents + 1) * 8;
    notes = origins + ((h.flags & kOrigins) != 0 ? h.documents * std::int64_t{sizeof(Origin)} : 0);
    end = notes + padded(h.note_bytes);
  }
};

constexpr const char* kCure = "delete it; it is made again from the text";

std::uint64_t digest_without_itself(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> piece(1 << 20);
  for (bool first = true; in; first = false) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    if (first) std::fill_n(piece.begin() + offsetof(Header, digest), sizeof(Header::digest), '\0');
    XXH3_64bits_update(state.get(), piece.data(), static_cast<std::size_t>(in.gcount()));
  }
  return XXH3_64bits_digest(state.get());
}

// A rename must not overtake the bytes on their way to the disk.
bool synced(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  return done;
}

// Processes on machines that share a folder may have the same number.
std::string name_apart() {
  std::random_device entropy;
  return fmt::format("{:08x}{:08x}", entropy(), entropy());
}

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

fs::path cache_folder() {
  if (const std::string chosen = env("ZEROTRAIN_CACHE"); !chosen.empty()) return chosen;
  if (const std::string shared = env("XDG_CACHE_HOME"); !shared.empty())
    return fs::path(shared) / "zerotrain";
  if (const std::string home = env("HOME"); !home.empty()) return fs::path(home) / ".cache/zerotrain";
  return ".zerotrain-cache";
}

TokenFile::TokenFile(const fs::path& path) : file_(path, Blame::data) {
  const std::string bad = cat("token cache ", path.string(), " is damaged: ");
  const auto bytes = file_.bytes();
  Header h;
  if (bytes.size() < sizeof h) throw Error(Blame::data, bad + "it is shorter than its header", kCure);
  const Header expected;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, expected.magic, sizeof h.magic) != 0 || h.version != expected.version ||
      h.flags > kAllFlags)
    throw Error(Blame::data, bad + "not a token file of version 2", kCure);
  const auto room = static_cast<std::int64_t>(bytes.size()) - static_cast<std::int64_t>(sizeof h);
  const auto possible = [&](std::int64_t count) { return count >= 0 && count <= room; };
  if ((h.width != 2 && h.width != 4) || !possible(h.tokens) || !possible(h.documents) ||
      !possible(h.note_bytes) || Sections(h).end != room)
    throw Error(Blame::data, cat(bad, "its size is ", bytes.size(), " bytes, its header says otherwise"),
                kCure);
  const Sections at(h);
  digest_ = fmt::format("{:016x}", h.digest);
  tokens_ = h.tokens;
  documents_ = h.documents;
  width_ = static_cast<int>(h.width);
  ids_ = bytes.data() + sizeof h;
  offsets_ = ids_ + at.offsets;
  notes_ = {
      (h.flags & kMasked) != 0, (h.flags & kOrigins) != 0, (h.flags & kContinues) != 0,
      (h.flags & kLast) != 0,
      std::string(reinterpret_cast<const char*>(ids_ + at.notes), static_cast<std::size_t>(h.note_bytes))};
  mask_ = notes_.masked ? ids_ + at.mask : nullptr;
  origins_ = notes_.origins ? ids_ + at.origins : nullptr;
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const bool edge = (d == 0 && document_begin(d) != 0) || (d == documents_ && document_begin(d) != tokens_);
    if (edge || document_begin(d) < before || document_begin(d) > tokens_)
      throw Error(Blame::data, cat(bad, "document ", d, " begins at token ", document_begin(d)), kCure);
    before = document_begin(d);
  }
}

void require_intact(const fs::path& path) {
  const TokenFile checked(path);
  const MappedFile file(path, Blame::data);
  Header h;
  std::memcpy(&h, file.bytes().data(), sizeof h);
  if (h.digest != digest_without_itself(path))
    throw Error(Blame::data, cat("token cache ", path.string(), " is damaged: its bytes have changed"),
                kCure);
}

std::int64_t TokenFile::document_begin(std::int64_t document) const {
  std::int64_t begin;
  std::memcpy(&begin, offsets_ + document * 8, sizeof begin);
  return begin;
}

std::int32_t TokenFile::token(std::int64_t at) const {
  if (width_ == 2) {
    std::uint16_t id;
    std::memcpy(&id, ids_ + at * 2, sizeof id);
    return id;
  }
  std::int32_t id;
  std::memcpy(&id, ids_ + at * 4, sizeof id);
  return id;
}

bool TokenFile::trained(std::int64_t at) const {
  return mask_ == nullptr || (std::to_integer<int>(mask_[at / 8]) >> (at % 8) & 1) != 0;
}

Origin TokenFile::origin(std::int64_t document) const {
  Origin origin;
  if (origins_ != nullptr)
    std::memcpy(&origin, origins_ + document * std::int64_t{sizeof origin}, sizeof origin);
  return origin;
}

TokenFileWriter::TokenFileWriter(const fs::path& path, std::int64_t vocabulary)
    : path_(path),
      partial_(cat(path.string(), ".", name_apart(), kPartialEnding)),
      vocabulary_(vocabulary),
      width_(vocabulary <= 65536 ? 2 : 4) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  out_.open(partial_, std::ios::binary | std::ios::trunc);
  put_header({}, 0);
  check();
}

TokenFileWriter::~TokenFileWriter() {
  if (!out_.is_open()) return;
  out_.close();
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void TokenFileWriter::check() const {
  if (!out_)
    throw Error(Blame::machine,
                cat("cannot write token cache ", partial_.string(), ": ", std::strerror(errno)),
                "set ZEROTRAIN_CACHE to a folder that is writable and has space");
}

void TokenFileWriter::put(const void* data, std::int64_t bytes) {
  const char zeros[8] = {};
  out_.write(static_cast<const char*>(data), bytes);
  out_.write(zeros, padded(bytes) - bytes);
}

void TokenFileWriter::add(const std::vector<std::int32_t>& ids, const std::vector<bool>& trained) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary_)
      throw Error(Blame::bug, cat("id ", id, " does not fit a vocabulary of ", vocabulary_));
  }
  if (width_ == 4) {
    out_.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * 4));
  } else {
    constexpr std::size_t piece = 1 << 16;
    for (std::size_t at = 0; at < ids.size(); at += piece) {
      const auto first = ids.begin() + static_cast<std::ptrdiff_t>(at);
      const std::vector<std::uint16_t> narrow(
          first, first + static_cast<std::ptrdiff_t>(std::min(piece, ids.size() - at)));
      out_.write(reinterpret_cast<const char*>(narrow.data()),
                 static_cast<std::streamsize>(narrow.size() * 2));
    }
  }
  mask_.resize(static_cast<std::size_t>(tokens_ + static_cast<std::int64_t>(ids.size()) + 7) / 8);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool yes = trained.empty() || trained[i];
    const auto at = static_cast<std::size_t>(tokens_) + i;
    if (yes) mask_[at / 8] |= static_cast<std::uint8_t>(1 << at % 8);
    masked_ |= !yes;
  }
  tokens_ += static_cast<std::int64_t>(ids.size());
  check();
}

void TokenFileWriter::end_document(const Origin& origin) {
  offsets_.push_back(tokens_);
  origins_.push_back(origin);
  has_origins_ |= origin != Origin{};
}

void TokenFileWriter::finish(TokenFileNotes notes) {
  notes.masked = masked_;
  notes.origins = has_origins_;
  const char zeros[8] = {};
  out_.write(zeros, padded(tokens_ * width_) - tokens_ * width_);
  if (masked_) put(mask_.data(), static_cast<std::int64_t>(mask_.size()));
  put(offsets_.data(), static_cast<std::int64_t>(offsets_.size()) * 8);
  if (has_origins_) put(origins_.data(), static_cast<std::int64_t>(origins_.size() * sizeof(Origin)));
  put(notes.text.data(), static_cast<std::int64_t>(notes.text.size()));
  put_header(notes, 0);
  out_.flush();
  check();
  put_header(notes, digest_without_itself(partial_));
  out_.flush();
  check();
  out_.close();
  std::error_code failed;
  if (synced(partial_))
    fs::rename(partial_, path_, failed);
  else
    failed = std::error_code(errno, std::generic_category());
  if (failed) throw Error(Blame::machine, cat("cannot finish ", path_.string(), ": ", failed.message()));
}

void TokenFileWriter::put_header(const TokenFileNotes& notes, std::uint64_t digest) {
  Header h;
  h.width = static_cast<std::uint32_t>(width_);
  h.tokens = tokens_;
  h.documents = static_cast<std::int64_t>(offsets_.size()) - 1;
  h.digest = digest;
  h.flags = (notes.masked ? kMasked : 0) | (notes.origins ? kOrigins : 0) |
            (notes.continues ? kContinues : 0) | (notes.last ? kLast : 0);
  h.note_bytes = static_cast<std::int64_t>(notes.text.size());
  out_.seekp(0);
  out_.write(reinterpret_cast<const char*>(&h), sizeof h);
}

}  // namespace zt::data
