#include "data/source.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {
namespace fs = std::filesystem;

static std::vector<fs::path> files_of(const fs::path& path, Problems& problems) {
  if (fs::is_regular_file(path)) return {path};
  std::vector<fs::path> files;
  if (!fs::is_directory(path)) {
    problems.add(cat(path.string(), " is not there"));
    return files;
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) problems.add(cat("folder ", path.string(), " holds no .txt file"));
  std::ranges::sort(files);
  return files;
}

// By the first two bytes every gzip file has (RFC 1952, section 2.3.1).
static bool is_compressed(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return in.get() == 0x1f && in.get() == 0x8b;
}

std::vector<TextFile> text_files(const std::vector<recipe::Source>& sources) {
  Problems problems;
  std::vector<TextFile> files;
  for (const recipe::Source& source : sources) {
    for (fs::path& path : files_of(source.path, problems)) {
      if (is_compressed(path)) problems.add(cat(path.string(), " is compressed: unpack it first, with zcat"));
      files.push_back({std::move(path), source.separator.value_or("")});
    }
  }
  problems.throw_if_any(
      Blame::data, "data files have problems:",
      "a source is a text file, or a folder of .txt files; relative paths start at the current folder");
  return files;
}

static bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::int64_t validation_start(std::string_view text, double fraction) {
  const std::int64_t characters = std::ranges::count_if(text, [](char byte) { return !continues(byte); });
  // 1 - fraction is rounded; the millionth of a character keeps (1 - 0.9) of 10 from becoming 0.
  auto left = static_cast<std::int64_t>((1.0 - fraction) * static_cast<double>(characters) + 1e-6);
  std::size_t at = 0;
  while (at < text.size() && (left > 0 || continues(text[at]))) left -= !continues(text[at++]);
  // The walk stops at the first byte of the character after the training part.
  return static_cast<std::int64_t>(at);
}

std::string_view without_bom(std::string_view text) {
  if (starts_with(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

std::vector<std::string_view> documents_of(std::string_view text, const std::string& separator) {
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
