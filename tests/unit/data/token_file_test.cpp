#include "data/token_file.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "data/preparation.h"
#include "device/arena.h"
#include "support/paths.h"

namespace zt::data {
namespace {
namespace fs = std::filesystem;

using Ids = std::vector<std::int32_t>;

fs::path write_tokens(const fs::path& path, std::int64_t vocabulary, const std::vector<Ids>& documents) {
  TokenFileWriter out(path, vocabulary);
  for (const Ids& ids : documents) {
    out.add(ids);
    out.end_document();
  }
  out.finish();
  return path;
}

std::vector<Ids> read_tokens(const fs::path& path) {
  const TokenFile file(path);
  std::vector<Ids> documents;
  for (std::int64_t d = 0; d < file.documents(); ++d) {
    documents.emplace_back();
    for (std::int64_t i = file.document_begin(d); i < file.document_begin(d + 1); ++i)
      documents.back().push_back(file.token(i));
  }
  return documents;
}

// How opening and checking a file ends: "" when it is sound.
std::string fault_of(const fs::path& path) {
  try {
    require_intact(path);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::data);
    CHECK(e.problem().find(path.string()) != std::string::npos);
    return e.problem();
  }
  return "";
}

TEST_CASE("token file: ids come back, two bytes wide up to a vocabulary of 65,536 and four beyond") {
  const test::ScratchDir dir;
  for (const std::int64_t vocabulary : {2, 256, 65535, 65536, 65537, 70000, 2000000000}) {
    CAPTURE(vocabulary);
    const auto highest = std::int32_t(vocabulary - 1);
    const std::vector<Ids> documents = {{0, 1, highest}, {}, {highest}, {1}};
    const fs::path path = write_tokens(dir.path() / "a.tokens", vocabulary, documents);
    CHECK(read_tokens(path) == documents);
    CHECK(fault_of(path).empty());
    const std::uintmax_t width = vocabulary <= 65536 ? 2 : 4;
    CHECK(fs::file_size(path) == 56 + (5 * width + 7) / 8 * 8 + 5 * 8);
  }
}

TEST_CASE("token file: id 65,541 of a vocabulary of 70,000 survives") {
  const test::ScratchDir dir;
  CHECK(read_tokens(write_tokens(dir.path() / "a.tokens", 70000, {{65541, 5}})) ==
        std::vector<Ids>{{65541, 5}});
}

TEST_CASE("token file: its bytes are those the format's page tells") {
  const test::ScratchDir dir;
  const std::string bytes = test::read_file(write_tokens(dir.path() / "a.tokens", 300, {{1, 258}, {3}}));
  const std::string body(
      "\1\0\2\1\3\0\0\0"  // ids, padded to eight bytes
      "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0",
      32);
  REQUIRE(bytes.size() == 88);
  CHECK(bytes.substr(0, 32) == std::string("ZTTOKENS\2\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 32));
  CHECK(bytes.substr(56) == body);
}

TEST_CASE("token file: an empty one is sound") {
  const test::ScratchDir dir;
  const fs::path path = write_tokens(dir.path() / "a.tokens", 10, {});
  CHECK(fault_of(path).empty());
  CHECK(TokenFile(path).tokens() == 0);
  CHECK(TokenFile(path).documents() == 0);
}

TEST_CASE("token file: cut anywhere, or longer than it should be, it is refused when opened") {
  const test::ScratchDir dir;
  const std::string good = test::read_file(write_tokens(dir.path() / "a.tokens", 70000, {{1, 2, 3}, {4}}));
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    const fs::path path = dir.write("b.tokens", good.substr(0, size));
    CHECK_THROWS_WITH_AS(TokenFile{path}, doctest::Contains("is damaged"), Error);
  }
  CHECK_THROWS_AS(TokenFile{dir.write("b.tokens", good + "x")}, Error);
  CHECK_THROWS_AS(TokenFile{dir.write("b.tokens", good + good)}, Error);
  CHECK_THROWS_AS(TokenFile{dir.path() / "gone.tokens"}, Error);
}

TEST_CASE("token file: any changed bit is noticed") {
  const test::ScratchDir dir;
  const std::string good = test::read_file(write_tokens(dir.path() / "a.tokens", 300, {{1, 2, 3}, {4}}));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(at);
      CAPTURE(bit);
      std::string bad = good;
      bad[at] = char(bad[at] ^ (1 << bit));
      CHECK(fault_of(dir.write("b.tokens", bad)).find("is damaged") != std::string::npos);
    }
  }
}

