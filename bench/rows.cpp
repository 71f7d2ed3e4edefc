// How fast files of rows are read, on one thread: MB (10^6 bytes of the file) a second and seconds a million rows.
//
//   build/release/bench/rows [--rows 1000000] [--folder /tmp]
//
// "bounds" finds where rows start and end, which every rank does for a whole file; "documents" also parses and
// checks each row, which a rank does for its share. The last row has a fault: it is found, and printed with its place.
// Wanted: bounds above 1 GB/s for lines and 400 MB/s for arrays, a fault among a million rows in a few seconds.
#include <fmt/core.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "common.h"
#include "data/row_formats.h"

namespace zt::bench {
namespace {

// Rows of about 150 bytes, as instruction data have them; the last is cut.
std::string file_of(std::int64_t rows, bool array) {
  std::string out = array ? "[" : "";
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::string end = i + 1 == rows ? "" : "\"";
    out += cat(R"({"instruction": "Add the two numbers, and say \"done\".", "input": ")", i, " and ", i * 7,
               R"(", "output": "The sum of the two numbers is )", i * 8, ". Done.", end, "}",
               array ? ",\n" : "\n");
  }
  return out;
}

void measure(const std::filesystem::path& path, const char* form, bool parse) {
  data::RowReader reader{path};
  data::RawRow row;
  std::vector<data::RowFault> faults;
  std::int64_t rows = 0;
  const data::RowFormat format{recipe::Format::alpaca, {}, false};
  const double seconds = seconds_of([&] {
    for (; reader.next(row); ++rows)
      if (parse) data::document_of(row, format, faults);
  });
  fmt::print("{:6} {:10} {:9} rows {:8.1f} MB/s {:6.2f} s a million rows\n", form,
             parse ? "documents" : "bounds", rows, double(reader.file_bytes()) / 1e6 / seconds,
             seconds * 1e6 / double(rows));
  for (const data::RowFault& fault : faults)
    fmt::print("  {}:{}:{}: {}\n", path.filename().string(), fault.line, fault.column, fault.reason);
}

int run(const Arguments& arguments) {
  const std::filesystem::path folder = arguments.text("--folder", std::filesystem::temp_directory_path());
  for (const bool array : {false, true}) {
    const std::filesystem::path path = folder / (array ? "zerotrain-rows.json" : "zerotrain-rows.jsonl");
    write_file(path, file_of(arguments.number("--rows", 1'000'000), array));
    for (const bool parse : {false, true}) measure(path, array ? "array" : "lines", parse);
    std::filesystem::remove(path);
  }
  return 0;
}

}  // namespace
}  // namespace zt::bench

int main(int argc, char** argv) { return zt::bench::told(argc, argv, zt::bench::run); }
