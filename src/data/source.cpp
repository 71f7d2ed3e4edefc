#include "data/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace fs = std::filesystem;

std::vector<fs::path> files_of(const recipe::Source& source) {
  const fs::path path = source.path;
  if (fs::is_regular_file(path)) return {path};
  if (!fs::is_directory(path))
    throw Error(Blame::data, cat("data file ", path.string(), " is not there"),
                "give the path of a text file, or of a folder with .txt files; relative paths start at the "
                "current folder");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) throw Error(Blame::data, cat("folder ", path.string(), " holds no .txt file"));
  std::ranges::sort(files);
  return files;
}

static bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::int64_t validation_start(std::string_view text, double fraction) {
  const std::int64_t characters = std::ranges::count_if(text, [](char byte) { return !continues(byte); });
  auto left = static_cast<std::int64_t>((1.0 - fraction) * static_cast<double>(characters));
  std::size_t at = 0;
  while (at < text.size() && (left > 0 || continues(text[at]))) left -= !continues(text[at++]);
  // The walk stops at the first byte of the character after the training part.
  return static_cast<std::int64_t>(at);
}

std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator) {
  if (starts_with(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string_view> documents;
  for (;;) {
    const std::size_t end = separator.empty() ? std::string_view::npos : text.find(separator);
    const std::string_view document = text.substr(0, end);
    if (!trim(document).empty()) documents.push_back(document);
    if (end == std::string_view::npos) return documents;
    text.remove_prefix(end + separator.size());
  }
}

}  // namespace zt::data
