#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "exchange/safetensors.h"
#include "exchange/words.h"

namespace zt::exchange {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxWrite = std::size_t{1} << 30;  // some systems write no more than 2 GiB in one call

[[noreturn]] void fail(const std::string& doing, const fs::path& path) {
  throw Error(Blame::machine, cat("cannot ", doing, " ", path.string(), ": ", std::strerror(errno)),
              "is the folder writable, and is there space on the disk?");
}

const char* stored_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "F32";
    case Dtype::bf16: return "BF16";
    case Dtype::f16: return "F16";
    case Dtype::i32: return "I32";
  }
  throw Error(Blame::bug, "unknown dtype");
}

std::string little_endian(std::uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += char(value >> (8 * i) & 0xFF);
  return out;
}

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int raw = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (raw < 0) fail("open folder", folder);
  const int status = ::fsync(raw);
  ::close(raw);
  if (status != 0) fail("sync folder", folder);
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const fs::path& path, std::vector<NamedTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), partial_(fs::path(path).concat(".partial")) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t at = 0;
  for (const NamedTensor& t : tensors) {
    if (!index_.emplace(t.name, ranges_.size()).second)
      throw Error(Blame::bug, cat("tensor ", shown(t.name), " was to be written twice to ", path.string()));
    const std::int64_t end = at + elements_of(t.shape) * size_of(t.dtype);
    header[t.name] = {{"dtype", stored_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, end}}};
    ranges_.push_back({t.name, at, end});
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned, as other writers do
  text.insert(0, little_endian(text.size()));
  for (Range& range : ranges_) {
    range.next += std::int64_t(text.size());
    range.end += std::int64_t(text.size());
  }
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create", partial_);
  try {
    write_at(0, std::as_bytes(std::span(text)));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(partial_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!finished_) ::unlink(partial_.c_str());
}

void SafetensorsWriter::write_at(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWrite), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", partial_);
    bytes = bytes.subspan(std::size_t(n));
    offset += n;
  }
}

void SafetensorsWriter::append(const std::string& name, std::span<const std::byte> piece) {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw Error(Blame::bug, cat("tensor ", shown(name), " was not announced for ", path_.string()));
  Range& range = ranges_[found->second];
  if (std::int64_t(piece.size()) > range.end - range.next)
    throw Error(Blame::bug, cat("tensor ", shown(name), " of ", path_.string(), " got ", piece.size(),
                                " bytes where ", range.end - range.next, " were left"));
  write_at(range.next, piece);
  range.next += std::int64_t(piece.size());
}

void SafetensorsWriter::finish() {
  for (const Range& range : ranges_)
    if (range.next != range.end)
      throw Error(Blame::bug, cat("tensor ", shown(range.name), " of ", path_.string(), " lacks ",
                                  range.end - range.next, " bytes"));
  if (::fsync(descriptor_) != 0) fail("sync", partial_);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close", partial_);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename to", path_);
  finished_ = true;
  sync_folder_of(path_);
}

}  // namespace zt::exchange
