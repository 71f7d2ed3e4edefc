#include "data/byte_stream.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "packed.h"
#include "support/paths.h"

using namespace zt;
using namespace zt::data;

namespace {

// Everything in the stream, in reads of `step` bytes; the message of the error that ended it goes to `damage`.
std::string drain(ByteStream& stream, std::size_t step, std::string* damage = nullptr) {
  std::string out;
  std::vector<char> piece(step);
  try {
    for (;;) {
      const std::size_t got = stream.read(piece);
      out.append(piece.data(), got);
      if (got == 0) return out;
    }
  } catch (const Error& error) {
    CHECK(error.blame() == Blame::data);
    REQUIRE(damage != nullptr);
    *damage = error.problem();
    return out;
  }
}

std::string unlike_text(std::size_t size) {
  std::string out(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : out) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

}  // namespace

TEST_CASE("byte stream: plain, packed and packed in parts give the same bytes, in reads of any size") {
  const test::ScratchDir dir;
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string("{}\n[]"), unlike_text(700'000)}) {
    const std::string half = bytes.substr(0, bytes.size() / 2), rest = bytes.substr(bytes.size() / 2);
    const std::vector<std::string> files = {bytes, test::gzip(bytes), test::gzip(half) + test::gzip(rest),
                                            test::gzip(bytes) + std::string(1000, '\0'),
                                            test::gzip("") + test::gzip(bytes) + test::gzip("")};
    for (const std::string& file : files) {
      for (const std::size_t step : {std::size_t(3), std::size_t(1) << 20}) {
        if (step == 3 && bytes.size() > 1000) continue;
        ByteStream memory(file, "memory");
        CHECK(drain(memory, step) == bytes);
        CHECK(memory.file_bytes_read() == static_cast<std::int64_t>(file.size()));
        ByteStream disk(dir.write("file", file));
        CHECK(drain(disk, step) == bytes);
        CHECK(disk.file_bytes() == static_cast<std::int64_t>(file.size()));
        CHECK(disk.compressed() == (&file != &files.front()));
      }
    }
  }
}

TEST_CASE("byte stream: every cut of a gzip file is noticed, and what came before it is delivered") {
  const std::string bytes = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n";
  const std::string file = test::gzip(bytes);
  for (std::size_t size = 2; size < file.size(); ++size) {
    INFO("cut to ", size, " of ", file.size());
    ByteStream stream(file.substr(0, size), "some.gz");
    std::string damage;
    const std::string got = drain(stream, 100, &damage);
    CHECK(bytes.substr(0, got.size()) == got);
    CHECK(damage.find("some.gz are damaged at byte " + std::to_string(size)) != std::string::npos);
    CHECK(damage.find("the file is cut") != std::string::npos);
  }
}

TEST_CASE("byte stream: a changed byte anywhere in packed data is noticed") {
  const std::string bytes = unlike_text(200);
  const std::string file = test::gzip(bytes);
  // Bytes 4 to 9 of the header are the time, hints and the system (RFC 1952, section 2.3).
  for (std::size_t at = 10; at < file.size(); ++at) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    ByteStream stream(changed, "some.gz");
    std::string damage;
    const std::string got = drain(stream, 1 << 20, &damage);
    // Bytes that don't pack are stored; five bits behind that block's header mean nothing (RFC 1951, 3.2.4).
    const bool means_nothing = got == bytes && at == 10;
    CHECK((damage.find("damaged at byte") != std::string::npos || means_nothing));
  }
}

TEST_CASE("byte stream: bytes behind the packed data are refused unless they are padding") {
  ByteStream stream(test::gzip("x") + "{\"text\":\"a\"}\n", "some.gz");
  std::string damage;
  CHECK(drain(stream, 100, &damage) == "x");
  CHECK(damage.find("what follows the packed data is none") != std::string::npos);
}

TEST_CASE("byte stream: absent files and folders are refused by name") {
  const test::ScratchDir dir;
  CHECK_THROWS_WITH_AS(ByteStream(dir.path() / "absent.jsonl"),
                       doctest::Contains("absent.jsonl: No such file"), Error);
  CHECK_THROWS_WITH_AS(ByteStream{dir.path()}, doctest::Contains("is not a regular file"), Error);
}
