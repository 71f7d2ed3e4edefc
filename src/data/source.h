// Raw text as people have it: a file or a folder of .txt files, cut into documents and into a training and a
// validation part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/settings.h"

namespace zt::data {

struct TextFile {
  std::filesystem::path path;
  std::string separator;  // between its documents; empty: it is one
};

// The files of all sources: of each in the order of their names, a folder standing for its .txt files. Throws
// one Error(data) for all paths that aren't there, folders without any text and compressed files.
std::vector<TextFile> text_files(const std::vector<recipe::Source>& sources);

// The first byte of the validation part of a text: the first floor((1 - fraction) * characters) characters
// train. A character is a byte and the UTF-8 continuation bytes behind it.
std::int64_t validation_start(std::string_view text, double fraction);

// The text without the byte-order mark some editors put in front.
std::string_view without_bom(std::string_view text);

// The documents of a text: the whole text, or the parts between `separator` (which belongs to none). Documents of
// nothing but white space are left out.
std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator);

}  // namespace zt::data
