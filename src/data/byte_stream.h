// The bytes of a file one after another, unpacked where the file is gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace zt::data {

// A plain file, a gzip file (known by its first two bytes; also several members one after another, RFC 1952
// section 2.2), or bytes in memory. Memory: about 1 MiB, whatever the file's size. Move-only.
class ByteStream {
 public:
  // Throws Error(data) when the file isn't there or isn't a regular file.
  explicit ByteStream(const std::filesystem::path& path);
  // The same over bytes in memory; `name` stands for the path in errors.
  ByteStream(std::string bytes, std::string name);
  ~ByteStream();
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;

  // Fills `into`; fewer bytes only at the end. Throws Error(data) that names the byte of the file where gzip
  // data are damaged or cut (what was unpacked before it is delivered first), Error(machine) when reading fails.
  std::size_t read(std::span<char> into);

  const std::string& name() const;
  bool compressed() const;
  // Of the file as it lies on disk, so that their quotient is the progress.
  std::int64_t file_bytes() const;
  std::int64_t file_bytes_read() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zt::data
