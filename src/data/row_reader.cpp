#include "data/row_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"
#include "data/byte_window.h"
#include "data/strict_json.h"
#include "data/value_bounds.h"

namespace zt::data {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

// Files that people take for JSON, by their first bytes.
struct Lookalike {
  std::string_view start;
  const char* reason;
};
using namespace std::string_view_literals;
constexpr std::array kLookalikes = {
    Lookalike{"\x28\xB5\x2F\xFD"sv, "the file is packed with zstd: unpack it first, with unzstd"},
    Lookalike{"BZh"sv, "the file is packed with bzip2: unpack it first, with bunzip2"},
    Lookalike{"\xFD"
              "7zXZ"sv,
              "the file is packed with xz: unpack it first, with unxz"},
    Lookalike{"PK\x03\x04"sv, "the file is a zip archive: unpack it first, with unzip"},
    Lookalike{"PAR1"sv, "the file is Parquet: write its rows as JSON Lines first"},
    Lookalike{"ARROW1"sv, "the file is Arrow: write its rows as JSON Lines first"},
    Lookalike{"\xFF\xFE"sv, "the file is UTF-16: make it UTF-8 first, with iconv -f UTF-16 -t UTF-8"},
    Lookalike{"\xFE\xFF"sv, "the file is UTF-16: make it UTF-8 first, with iconv -f UTF-16 -t UTF-8"},
    Lookalike{"version https://git-lfs"sv, "the file is a Git LFS pointer, not the data: run git lfs pull"},
    Lookalike{"<"sv, "the file is HTML or XML, not JSON: was a web page saved in place of the data?"},
};

}  // namespace

struct RowReader::State {
  State(ByteStream stream, std::int64_t limit) : window(std::move(stream)), row_limit(limit) {}

  // ---- The beginning of the file ----

  // As many of the next `n` bytes as there are.
  std::string_view ahead(std::size_t n) {
    while (window.view().size() < n && window.more()) {
    }
    return window.view().substr(0, n);
  }

  void begin(RawRow& row) {
    if (ahead(3) == "\xEF\xBB\xBF") {
      bom = true;
      window.skip_unseen(3);
    }
    if (!skip_blanks()) return;
    const std::string_view start = ahead(32);
    for (const Lookalike& kind : kLookalikes)
      if (starts_with(start, kind.start)) return end_with_fault(row, kind.reason);
    if (start[0] == '[') {
      form = RowForm::array;
      window.skip_inline(1);
    } else if (brace_alone()) {
      form = RowForm::objects;
    }
  }

  bool brace_alone() {
    constexpr std::size_t kFar = 4096;
    const std::string_view start = ahead(kFar);
    const std::string_view line = start.substr(0, start.find('\n') + 1);
    return !line.empty() && line[0] == '{' && std::ranges::all_of(line.substr(1), is_blank);
  }

  // False when there is nothing but white space up to the end.
  bool skip_blanks() {
    for (;;) {
      const std::string_view view = window.view();
      const auto at = std::ranges::find_if_not(view, is_blank);
      window.skip(static_cast<std::size_t>(at - view.begin()));
      if (!window.view().empty()) return true;
      if (!window.more()) return false;
    }
  }

  // ---- What is handed out ----

  void place(RawRow& row) const {
    row.number = rows;
    row.line = window.line();
    row.column = window.column();
    row.bytes = {};
    row.fault.reset();
    row.ends_reading = false;
  }
  void fault(RawRow& row, std::string reason) { row.fault = {row.line, row.column, std::move(reason)}; }
  void end_with_fault(RawRow& row, std::string reason) {
    place(row);
    fault(row, std::move(reason));
    row.ends_reading = finished = true;
    faulted = true;
  }
  // The fault of a row that starts at row.line and row.column and is longer than allowed.
  void too_long(RawRow& row) {
    row.bytes = {};
    fault(row, cat("the row is larger than ", human_bytes(row_limit), ", the most that is read"));
  }
  // At the end of the bytes: there may be more of them behind damaged data.
  bool end(RawRow& row) {
    finished = true;
    if (window.damage().empty()) return false;
    window.skip(window.view().size());
    end_with_fault(row, window.damage());
    return true;
  }

  // ---- JSON Lines ----

  bool next_line(RawRow& row) {
    for (;;) {
      place(row);
      bool whole = false, dropped = false;
      std::string_view line = find_line(&whole, &dropped);
      if (!whole && !window.damage().empty()) return end(row);
      if (line.empty() && !whole && !dropped) return end(row);
      if (whole) line_bytes = line.size() + 1;
      if (!whole) last_bytes = line.size();
      if (dropped || line.size() > std::size_t(row_limit)) {
        too_long(row);
        return true;
      }
      if (std::ranges::all_of(line, is_blank)) {
        pass();
        continue;
      }
      if (line.back() == '\r') line.remove_suffix(1);
      row.bytes = line;
      return true;
    }
  }

