#include "data/row_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "data/value_bounds.h"
#include "packed.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::data;

namespace {

struct Seen {
  std::string bytes;
  std::int64_t line = 0, column = 0;
  std::string reason;  // of a fault; then line and column are the fault's
  bool ends = false;
  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << seen.line << ':' << seen.column << ' ' << seen.bytes << ' ' << seen.reason
             << (seen.ends ? " END" : "");
}

std::vector<Seen> rows_of(RowReader& reader) {
  std::vector<Seen> out;
  RawRow row;
  while (reader.next(row)) {
    CHECK(row.number == static_cast<std::int64_t>(out.size()));
    CHECK((out.empty() || !out.back().ends));
    Seen seen{std::string(row.bytes), row.line, row.column, "", row.ends_reading};
    if (row.fault) {
      CHECK(row.bytes.empty());
      seen.line = row.fault->line;
      seen.column = row.fault->column;
      seen.reason = row.fault->reason;
    }
    out.push_back(seen);
  }
  CHECK_FALSE(reader.next(row));
  return out;
}

std::vector<Seen> rows_of(const std::string& file, std::int64_t limit = RowReader::kRowLimit) {
  RowReader reader(ByteStream(file, "memory"), limit);
  return rows_of(reader);
}

std::vector<std::string> texts(const std::vector<Seen>& rows) {
  std::vector<std::string> out;
  for (const Seen& row : rows) out.push_back(row.reason.empty() ? row.bytes : row.reason);
  return out;
}

const std::string kBom = "\xEF\xBB\xBF";
const std::string kA = R"({"a":1})", kB = R"({"b":"]},\\"})", kC = R"({"c":[{"d":"\""},[]]})";
const std::vector<std::string> kRows = {kA, kB, kC};

}  // namespace

TEST_CASE("rows: the same rows come from every form a file can have") {
  const std::vector<std::pair<RowForm, std::string>> files = {
      {RowForm::lines, kA + "\n" + kB + "\n" + kC + "\n"},
      {RowForm::lines, kA + "\n" + kB + "\n" + kC},
      {RowForm::lines, kA + "\r\n" + kB + "\r\n" + kC + "\r\n"},
      {RowForm::lines, "\n \t\r\n" + kA + "\n\n\r\n" + kB + "\n  \n" + kC + "\n\n"},
      {RowForm::array, "[" + kA + "," + kB + "," + kC + "]"},
      {RowForm::array, "\n [\r\n\t" + kA + " ,\n" + kB + "\n,\n" + kC + "\r\n ] \n"},
      {RowForm::objects, "{\n\"a\":1}\n" + kB + " " + kC + "\n"},
  };
  for (const auto& [form, file] : files) {
    for (const std::string& bom : {std::string(), kBom}) {
      const std::string whole = bom + file;
      for (const std::string& bytes :
           {whole, test::gzip(whole), test::gzip(whole.substr(0, 9)) + test::gzip(whole.substr(9))}) {
        INFO("file: ", whole);
        RowReader reader(ByteStream(bytes, "memory"));
        std::vector<std::string> got = texts(rows_of(reader));
        if (form == RowForm::objects) std::erase(got[0], '\n');
        CHECK(got == kRows);
        CHECK(reader.form() == form);
        CHECK(reader.had_bom() == !bom.empty());
        CHECK(reader.file_bytes_read() == reader.file_bytes());
      }
    }
  }
}

TEST_CASE("rows: every row knows its line and column, which a byte-order mark does not move") {
  using Rows = std::vector<Seen>;
  for (const std::string& bom : {std::string(), kBom}) {
    CHECK(rows_of(bom + "{}\n\n  {\"a\":0}\r\n{}") ==
          Rows{{"{}", 1, 1}, {"  {\"a\":0}", 3, 1}, {"{}", 4, 1}});
    CHECK(rows_of(bom + "[{},{}\n,\n  {\"a\":\n1}, {}]") ==
          Rows{{"{}", 1, 2}, {"{}", 1, 5}, {"{\"a\":\n1}", 3, 3}, {"{}", 4, 5}});
    CHECK(rows_of(bom + "{\n\"a\":1\n}\n{}{}") == Rows{{"{\n\"a\":1\n}", 1, 1}, {"{}", 4, 1}, {"{}", 4, 3}});
  }
}

TEST_CASE("rows: only a newline ends a line") {
  const std::string row = "{\"a\":\"x\xE2\x80\xA8y\xE2\x80\xA9\xC2\x85\v\f" + std::string(1, '\0') + "z\"}";
  const std::vector<std::string> lines = texts(rows_of(row + "\n" + row + "\r" + row));
  CHECK(lines == std::vector<std::string>{row, row + "\r" + row});
  CHECK(texts(rows_of("[" + row + "]")) == std::vector<std::string>{row});
}

