#include "data/token_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace fs = std::filesystem;
namespace {

// All fields little-endian, as every machine this runs on is.
struct Header {
  char magic[8] = {'Z', 'T', 'T', 'O', 'K', 'E', 'N', 'S'};
  std::uint32_t version = 1;
  std::uint32_t width = 2;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t digest = 0;  // XXH3-64 of the whole file with zeros in this field
};
static_assert(sizeof(Header) == 40);

// Ids are padded so that the offsets behind them are aligned.
std::int64_t ids_bytes(std::int64_t tokens, std::int64_t width) { return (tokens * width + 7) / 8 * 8; }

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
  if (std::memcmp(h.magic, expected.magic, sizeof h.magic) != 0 || h.version != expected.version)
    throw Error(Blame::data, bad + "not a token file of version 1", kCure);
  const auto room = static_cast<std::int64_t>(bytes.size()) - static_cast<std::int64_t>(sizeof h);
  if ((h.width != 2 && h.width != 4) || h.tokens < 0 || h.documents < 0 || h.tokens > room ||
      h.documents > room || ids_bytes(h.tokens, h.width) + (h.documents + 1) * 8 != room)
    throw Error(Blame::data, cat(bad, "its size is ", bytes.size(), " bytes, its header says otherwise"),
                kCure);
  digest_ = fmt::format("{:016x}", h.digest);
  tokens_ = h.tokens;
  documents_ = h.documents;
  width_ = static_cast<int>(h.width);
  ids_ = bytes.data() + sizeof h;
  offsets_ = ids_ + ids_bytes(tokens_, width_);
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

TokenFileWriter::TokenFileWriter(const fs::path& path, std::int64_t vocabulary)
    : path_(path),
      partial_(cat(path.string(), ".", ::getpid(), ".partial")),
      vocabulary_(vocabulary),
      width_(vocabulary <= 65536 ? 2 : 4) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  out_.open(partial_, std::ios::binary | std::ios::trunc);
  put_header(0);
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

void TokenFileWriter::add(const std::vector<std::int32_t>& ids) {
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
  tokens_ += static_cast<std::int64_t>(ids.size());
  check();
}

void TokenFileWriter::end_document() { offsets_.push_back(tokens_); }

void TokenFileWriter::finish() {
  const char zeros[8] = {};
  out_.write(zeros, ids_bytes(tokens_, width_) - tokens_ * width_);
  out_.write(reinterpret_cast<const char*>(offsets_.data()),
             static_cast<std::streamsize>(offsets_.size() * 8));
  put_header(0);
  out_.flush();
  check();
  put_header(digest_without_itself(partial_));
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

void TokenFileWriter::put_header(std::uint64_t digest) {
  Header h;
  h.width = static_cast<std::uint32_t>(width_);
  h.tokens = tokens_;
  h.documents = static_cast<std::int64_t>(offsets_.size()) - 1;
  h.digest = digest;
  out_.seekp(0);
  out_.write(reinterpret_cast<const char*>(&h), sizeof h);
}

}  // namespace zt::data