TEST_CASE("token file: a header that lies about sizes reads nothing outside the file") {
  const test::ScratchDir dir;
  const std::string good = test::read_file(write_tokens(dir.path() / "a.tokens", 300, {{1, 2, 3}, {4}}));
  for (const std::int64_t lie : {std::int64_t{-1}, std::int64_t{1} << 31, std::int64_t{1} << 61,
                                 std::int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
    for (const std::size_t field : {16u, 24u, 40u, 48u}) {
      std::string bad = good;
      std::memcpy(bad.data() + field, &lie, sizeof lie);
      CHECK_THROWS_AS(TokenFile{dir.write("b.tokens", bad)}, Error);
    }
  }
}

TEST_CASE("token file: three gigabytes are read to the last token with little memory") {
  const test::ScratchDir dir;
  // All ids are a hole in the file but the last; offsets follow by hand.
  const std::int64_t tokens = (std::int64_t{3} << 30) / 2;
  const std::string header = test::read_file(write_tokens(dir.path() / "a.tokens", 300, {}));
  const fs::path path = dir.path() / "big.tokens";
  {
    std::ofstream out(path, std::ios::binary);
    const std::int64_t counts[] = {tokens, 1}, offsets[] = {0, tokens};
    out.write(header.data(), 56);
    out.seekp(16);
    out.write(reinterpret_cast<const char*>(counts), sizeof counts);
    out.seekp(56 + 2 * (tokens - 1));
    const std::uint16_t last = 258;
    out.write(reinterpret_cast<const char*>(&last), sizeof last);
    out.write(reinterpret_cast<const char*>(offsets), sizeof offsets);
    if (!out) {
      MESSAGE("no room for a sparse file of 3 GiB: skipped");
      return;
    }
  }
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts here
  const TokenFile file(path);
  CHECK(file.tokens() == tokens);
  CHECK(file.token(tokens - 1) == 258);
  CHECK(file.token(tokens - 2) == 0);
  CHECK(file.document_begin(1) == tokens);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps freed memory of earlier tests in quarantine
  CHECK(device::process_peak_bytes() < std::int64_t{256} << 20);
#endif
}

TEST_CASE("token file: it appears complete or not at all") {
  const test::ScratchDir dir;
  {
    TokenFileWriter out(dir.path() / "a.tokens", 10);
    out.add({1, 2});
    out.end_document();
    CHECK_FALSE(fs::exists(dir.path() / "a.tokens"));
  }
  CHECK(fs::is_empty(dir.path()));
  CHECK_THROWS_WITH_AS(TokenFileWriter("/proc/none/a.tokens", 10), doctest::Contains("ZEROTRAIN_CACHE"),
                       Error);
}

TEST_CASE("token file: an id outside the vocabulary is never written") {
  const test::ScratchDir dir;
  TokenFileWriter out(dir.path() / "a.tokens", 100);
  CHECK_THROWS_AS(out.add({100}), Error);
  CHECK_THROWS_AS(out.add({-1}), Error);
}

TEST_CASE("token file: the cache folder follows the environment") {
  const auto saved = [](const char* name) {
    const char* value = ::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string cache = saved("ZEROTRAIN_CACHE"), xdg = saved("XDG_CACHE_HOME"), home = saved("HOME");
  ::setenv("ZEROTRAIN_CACHE", "/a", 1);
  ::setenv("XDG_CACHE_HOME", "/b", 1);
  ::setenv("HOME", "/c", 1);
  CHECK(cache_folder() == "/a");
  ::setenv("ZEROTRAIN_CACHE", "", 1);
  CHECK(cache_folder() == "/b/zerotrain");
  ::unsetenv("XDG_CACHE_HOME");
  CHECK(cache_folder() == "/c/.cache/zerotrain");
  ::unsetenv("HOME");
  CHECK(cache_folder() == ".zerotrain-cache");
  ::setenv("ZEROTRAIN_CACHE", cache.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  ::setenv("HOME", home.c_str(), 1);
}

TEST_CASE("token file: notes that no run of ours has written are damage, whatever is in them") {
  ChunkNotes notes;
  notes.rows = 7;
  notes.faulty = 1;
  notes.faults = {{0, 3, 4, "not \xff UTF-8"}};
  const std::string good = notes.json();
  CHECK(ChunkNotes::parse(good).rows == 7);
  CHECK(ChunkNotes::parse(good).faults.at(0).line == 3);
  CHECK(ChunkNotes::parse("").rows == 0);
  const auto with = [&](const char* from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), std::string(from).size(), to);
  };
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("null"), std::string("{}"), good.substr(1),
        with("7", "-1"), with("7", "1e300"), with("7", "\"7\""), with("7", "9223372036854775807"),
        with("\"rows\"", "\"row\""), with("[[0,3,4", "[[4294967296,3,4"), with("[[0,3,4", "[[0,3"),
        with("[[0,3,4", "[[-1,3,4"), with("[[0,3,4", "[[0.5,3,4"), std::string(100'000, '[')}) {
    CAPTURE(bad.substr(0, 200));
    try {
      ChunkNotes::parse(bad);
      FAIL("it was taken");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::data);
      CHECK(e.problem() == "a token cache is damaged: its notes are not what this program writes");
    }
  }
}

}  // namespace
}  // namespace zt::data
