// A cache of token ids on disk, mapped when read. The format has a page: docs/formats/tokens.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace zt::data {

// Where caches live: $ZEROTRAIN_CACHE, else $XDG_CACHE_HOME/zerotrain, else ~/.cache/zerotrain, else a folder
// .zerotrain-cache here.
std::filesystem::path cache_folder();

// Documents of token ids, one after another. Ids are 2 bytes wide when the vocabulary has at most 65,536
// entries, else 4.
class TokenFile {
 public:
  TokenFile() = default;
  // Maps a file and checks what costs little: magic, version, sizes, document offsets. Throws Error(data).
  explicit TokenFile(const std::filesystem::path& path);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  // Of the whole file, as its header says: 16 hexadecimal digits.
  std::string digest() const { return digest_; }
  std::int64_t document_begin(std::int64_t document) const;  // document_begin(documents()) == tokens()
  std::int32_t token(std::int64_t at) const;

 private:
  MappedFile file_;
  std::int64_t tokens_ = 0, documents_ = 0;
  int width_ = 2;
  std::string digest_;
  const std::byte *ids_ = nullptr, *offsets_ = nullptr;
};

// Throws Error(data) unless the file's bytes have the digest its header names. Reads all of it, in little memory.
void require_intact(const std::filesystem::path& path);

// Writes a token file document by document under a temporary name; finish() makes it appear. Memory: the
// ids given at once and eight bytes a document. Throws Error(machine) when the disk fails it.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, std::int64_t vocabulary);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  void add(const std::vector<std::int32_t>& ids);  // more ids of the open document, all below `vocabulary`
  void end_document();
  void finish();

 private:
  void check() const;
  void put_header(std::uint64_t digest);
  std::filesystem::path path_, partial_;
  std::ofstream out_;
  std::int64_t vocabulary_;
  int width_;
  std::int64_t tokens_ = 0;
  std::vector<std::int64_t> offsets_{0};
};

}  // namespace zt::data
