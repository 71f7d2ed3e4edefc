#include "data/open_data.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "device/arena.h"
#include "support/paths.h"

namespace zt::data {
namespace {
namespace fs = std::filesystem;

// A scratch folder whose subfolder `cache` is the token cache while it lives.
class CacheFolder {
 public:
  CacheFolder() { ::setenv("ZEROTRAIN_CACHE", (dir_.path() / "cache").c_str(), 1); }
  ~CacheFolder() { ::unsetenv("ZEROTRAIN_CACHE"); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  fs::path write(const std::string& name, const std::string& bytes) const { return dir_.write(name, bytes); }
  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    if (!fs::exists(dir_.path() / "cache")) return files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() / "cache"))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
  }

 private:
  test::ScratchDir dir_;
};

DataSets open_text(const recipe::Data& data, const text::Tokenizer& tokenizer, std::int64_t vocabulary) {
  return open_data(data, {&tokenizer, nullptr, nullptr, vocabulary});
}

recipe::Data settings(const std::vector<fs::path>& paths, std::int64_t length = 8) {
  recipe::Data data;
  data.sequence_length = length;
  for (const fs::path& path : paths) {
    recipe::Source source;
    source.path = path.string();
    data.train.push_back(source);
  }
  return data;
}

// Every row's ids, joined without the repeated first id of a document that goes on.
std::vector<std::int32_t> stream(const Dataset& data) {
  std::vector<std::int32_t> all;
  for (std::int64_t r = 0; r < data.rows(); ++r) {
    const Row row = data.row(r);
    const std::string& first = row.sources.front();
    const bool goes_on = first.substr(first.find('+')) != "+0";
    all.insert(all.end(), row.ids.begin() + (goes_on ? 1 : 0), row.ids.end());
  }
  return all;
}

std::string error_of(const recipe::Data& data, const text::Tokenizer& tokenizer, std::int64_t vocabulary,
                     Blame blame) {
  try {
    open_text(data, tokenizer, vocabulary);
  } catch (const Error& e) {
    CHECK(e.blame() == blame);
    return e.what();
  }
  return "no error";
}

TEST_CASE("text: documents become ids with an end token each, and a beginning token where asked for") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  recipe::Data data = settings({place.write("a.txt", "Hi|Yo")});
  data.train[0].separator = "|";
  CHECK(stream(*open_text(data, *bytes, 264).train) == std::vector<std::int32_t>{72, 105, 257, 89, 111, 257});
  data.add_bos = recipe::AddBos::yes;
  CHECK(stream(*open_text(data, *bytes, 264).train) ==
        std::vector<std::int32_t>{256, 72, 105, 257, 256, 89, 111, 257});
  data.add_eos = false;
  data.add_bos = recipe::AddBos::no;
  CHECK(stream(*open_text(data, *bytes, 264).train) == std::vector<std::int32_t>{72, 105, 89, 111});
}

TEST_CASE("text: a control token's text in the data is ordinary text") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  const auto ids = stream(*open_text(settings({place.write("a.txt", "<eos>")}, 16), *bytes, 264).train);
  CHECK(ids == std::vector<std::int32_t>{60, 101, 111, 115, 62, 257});
}

TEST_CASE("text: a byte-order mark changes no id and no split") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  for (const double fraction : {0.0, 0.3}) {
    recipe::Data plain = settings({place.write("a.txt", "0123456789")}),
                 marked = settings({place.write("b.txt",
                                                "\xEF\xBB\xBF"
                                                "0123456789")});
    if (fraction > 0) plain.validation.fraction = marked.validation.fraction = fraction;
    const DataSets a = open_text(plain, *bytes, 264), b = open_text(marked, *bytes, 264);
    CHECK(stream(*a.train) == stream(*b.train));
    if (fraction > 0) CHECK(stream(*a.validation) == stream(*b.validation));
  }
}

TEST_CASE("text: the validation part is the end of each file, and no token is in both") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  recipe::Data data = settings({place.write("a.txt", "abcdefghij"), place.write("b.txt", "ABCDEFGHIJ")});
  data.validation.fraction = 0.2;
  data.add_eos = false;
  const DataSets text = open_text(data, *bytes, 264);
  CHECK(bytes->decode(stream(*text.train)) == "abcdefghABCDEFGH");
  CHECK(bytes->decode(stream(*text.validation)) == "ijIJ");
}

TEST_CASE("text: a cache is used again, and made anew when content, tokenizer or options change") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  const fs::path path = place.write("a.txt", "some text to learn");
  recipe::Data data = settings({path});
  const auto open = [&] { return open_text(data, *bytes, 264).train->tokens(); };
  open();
  REQUIRE(place.cached().size() == 1);
  const fs::path first = place.cached()[0];
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(first, old);
  open();
  data.sequence_length = 5;  // cuts rows, not ids
  open();
  data.train[0].path = place.write("moved.txt", "some text to learn").string();
  open();
  CHECK(place.cached().size() == 1);
  CHECK(fs::last_write_time(first) == old);

  std::size_t expected = 1;
  const auto check_new = [&](const char* what) {
    INFO(what);
    open();
    CHECK(place.cached().size() == ++expected);
  };
  data.add_eos = false;
  check_new("without end token");
  data.add_bos = recipe::AddBos::yes;
  check_new("with beginning token");
  place.write("moved.txt", "some text to learm");
  check_new("other content of the same size");
  data.train[0].separator = " ";
  check_new("separator");
  const auto characters = text::char_tokenizer("some text to learm");
  data.add_bos = recipe::AddBos::no;
  open_text(data, *characters, 264);
  CHECK(place.cached().size() == ++expected);
  open_text(data, *characters, 265);
  CHECK(place.cached().size() == ++expected);
  data.validation.fraction = 0.4;
  open_text(data, *characters, 265);
  CHECK(place.cached().size() == (expected += 2));
}

