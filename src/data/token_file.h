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

// Where a document came from: rows are numbered from 0 within their source, files too, lines from 1 within their file.
struct Origin {
  std::int64_t row = -1;
  std::int32_t file = -1;
  std::uint32_t line = 0;  // of the row's start
  friend bool operator==(const Origin&, const Origin&) = default;
};

// What a token file says about itself besides its ids.
struct TokenFileNotes {
  bool masked = false;     // some tokens are not trained
  bool origins = false;    // each document has its Origin
  bool continues = false;  // the first document is the rest of the one that ends the file before it
  bool last = false;       // no file of the same source comes after it
  std::string text;        // for whoever wrote it
};

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
  bool trained(std::int64_t at) const;
  Origin origin(std::int64_t document) const;
  const TokenFileNotes& notes() const { return notes_; }

 private:
  MappedFile file_;
  std::int64_t tokens_ = 0, documents_ = 0;
  int width_ = 2;
  std::string digest_;
  TokenFileNotes notes_;
  const std::byte *ids_ = nullptr, *mask_ = nullptr, *offsets_ = nullptr, *origins_ = nullptr;
};

// Throws Error(data) unless the file's bytes have the digest its header names. Reads all of it, in little memory.
void require_intact(const std::filesystem::path& path);

// The ending of the temporary names of unfinished files.
constexpr const char* kPartialEnding = ".partial";

// Writes a token file document by document under a temporary name; finish() makes it appear. Memory: the
// ids given at once, a bit a token where some are not trained, and 24 bytes a document. Throws Error(machine) when
// the disk fails it.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, std::int64_t vocabulary);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  // More ids of the open document, all below `vocabulary`; `trained` as long as `ids`, or empty: all are.
  void add(const std::vector<std::int32_t>& ids, const std::vector<bool>& trained = {});
  void end_document(const Origin& origin = {});
  // `masked` and `origins` of the notes follow what was added.
  void finish(TokenFileNotes notes = {});

 private:
  void check() const;
  void put(const void* data, std::int64_t bytes);
  void put_header(const TokenFileNotes& notes, std::uint64_t digest);
  std::filesystem::path path_, partial_;
  std::ofstream out_;
  std::int64_t vocabulary_;
  int width_;
  std::int64_t tokens_ = 0;
  bool masked_ = false, has_origins_ = false;
  std::vector<std::uint8_t> mask_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<Origin> origins_;
};

}  // namespace zt::data
