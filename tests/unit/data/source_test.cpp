#include "data/source.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "support/paths.h"

namespace zt::data {
namespace {

using Views = std::vector<std::string_view>;

TEST_CASE("source: tinyshakespeare splits into 1,003,854 and 111,540 characters") {
  // Source: nanoGPT, data/shakespeare_char/readme.md.
  const auto path = test::test_data("text/tinyshakespeare.txt");
  if (!path) return;
  const std::string text = test::read_file(*path);
  CHECK(validation_start(text, 0.1) == 1003854);
  CHECK(std::int64_t(text.size()) - validation_start(text, 0.1) == 111540);
}

TEST_CASE("source: the validation part starts at a character, after floor((1 - fraction) n) of them") {
  std::string text;
  for (int i = 0; i < 10; ++i) text += "aé€𝄞";  // 1, 2, 3 and 4 bytes
  const auto characters_before = [&](std::int64_t at) {
    return std::ranges::count_if(text.substr(0, std::size_t(at)),
                                 [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  };
  for (int percent = 0; percent <= 100; ++percent) {
    CAPTURE(percent);
    const std::int64_t at = validation_start(text, percent / 100.0);
    CHECK(characters_before(at) == (100 - percent) * 40 / 100);
    if (at < std::int64_t(text.size()))
      CHECK((static_cast<unsigned char>(text[std::size_t(at)]) & 0xC0) != 0x80);
  }
  CHECK(validation_start("", 0.5) == 0);
}

TEST_CASE("source: bytes that are no UTF-8 do not upset the split") {
  const std::string broken = "\x80\x80 a \xff\xfe b \x80";
  for (const double fraction : {0.0, 0.3, 0.5, 1.0}) {
    const std::int64_t at = validation_start(broken, fraction);
    CHECK(at >= 0);
    CHECK(at <= std::int64_t(broken.size()));
  }
}

TEST_CASE("source: documents are the text, or what stands between separators") {
  CHECK(documents_of("one\n\ntwo", "") == Views{"one\n\ntwo"});
  CHECK(documents_of("one<|end|>two<|end|>", "<|end|>") == Views{"one", "two"});
  CHECK(documents_of("<|end|>\n<|end|>x <|end|>", "<|end|>") == Views{"x "});
  CHECK(documents_of("a\n\nb\n\n\nc", "\n\n") == Views{"a", "b", "\nc"});
  CHECK(documents_of(" \r\n\t", "").empty());
  CHECK(documents_of("", "x").empty());
}

TEST_CASE("source: a byte-order mark is no text") {
  CHECK(without_bom("\xEF\xBB\xBFhello") == "hello");
  CHECK(without_bom("hello") == "hello");
  CHECK(without_bom("\xEF\xBB") == "\xEF\xBB");
}

std::string fault_of(const std::vector<recipe::Source>& sources) {
  try {
    files_of(sources);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::data);
    return e.problem();
  }
  return "";
}

recipe::Source source(const std::filesystem::path& path) {
  recipe::Source s;
  s.path = path.string();
  return s;
}

TEST_CASE("source: a folder stands for its .txt files in the order of their names") {
  const test::ScratchDir dir;
  dir.write("texts/b.txt", "b");
  dir.write("texts/a.txt", "a");
  dir.write("texts/c.md", "c");
  dir.write("texts/sub/d.txt", "d");
  const auto files = files_of(std::vector{source(dir.path() / "texts"), source(dir.path() / "texts/c.md")});
  REQUIRE(files.size() == 3);
  CHECK(files[0].path.filename() == "a.txt");
  CHECK(files[1].path.filename() == "b.txt");
  CHECK(files[2].path.filename() == "c.md");
}

TEST_CASE("source: everything that is wrong with the paths is said at once") {
  const test::ScratchDir dir;
  dir.write("empty/readme.md", "x");
  const std::string fault = fault_of({source(dir.path() / "gone.txt"), source(dir.path() / "empty")});
  CHECK(fault.find("gone.txt is not there") != std::string::npos);
  CHECK(fault.find("empty holds no .txt file") != std::string::npos);
}

TEST_CASE("source: what is neither a file nor a folder is refused as what it is, also inside a folder") {
  const test::ScratchDir dir;
  dir.write("d/a.jsonl", "x");
  const auto at = [&dir](const char* name) { return dir.path() / name; };
  std::filesystem::create_symlink("loop", at("loop"));
  std::filesystem::create_symlink("gone", at("d/gone.jsonl"));
  std::filesystem::create_symlink("round.jsonl", at("d/round.jsonl"));
  std::filesystem::create_directory(at("d/sub.jsonl"));
  REQUIRE(::mkfifo(at("pipe").c_str(), 0600) == 0);
  REQUIRE(::mkfifo(at("d/pipe.jsonl").c_str(), 0600) == 0);
  recipe::Source folder = source(at("d"));
  folder.format = recipe::Format::messages;
  const std::string fault = fault_of({source(at("loop")), source(at("pipe")), source("/dev/null"), folder});
  INFO(fault);
  CHECK(fault.find("/loop cannot be opened: ") != std::string::npos);
  CHECK(fault.find("/pipe is neither a file nor a folder") != std::string::npos);
  CHECK(fault.find("/dev/null is neither a file nor a folder") != std::string::npos);
  CHECK(fault.find("d/pipe.jsonl is neither a file nor a folder") != std::string::npos);
  CHECK(fault.find("d/gone.jsonl is not there") != std::string::npos);
  CHECK(fault.find("d/round.jsonl cannot be opened: ") != std::string::npos);
  CHECK(fault.find("sub.jsonl") == std::string::npos);
  CHECK_FALSE(holds_rows(source(at("loop"))));
}

TEST_CASE("source: a folder of another format stands for its .json and .jsonl files, packed or not") {
  const test::ScratchDir dir;
  for (const char* name : {"d/b.jsonl", "d/a.json.gz", "d/c.txt", "d/e.ndjson", "d/f.csv"})
    dir.write(name, "x");
  recipe::Source rows = source(dir.path() / "d");
  rows.format = recipe::Format::alpaca;
  std::vector<std::string> names;
  for (const TextFile& file : files_of(std::vector{rows})) names.push_back(file.path.filename().string());
  CHECK(names == std::vector<std::string>{"a.json.gz", "b.jsonl", "e.ndjson"});
  CHECK(holds_rows(rows));
  CHECK_FALSE(holds_rows(source(dir.path() / "d")));
  CHECK(holds_rows(source(dir.path() / "d/b.jsonl")));
  CHECK(holds_rows(source(dir.path() / "d/a.json.gz")));
  CHECK_FALSE(holds_rows(source(dir.path() / "d/c.txt")));
}

}  // namespace
}  // namespace zt::data
