// Any bytes as a file of rows. Bits of the first byte: 1 an array (a [ in front), 2 packed, 4 cut by a byte, 8 a
// row limit of 32 bytes.
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/row_reader.h"
#include "data/strict_json.h"
#include "fuzz.h"
#include "text/utf8.h"

using namespace zt;
using namespace zt::data;

namespace {

std::string packed(std::string bytes) {
  z_stream z = {};
  FUZZ_CHECK(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  FUZZ_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

struct Read {
  std::vector<std::string> rows;
  bool faults = false;
  RowForm form = RowForm::lines;
};

void check_words(const std::string& reason) {
  FUZZ_CHECK(!reason.empty());
  FUZZ_CHECK(!text::first_invalid_utf8(reason));
  FUZZ_CHECK(std::ranges::none_of(reason, [](char byte) { return byte >= 0 && byte < 0x20; }));
}

Read read(const std::string& file, std::int64_t limit) {
  RowReader reader(ByteStream(file, "memory"), limit);
  Read out;
  RawRow row;
  std::pair<std::int64_t, std::int64_t> place;
  bool ended = false;
  while (reader.next(row)) {
    FUZZ_CHECK(!ended);
    FUZZ_CHECK(row.number == static_cast<std::int64_t>(out.rows.size()));
    FUZZ_CHECK(std::pair(row.line, row.column) >= place);
    FUZZ_CHECK(row.line >= 1 && row.column >= 1);
    FUZZ_CHECK(static_cast<std::int64_t>(row.bytes.size()) <= limit);
    FUZZ_CHECK(row.fault.has_value() == row.bytes.empty());
    place = {row.line, row.column};
    ended = row.ends_reading;
    if (row.fault) check_words(row.fault->reason);
    out.faults |= row.fault.has_value();
    out.rows.emplace_back(row.bytes);
  }
  FUZZ_CHECK(!reader.next(row));
  out.form = reader.form();
  return out;
}

bool blank(const std::string& line) { return line.find_first_not_of(" \t\r\n") == std::string::npos; }

// What a plain split has for lines.
std::vector<std::string> split_lines(const std::string& file) {
  std::vector<std::string> out;
  std::string line;
  for (std::size_t at = 0; at <= file.size(); ++at) {
    if (at < file.size() && file[at] != '\n') {
      line += file[at];
      continue;
    }
    if (line.ends_with('\r')) line.pop_back();
    if (!blank(line)) out.push_back(line);
    line.clear();
  }
  return out;
}

void check_against_others(const std::string& file, const Read& read) {
  if (read.faults) {
    FUZZ_CHECK(file[0] != '[' || !nlohmann::json::accept(file) || file.find('\0') != std::string::npos);
  } else if (read.form == RowForm::lines) {
    std::vector<std::string> expected = split_lines(file);
    // Blanks before the first row aren't counted as its own.
    if (!expected.empty()) expected[0].erase(0, expected[0].find_first_not_of(" \t\r"));
    FUZZ_CHECK(expected == read.rows);
  } else if (read.form == RowForm::array && nlohmann::json::accept(file) &&
             file.find('\0') == std::string::npos) {
    const nlohmann::json whole = nlohmann::json::parse(file);
    FUZZ_CHECK(whole.size() == read.rows.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
      FUZZ_CHECK(whole[i] == nlohmann::json::parse(read.rows[i]));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, rest] = fuzz::input_of(data, size);
  std::string file = (choice & 1 ? "[" : "") + rest;
  const std::int64_t limit = choice & 8 ? 32 : RowReader::kRowLimit;
  const Read plain = read(file, limit);
  const bool gzip_itself = file.starts_with("\x1f\x8b"), bom = file.starts_with("\xEF\xBB\xBF");
  if (limit > 32 && !gzip_itself && !bom) check_against_others(file, plain);
  if ((choice & 2) == 0) return 0;
  file = packed(file);
  if (choice & 4) file.pop_back();
  const Read unpacked = read(file, limit);
  if (gzip_itself) return 0;
  if (choice & 4) {
    FUZZ_CHECK(unpacked.faults);
  } else {
    FUZZ_CHECK(unpacked.rows == plain.rows);
    FUZZ_CHECK(unpacked.faults == plain.faults);
  }
  return 0;
}
