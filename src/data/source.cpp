#include "data/source.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "data/byte_stream.h"

namespace zt::data {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTextEndings[] = {".txt"};
constexpr const char* kRowEndings[] = {".jsonl", ".json", ".ndjson"};

// "a.json.gz" ends like "a.json".
std::string ending_of(const fs::path& path) {
  return (path.extension() == ".gz" ? path.stem() : path).extension().string();
}

bool is_rows_file(const fs::path& path) { return std::ranges::count(kRowEndings, ending_of(path)) > 0; }

bool is_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown);
}

// What in a folder has an ending of the format and is no folder itself. A folder that cannot be listed holds nothing.
std::vector<fs::path> files_in(const fs::path& folder, bool rows) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const fs::path path = entry->path();
    const bool fits = rows ? is_rows_file(path) : std::ranges::count(kTextEndings, ending_of(path)) > 0;
    if (fits && !is_folder(path)) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

// Why a path cannot be read as a file; "" where it can.
std::string fault_of(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) return cat(path.string(), " is not there");
  if (failed) return cat(path.string(), " cannot be opened: ", failed.message());
  if (fs::is_regular_file(status)) return "";
  return cat(path.string(), " is neither a file nor a folder");
}

// By the first two bytes every gzip file has (RFC 1952, section 2.3.1).
bool is_compressed(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return in.get() == 0x1f && in.get() == 0x8b;
}

bool is_small(const fs::path& path) {
  constexpr std::uintmax_t kSmall = 1 << 16;
  std::error_code unknown;
  const std::uintmax_t bytes = fs::file_size(path, unknown);
  return !unknown && bytes < kSmall;
}

std::string unpacked_text(const fs::path& path) {
  ByteStream stream(path);
  std::string text;
  for (std::vector<char> piece(1 << 20);;) {
    const std::size_t count = stream.read(piece);
    text.append(piece.data(), count);
    if (count < piece.size()) return text;
  }
}

}  // namespace

bool holds_rows(const recipe::Source& source) {
  if (source.format != recipe::Format::text) return true;
  if (!is_folder(source.path)) return is_rows_file(source.path);
  return files_in(source.path, false).empty() && !files_in(source.path, true).empty();
}

std::vector<TextFile> files_of(const recipe::Source& source, Problems& problems) {
  const fs::path path = source.path;
  const std::string separator = source.separator.value_or("");
  std::vector<TextFile> files;
  const auto take = [&](const fs::path& file) {
    if (std::string fault = fault_of(file); !fault.empty()) problems.add(std::move(fault));
    files.push_back({file, separator});
  };
  if (!is_folder(path)) {
    take(path);
    return files;
  }
  const bool rows = holds_rows(source);
  for (const fs::path& file : files_in(path, rows)) take(file);
  if (files.empty())
    problems.add(cat("folder ", path.string(), " holds no ", rows ? ".json or .jsonl" : ".txt", " file"));
  return files;
}

std::vector<TextFile> files_of(const std::vector<recipe::Source>& sources) {
  Problems problems;
  std::vector<TextFile> files;
  for (const recipe::Source& source : sources)
    for (TextFile& file : files_of(source, problems)) files.push_back(std::move(file));
  problems.throw_if_any(
      Blame::data, "data files have problems:",
      "a source is a file, or a folder of them; relative paths start at the current folder");
  return files;
}

WholeText::WholeText(const fs::path& path) : in_memory_(is_compressed(path) || is_small(path)) {
  if (in_memory_)
    bytes_ = unpacked_text(path);
  else
    mapped_ = MappedFile(path, Blame::data);
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
