// Sources as people have them: a file or a folder of files, packed or not; raw text cut into documents and into a
// training and a validation part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "recipe/settings.h"

namespace zt::data {

struct TextFile {
  std::filesystem::path path;
  std::string separator;  // between its documents; empty: it is one
};

// The files of a source in the order of their names: a folder stands for those in it with an ending of its format
// (.txt for text, else .json, .jsonl and .ndjson; each also with .gz). Adds to `problems` what isn't there, is no file
// (a pipe, a device), and a folder without any such file.
std::vector<TextFile> files_of(const recipe::Source& source, Problems& problems);
// The files of all sources. Throws one Error(data) for all problems.
std::vector<TextFile> files_of(const std::vector<recipe::Source>& sources);

// Whether the source's files hold JSON rows: all formats but text, and text in .json and .jsonl files.
bool holds_rows(const recipe::Source& source);

// A whole text file, mapped, or in memory where it has to be unpacked or is small: a system maps only so many files.
class WholeText {
 public:
  // Throws Error(data) when it can't be read.
  explicit WholeText(const std::filesystem::path& path);
  std::string_view text() const { return in_memory_ ? std::string_view(bytes_) : mapped_.text(); }

 private:
  bool in_memory_;
  MappedFile mapped_;
  std::string bytes_;
};

// The first byte of the validation part of a text: the first floor((1 - fraction) * characters) characters
// train. A character is a byte and the UTF-8 continuation bytes behind it.
std::int64_t validation_start(std::string_view text, double fraction);

// The text without the byte-order mark some editors put in front.
std::string_view without_bom(std::string_view text);

// The documents of a text: the whole text, or the parts between `separator` (which belongs to none). Documents of
// nothing but white space are left out.
std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator);

}  // namespace zt::data
