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

// The files of a source, in the order of their names. A folder stands for its .txt files. Throws Error(data)
// for a path that isn't there or a folder without any.
std::vector<std::filesystem::path> files_of(const recipe::Source& source);

// The first byte of the validation part of a text: the first floor((1 - fraction) * characters) characters
// train. Characters are Unicode code points; text that is not UTF-8 is counted in bytes.
std::int64_t validation_start(std::string_view text, double fraction);

// The documents of a text: the whole text, or the parts between `separator` (which belongs to none). A
// byte-order mark at the start is no text. Documents of nothing but white space are left out.
std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator);

}  // namespace zt::data