TEST_CASE("rows: files without rows have none and no fault") {
  for (const char* file : {"", "\n", " \r\n\t\n", "[]", " [ \n ] \n", "\xEF\xBB\xBF", "\xEF\xBB\xBF\n"}) {
    INFO("file: ", file);
    CHECK(rows_of(file).empty());
    CHECK(rows_of(test::gzip(file)).empty());
  }
}

TEST_CASE("rows: a row over the limit is its own fault only, wherever it ends") {
  for (const std::size_t size : {101, 5000, 3'000'000}) {
    const std::string huge = "{\"a\":\"" + std::string(size - 8, '[') + "\"}";
    const std::string reason = "the row is larger than 100 B, the most that is read";
    INFO("bytes: ", huge.size());
    CHECK(rows_of(kA + "\n" + huge + "\n" + kB + "\n", 100) ==
          std::vector<Seen>{{kA, 1, 1}, {"", 2, 1, reason}, {kB, 3, 1}});
    CHECK(rows_of(kA + "\n" + huge, 100) == std::vector<Seen>{{kA, 1, 1}, {"", 2, 1, reason}});
    CHECK(rows_of("[" + kA + ",\n" + huge + ",\n" + kB + "]", 100) ==
          std::vector<Seen>{{kA, 1, 2}, {"", 2, 1, reason}, {kB, 3, 1}});
  }
  const std::string just = "{\"a\":\"" + std::string(92, 'x') + "\"}";
  CHECK(texts(rows_of(just + "\n", 100)) == std::vector<std::string>{just});
}

TEST_CASE("rows: a file that loses its structure ends with one fault that names the place") {
  struct Case {
    const char* file;
    std::size_t rows;  // before the fault
    std::int64_t line, column;
    const char* reason;
  };
  const Case cases[] = {
      {"[{}\n {}]", 1, 2, 2, "there must be a comma or ] behind a row, here is {}]"},
      {"[{},\n,{}]", 1, 2, 1, "a row must stand here, not ,{}]"},
      {"[{},\n]", 1, 2, 1, "a row must stand here, not ]"},
      {"[,{}]", 0, 1, 2, "a row must stand here, not ,{}]"},
      {"[}", 0, 1, 2, "a row must stand here, not }"},
      {"[{}]\n{\"x\":1}", 1, 2, 1, "behind the array's ] stands {\"x\":1}"},
      {"[{}]]", 1, 1, 5, "behind the array's ] stands ]"},
      {"[{}] , {}", 1, 1, 6, "behind the array's ] stands , {}"},
      {"[{},{}\n", 2, 2, 1, "the file ends inside the array: its ] is missing. Is the file cut?"},
      {"[", 0, 1, 2, "the file ends inside the array"},
      {"[{},\n {\"a\":1", 1, 2, 2, "the file ends inside the row that starts here"},
      {"[{},\n {\"a\":\"x}]", 1, 2, 2, "the file ends inside the row that starts here"},
      {"{\n}\n,{}", 1, 3, 1, "a row must stand here, not ,{}"},
      {"{\n\"a\":1", 0, 1, 1, "the file ends inside the row that starts here"},
  };
  for (const Case& c : cases) {
    INFO("file: ", c.file);
    const std::vector<Seen> rows = rows_of(c.file);
    REQUIRE(rows.size() == c.rows + 1);
    for (std::size_t i = 0; i < c.rows; ++i) CHECK(rows[i].reason.empty());
    CHECK(rows.back().ends);
    CHECK(rows.back().line == c.line);
    CHECK(rows.back().column == c.column);
    CHECK(rows.back().reason.find(c.reason) == 0);
  }
}

TEST_CASE("rows: an array's rows may be any values; whether they are rows is not decided here") {
  CHECK(texts(rows_of("[1, \"a,]\" ,null,[[]],-2e5]")) ==
        std::vector<std::string>{"1", "\"a,]\"", "null", "[[]]", "-2e5"});
  CHECK(texts(rows_of("1\n[2]\nx")) == std::vector<std::string>{"1", "[2]", "x"});
}

TEST_CASE("rows: what people take for JSON is told apart") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x28\xB5\x2F\xFD...", "zstd"},
      {"BZh91AY", "bzip2"},
      {"\xFD"
       "7zXZ",
       "xz"},
      {"PK\x03\x04", "zip archive"},
      {"PAR1", "Parquet"},
      {"ARROW1", "Arrow"},
      {std::string("\xFF\xFE{\0", 4), "UTF-16"},
      {"<!DOCTYPE html>", "HTML"},
      {"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"},
  };
  for (const auto& [file, word] : cases) {
    INFO(word);
    for (const std::string& bytes : {file, test::gzip(file)}) {
      const std::vector<Seen> rows = rows_of(bytes);
      REQUIRE(rows.size() == 1);
      CHECK(rows[0].ends);
      CHECK(rows[0].reason.find(word) != std::string::npos);
    }
  }
}