TEST_CASE("text: a damaged cache is refused with the cure") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  const recipe::Data data = settings({place.write("a.txt", "some text to learn")});
  open_text(data, *bytes, 264);
  const fs::path cache = place.cached().at(0);
  std::string content = test::read_file(cache);
  content[60] ^= 1;
  std::ofstream(cache, std::ios::binary) << content;
  const std::string error = error_of(data, *bytes, 264, Blame::data);
  CHECK(error.find(cache.string()) != std::string::npos);
  CHECK(error.find("delete it") != std::string::npos);
  fs::remove(cache);
  CHECK(error_of(data, *bytes, 264, Blame::data) == "no error");
}

TEST_CASE("text: an id beyond the model's vocabulary names the token, and leaves no cache") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  const recipe::Data data = settings({place.write("a.txt", "some text")});
  const std::string letter = error_of(data, *bytes, 110, Blame::model);
  CHECK(letter.find("id 115 ('s')") != std::string::npos);
  CHECK(letter.find("110 embedding rows") != std::string::npos);
  // The text's own ids fit; the end token's does not.
  const std::string end = error_of(data, *bytes, 257, Blame::model);
  CHECK(end.find("id 257 ('<eos>')") != std::string::npos);
  CHECK(place.cached().empty());
}

TEST_CASE("text: every unreadable file is named at once") {
  const CacheFolder place;
  const auto characters = text::char_tokenizer("abc");
  const std::string one = error_of(settings({place.write("a.txt", "abx")}), *characters, 3, Blame::data);
  CHECK(one.find("a.txt") != std::string::npos);
  const std::string two = error_of(
      settings({place.write("a.txt", "abx"), place.write("b.txt", "abc"), place.write("c.txt", "ab\xff")}),
      *characters, 3, Blame::data);
  CHECK(two.find("a.txt") != std::string::npos);
  CHECK(two.find("b.txt") == std::string::npos);
  CHECK(two.find("c.txt") != std::string::npos);
}

TEST_CASE("text: data without anything to train on is an error before step 1") {
  const CacheFolder place;
  const auto bytes = text::byte_tokenizer();
  recipe::Data data = settings({place.write("a.txt", "x")});
  data.add_eos = false;
  CHECK(error_of(data, *bytes, 264, Blame::data).find("no row with a token to train on") !=
        std::string::npos);
  data = settings({place.write("b.txt", " \n\t \n")});
  CHECK(error_of(data, *bytes, 264, Blame::data).find("no row with a token to train on") !=
        std::string::npos);
  data = settings({place.write("c.txt", "")});
  CHECK(error_of(data, *bytes, 264, Blame::data).find("no row") != std::string::npos);
  data = settings({place.write("d.txt", "abc")});
  data.validation.fraction = 0.01;
  CHECK(error_of(data, *bytes, 264, Blame::data).find("training") == std::string::npos);
}

TEST_CASE("text: a beginning token that the tokenizer does not have is a usage error") {
  const CacheFolder place;
  const auto characters = text::char_tokenizer("abc");
  recipe::Data data = settings({place.write("a.txt", "abc")});
  data.add_bos = recipe::AddBos::yes;
  CHECK(error_of(data, *characters, 3, Blame::usage).find("add_bos") != std::string::npos);
}

TEST_CASE("text: a document of more than one piece gives the ids of the whole") {
  const CacheFolder place;
  // Three-byte characters without any line end, then lines: cuts of both kinds.
  std::string text;
  while (text.size() < (std::size_t{33} << 20)) text += "€‰";
  while (text.size() < (std::size_t{70} << 20)) text += "a line of text \n \nand another\n";
  const auto characters = text::char_tokenizer(text.substr(text.size() - 100) + "€‰");
  const auto whole = characters->encode(text);
  recipe::Data data = settings({place.write("a.txt", text)}, 1 << 16);
  const DataSets opened = open_text(data, *characters, characters->vocabulary());
  CHECK(opened.train->tokens() == std::int64_t(whole.size()));
  CHECK(stream(*opened.train) == whole);
}

TEST_CASE("text: the ids of tinyshakespeare by byte are its bytes") {
  const auto path = test::test_data("text/tinyshakespeare.txt");
  if (!path) return;
  const CacheFolder place;
  recipe::Data data = settings({*path}, 1024);
  data.add_eos = false;
  data.validation.fraction = 0.1;
  const DataSets text = open_text(data, *text::byte_tokenizer(), 264);
  CHECK(text.train->tokens() == 1003854);
  CHECK(text.validation->tokens() == 111540);
  const auto ids = stream(*text.train);
  const std::string bytes = test::read_file(*path);
  CHECK(std::ranges::equal(ids, bytes.substr(0, 1003854), [](std::int32_t id, char byte) {
    return id == static_cast<unsigned char>(byte);
  }));
}

}  // namespace
}  // namespace zt::data
