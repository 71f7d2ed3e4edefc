// How fast tokenizers encode, on one thread: MB of text (10^6 bytes) a second.
//
//   build/release/bench/tokenizers --tokenizers FOLDER[,FOLDER...] --texts FILE[,FILE...] [--times 5]
//
// "whole" encodes a file as one text, "lines" each of its lines by itself. "first" is a tokenizer's first pass
// over the text, in which it has seen no word yet; "best" the fastest of all passes. Wanted for GPT-2's
// tokenizer: 15 MB/s. scripts/reference/tokenizer_speed.py prints the `tokenizers` package's figures beside these.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/file.h"
#include "base/text.h"
#include "common.h"
#include "text/tokenizer.h"

namespace zt::bench {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t at = text.find('\n');
    const std::size_t length = at == std::string_view::npos ? text.size() : at + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

void measure(const std::filesystem::path& folder, const std::filesystem::path& file, const std::string& what,
             const std::vector<std::string_view>& texts, std::int64_t times) {
  const auto tokenizer = text::load_tokenizer(folder);
  std::size_t bytes = 0, ids = 0;
  for (const std::string_view text : texts) bytes += text.size();
  double first = 0, best = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < times; ++i) {
    ids = 0;
    const double seconds = seconds_of([&] {
      for (const std::string_view text : texts) ids += tokenizer->encode(text).size();
    });
    if (i == 0) first = seconds;
    best = std::min(best, seconds);
  }
  const double megabytes = double(bytes) / 1e6;
  fmt::print("{:20} {:20} {:10} {:9} {:9} {:7.2f} {:7.2f}\n", folder.filename().string(),
             file.filename().string(), what, bytes, ids, megabytes / first, megabytes / best);
}

int run(const Arguments& arguments) {
  const std::string folders = arguments.text("--tokenizers", ""), files = arguments.text("--texts", "");
  if (folders.empty() || files.empty())
    throw Error(Blame::usage, "--tokenizers FOLDER[,FOLDER...] and --texts FILE[,FILE...] are needed");
  fmt::print("{:20} {:20} {:10} {:>9} {:>9} {:>7} {:>7}\n", "tokenizer", "text", "as", "bytes", "ids",
             "first", "best");
  for (const std::string& folder : split(folders, ','))
    for (const std::string& file : split(files, ',')) {
      const std::string text = read_text_file(file, Blame::usage, std::int64_t{1} << 30);
      measure(folder, file, "whole", {text}, arguments.number("--times", 5));
      measure(folder, file, "lines", lines_of(text), arguments.number("--times", 5));
    }
  return 0;
}

}  // namespace
}  // namespace zt::bench

int main(int argc, char** argv) { return zt::bench::told(argc, argv, zt::bench::run); }