TEST_CASE("rows: of a damaged gzip file the rows before the damage come, then the damage") {
  std::string file;
  for (int i = 0; i < 20'000; ++i) file += cat("{\"n\":", i * 7919 % 10007, "}\n");
  for (const bool array : {false, true}) {
    std::string bytes = file;
    if (array) {
      std::ranges::replace(bytes, '\n', ',');
      bytes = "[" + bytes;
      bytes.back() = ']';
    }
    const std::string packed = test::gzip(bytes);
    const std::vector<Seen> all = rows_of(bytes);
    REQUIRE(all.size() == 20'000);
    for (const std::size_t size :
         {packed.size() / 3, packed.size() / 2, packed.size() - 9, packed.size() - 1}) {
      const std::vector<Seen> rows = rows_of(packed.substr(0, size));
      REQUIRE(!rows.empty());
      CHECK(rows.back().ends);
      CHECK(rows.back().reason.find(cat("gzip data of memory are damaged at byte ", size)) == 0);
      CHECK(std::equal(rows.begin(), rows.end() - 1, all.begin()));
    }
  }
}

TEST_CASE("rows: every cut of a file gives a beginning of its rows and, in an array, one fault") {
  const std::string lines = kA + "\n" + kB + "\r\n\n" + kC + "\n";
  for (std::size_t size = 0; size <= lines.size(); ++size) {
    const std::vector<Seen> rows = rows_of(lines.substr(0, size)), all = rows_of(lines);
    REQUIRE(rows.size() <= all.size());
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) CHECK(rows[i] == all[i]);
    if (!rows.empty()) CHECK(all[rows.size() - 1].bytes.find(rows.back().bytes) == 0);
  }
  const std::string array = "[ " + kA + ",\n" + kB + "\n, " + kC + "\n]";
  for (std::size_t size = 1; size < array.size(); ++size) {
    INFO("cut to: ", array.substr(0, size));
    const std::vector<Seen> rows = rows_of(array.substr(0, size)), all = rows_of(array);
    REQUIRE(!rows.empty());
    CHECK(rows.back().ends);
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) CHECK(rows[i] == all[i]);
  }
}

TEST_CASE("rows: lines across the pieces a file is read in are as a plain split has them") {
  std::mt19937 random(5);
  std::string file;
  std::vector<std::string> expected;
  while (file.size() < 5'000'000) {
    const std::size_t size = random() % 8 == 0 ? random() % 700'000 : 1 + random() % 300;
    expected.push_back(std::string(1 + size, static_cast<char>('a' + random() % 26)));
    file += expected.back() + "\n";
  }
  CHECK(texts(rows_of(file)) == expected);
  std::string array = "[";
  for (std::string& text : expected) {
    text = "{\"" + text + R"(\\\"]\\":[]})";
    array += (array.size() > 1 ? "," : "") + text;
  }
  CHECK(texts(rows_of(array + "]")) == expected);
}

TEST_CASE("rows: a value's end is found whatever the pieces it comes in") {
  const std::vector<std::pair<std::string, std::size_t>> cases = {
      {R"({"a":"\\"},{)", 10},
      {R"({"a":"\\\"}"}x)", 13},
      {R"("\\\\\\"")", 8},
      {R"("\"\\\"" ,)", 8},
      {R"([[{"]":["}"]}],[]]])", 18},
      {"12.5e3,", 6},
      {"null]", 4},
      {"{]", 2},
  };
  for (const auto& [text, size] : cases) {
    for (std::size_t first = 0; first <= text.size(); ++first)
      for (std::size_t second = first; second <= text.size(); ++second) {
        INFO(text, " in pieces at ", first, " and ", second);
        ValueBounds bounds;
        std::size_t got = 0;
        const std::string_view whole = text;
        for (const std::string_view piece :
             {whole.substr(0, first), whole.substr(first, second - first), whole.substr(second)})
          if (!bounds.done()) got += bounds.feed(piece);
        CHECK(bounds.done());
        CHECK(got == size);
      }
  }
}

TEST_CASE("rows: any bytes at all are read to an end, in order") {
  std::mt19937 random(7);
  const std::string favourites = "{}[]\",:\\\n\r \t0a\xEF\xBB\xBF\x1f\x8b\x00";
  for (int round = 0; round < 3000; ++round) {
    std::string file(random() % 200, '\0');
    for (char& byte : file)
      byte = random() % 4 == 0 ? static_cast<char>(random()) : favourites[random() % favourites.size()];
    if (round % 3 == 0) file = "[" + file;
    if (round % 7 == 0) file = test::gzip(file);
    const std::vector<Seen> rows = rows_of(file, 1 + random() % 100);
    for (std::size_t i = 1; i < rows.size(); ++i)
      CHECK(std::pair(rows[i - 1].line, rows[i - 1].column) <= std::pair(rows[i].line, rows[i].column));
  }
}