  // The bytes up to the next line end (`whole`) or the end of the file. Of a line that is too long the beginning
  // is dropped.
  std::string_view find_line(bool* whole, bool* dropped) {
    for (std::size_t searched = 0;;) {
      const std::string_view view = window.view();
      const void* end = std::memchr(view.data() + searched, '\n', view.size() - searched);
      *whole = end != nullptr;
      if (*whole) return view.substr(0, std::size_t(static_cast<const char*>(end) - view.data()));
      searched = view.size();
      if (searched > std::size_t(row_limit)) {
        window.skip_inline(searched);
        *dropped = true;
        searched = 0;
      }
      if (!window.more()) return window.view();
    }
  }

  // ---- One array, or objects one after another ----

  bool next_value(RawRow& row) {
    for (;;) {
      const bool more = skip_blanks();
      if (!more && (stage == Stage::behind || form == RowForm::objects || !window.damage().empty()))
        return end(row);
      if (!more) return structural(row, "the file ends inside the array: its ] is missing. Is the file cut?");
      const char byte = window.view()[0];
      if (form == RowForm::objects) return value(row, byte);
      switch (stage) {
        case Stage::start:
        case Stage::value:
          if (byte != ']' || stage == Stage::value) return value(row, byte);
          stage = Stage::behind;
          break;
        case Stage::comma:
          if (byte != ',' && byte != ']')
            return structural(row, cat("there must be a comma or ] behind a row, here is ", near()));
          stage = byte == ',' ? Stage::value : Stage::behind;
          break;
        case Stage::behind: return structural(row, cat("behind the array's ] stands ", near()));
      }
      window.skip_inline(1);
    }
  }

  std::string near() { return shown(ahead(24), 24); }
  bool structural(RawRow& row, std::string reason) {
    end_with_fault(row, std::move(reason));
    return true;
  }

  bool value(RawRow& row, char byte) {
    if (byte == ',' || byte == ':' || byte == ']' || byte == '}')
      return structural(row, cat("a row must stand here, not ", near()));
    place(row);
    stage = Stage::comma;
    std::size_t size = 0;
    bool dropped = false;
    ValueBounds bounds;
    for (;;) {
      size += bounds.feed(window.view().substr(size));
      if (size > std::size_t(row_limit)) {
        window.skip(size);
        size = 0;
        dropped = true;
      }
      if (bounds.done()) break;
      if (!window.more()) {
        if (!window.damage().empty()) return end(row);
        if (bounds.open_ended()) break;
        fault(row,
              "the file ends inside the row that starts here: a quote or bracket is missing, or the file is "
              "cut");
        row.ends_reading = finished = true;
        return true;
      }
    }
    value_bytes = size;
    row.bytes = window.view().substr(0, size);
    if (dropped) too_long(row);
    return true;
  }

  // Goes on behind what was handed out last.
  void pass() {
    if (line_bytes > 0) window.skip_line(line_bytes);
    if (last_bytes > 0) window.skip_inline(last_bytes);
    if (value_bytes > 0) window.skip(value_bytes);
    line_bytes = last_bytes = value_bytes = 0;
  }

  bool next(RawRow& row) {
    if (!begun) {
      begun = true;
      begin(row);
      if (faulted) return true;
    }
    pass();
    if (finished) return false;
    const bool found = form == RowForm::lines ? next_line(row) : next_value(row);
    if (found) ++rows;
    return found;
  }

  ByteWindow window;
  std::int64_t row_limit;
  RowForm form = RowForm::lines;
  bool bom = false, begun = false, finished = false, faulted = false;
  std::int64_t rows = 0;
  // Of what was handed out last: a line with its line end, a last line without one, a value.
  std::size_t line_bytes = 0, last_bytes = 0, value_bytes = 0;
  // What may come next in an array.
  enum class Stage { start, value, comma, behind } stage = Stage::start;
};

RowReader::RowReader(ByteStream stream, std::int64_t row_limit)
    : state_(std::make_unique<State>(std::move(stream), row_limit)) {}
RowReader::~RowReader() = default;
RowReader::RowReader(RowReader&&) noexcept = default;
RowReader& RowReader::operator=(RowReader&&) noexcept = default;

bool RowReader::next(RawRow& row) { return state_->next(row); }
RowForm RowReader::form() const { return state_->form; }
bool RowReader::had_bom() const { return state_->bom; }
std::int64_t RowReader::file_bytes() const { return state_->window.stream().file_bytes(); }
std::int64_t RowReader::file_bytes_read() const { return state_->window.stream().file_bytes_read(); }

}  // namespace zt::data
