// Rows of JSON files as they come from the web, found by their bounds alone: what a row holds is not looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace zt::data {

// What is wrong at one place of a file, in words a person can act on.
struct RowFault {
  std::int64_t line = 0;    // physical line, from 1; lines end at '\n' only
  std::int64_t column = 0;  // byte column, from 1; a byte-order mark at the start of the file doesn't count
  std::string reason;
  bool operator==(const RowFault&) const = default;
};

struct RawRow {
  std::string_view bytes;             // valid until the next call of next()
  std::int64_t number = 0;            // how many rows came before it, with and without faults
  std::int64_t line = 0, column = 0;  // where `bytes` starts
  std::optional<RowFault> fault;      // why there are no bytes
  bool ends_reading = false;          // the fault leaves no way to find further rows
};

enum class RowForm {
  lines,    // JSON Lines: a row is a line
  array,    // one JSON array of rows
  objects,  // objects one after another, each over several lines: the first line is `{` alone
};

// Delivers rows in the order of the file, in bounded memory (the longest row that is allowed and some MiB).
//
// The first byte that is not white space decides the form: `[` is an array, all else JSON Lines, except that a
// first line of `{` alone begins objects over several lines. A UTF-8 byte-order mark at the start is skipped.
// Blank lines are skipped. A row over the limit is a fault of that row. Where an array or the objects lose
// their structure (a comma missing, something behind the end, a cut file), where gzip data are damaged, or
// where the file is no JSON at all (another compression, UTF-16, a Git LFS pointer), a last row with
// `ends_reading` says so.
class RowReader {
 public:
  static constexpr std::int64_t kRowLimit = std::int64_t{64} << 20;  // bytes

  explicit RowReader(ByteStream stream, std::int64_t row_limit = kRowLimit);
  explicit RowReader(const std::filesystem::path& path, std::int64_t row_limit = kRowLimit)
      : RowReader(ByteStream(path), row_limit) {}
  ~RowReader();
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;

  // The next row; false behind the last one. Throws Error(machine) when reading fails.
  bool next(RawRow& row);

  RowForm form() const;
  bool had_bom() const;
  std::int64_t file_bytes() const;       // of the file on disk, packed or not
  std::int64_t file_bytes_read() const;  // how many of them were consumed

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zt::data
