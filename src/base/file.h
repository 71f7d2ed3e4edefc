// Files as people's inputs and outputs: every failure names the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace zt {

// The whole file. `blame` says whose fault a missing file is; files over `limit` bytes are refused before
// reading.
std::string read_text_file(const std::filesystem::path& path, Blame blame,
                           std::int64_t limit = std::int64_t{1} << 30);

// A file is complete or absent: written under a temporary name beside it, synced to disk, then renamed. Links, devices
// and pipes stay what they are: the bytes go through them.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// A read-only memory mapping of a whole file. Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const std::filesystem::path& path, Blame blame);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// XXH3, 128 bits as 32 hexadecimal digits, of a whole file or of bytes.
std::string digest_of(std::string_view bytes);
std::string digest_of_file(const std::filesystem::path& path, Blame blame);

}  // namespace zt
