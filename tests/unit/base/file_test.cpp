#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "base/text.h"
#include "support/paths.h"

namespace zt {
namespace {

namespace fs = std::filesystem;
using test::ScratchDir;

// The Error that `work` throws.
Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {Blame::bug, ""};
}

int files_in(const fs::path& folder) {
  return int(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("file: what is written is read back, byte for byte, by every reader") {
  const ScratchDir dir;
  std::string bytes(100'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(i * 31 + i / 256);
  for (const std::string& content : {std::string(), std::string("x"), std::string("\0\n\r\xff", 4), bytes}) {
    CAPTURE(content.size());
    write_file(dir.path() / "f", content);
    CHECK(read_text_file(dir.path() / "f", Blame::data) == content);
    CHECK(MappedFile(dir.path() / "f", Blame::data).text() == content);
    CHECK(digest_of_file(dir.path() / "f", Blame::data) == digest_of(content));
    CHECK(files_in(dir.path()) == 1);
  }
}

TEST_CASE("file: a relative name without a folder is written to the current folder") {
  const ScratchDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  write_file("plain", "here");
  fs::current_path(before);
  CHECK(test::read_file(dir.path() / "plain") == "here");
}

TEST_CASE("file: writing replaces the file as a whole; readers of the old one keep the old bytes") {
  const ScratchDir dir;
  const fs::path path = dir.path() / "f";
  write_file(path, "old content");
  const MappedFile old(path, Blame::data);
  write_file(path, "new");
  CHECK(old.text() == "old content");
  CHECK(test::read_file(path) == "new");
}

TEST_CASE("file: a write that fails leaves the old file as it was and no partial one beside it") {
  // The target is a folder with something in it, so the last step, the renaming, must fail.
  const ScratchDir dir;
  dir.write("target/inside", "kept");
  const Error e = error_of([&] { write_file(dir.path() / "target", "new"); });
  CHECK(e.blame() == Blame::machine);
  CHECK(e.problem() == cat("cannot rename to ", (dir.path() / "target").string(), ": Is a directory"));
  CHECK(test::read_file(dir.path() / "target/inside") == "kept");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("file: links and pipes stay what they are, and the bytes go through them") {
  const ScratchDir folder;
  const fs::path real = folder.write("real.txt", "old"), link = folder.path() / "link",
                 pipe = folder.path() / "pipe";
  fs::create_symlink(real, link);
  write_file(link, "new");
  CHECK(fs::is_symlink(link));
  CHECK(read_text_file(real, Blame::usage) == "new");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(write_file(pipe, "nobody reads"), Error);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file(pipe, "words");
  char got[16] = {};
  CHECK(::read(reader, got, sizeof got) == 5);
  CHECK(std::string(got) == "words");
  ::close(reader);
  CHECK(fs::is_fifo(pipe));
  CHECK(files_in(folder.path()) == 3);
}

TEST_CASE("file: a full disk is the machine's fault, says so, and leaves nothing") {
  if (!fs::exists("/dev/full")) return;
  const ScratchDir dir;
  fs::create_symlink("/dev/full", dir.path() / "f.partial");
  const Error e = error_of([&] { write_file(dir.path() / "f", "bytes"); });
  CHECK(e.blame() == Blame::machine);
  CHECK(e.problem().find("No space left on device") != std::string::npos);
  CHECK(e.hint() == "is the folder writable, and is there space on the disk?");
  CHECK_FALSE(fs::exists(dir.path() / "f"));
}

TEST_CASE("file: a missing folder is named with the system's reason") {
  const ScratchDir dir;
  const Error e = error_of([&] { write_file(dir.path() / "no/f", "x"); });
  CHECK(e.blame() == Blame::machine);
  CHECK(e.problem() ==
        cat("cannot create ", (dir.path() / "no/f.partial").string(), ": No such file or directory"));
}

TEST_CASE("file: a missing file is the fault of whom the caller blames, for every reader") {
  const ScratchDir dir;
  const fs::path path = dir.path() / "none";
  for (const Blame blame : {Blame::data, Blame::usage, Blame::model}) {
    for (const auto& read : {std::function<void()>([&] { read_text_file(path, blame); }),
                             std::function<void()>([&] { MappedFile(path, blame); }),
                             std::function<void()>([&] { digest_of_file(path, blame); })}) {
      const Error e = error_of(read);
      CHECK(e.blame() == blame);
      CHECK(e.problem() == cat("cannot open ", path.string(), ": No such file or directory"));
      CHECK(e.hint() == "check the path; relative paths start at the current folder");
    }
  }
}

TEST_CASE("file: folders and devices are refused by every reader, not read") {
  const ScratchDir dir;
  for (const fs::path& path : {dir.path(), fs::path("/dev/zero")}) {
    for (const auto& read : {std::function<void()>([&] { read_text_file(path, Blame::data); }),
                             std::function<void()>([&] { MappedFile(path, Blame::data); }),
                             std::function<void()>([&] { digest_of_file(path, Blame::data); })}) {
      const Error e = error_of(read);
      CHECK(e.blame() == Blame::data);
      CHECK(e.problem() == path.string() + " is not a regular file");
    }
  }
}

TEST_CASE("file: a pipe nobody writes to is refused at once instead of waiting for ever") {
  const ScratchDir dir;
  const fs::path path = dir.path() / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  ::alarm(20);  // a reader that waits ends the program here
  const Error e = error_of([&] { read_text_file(path, Blame::data); });
  ::alarm(0);
  CHECK(e.problem() == path.string() + " is not a regular file");
}

TEST_CASE("file: a file over the limit is refused with both numbers; one at the limit is read") {
  const ScratchDir dir;
  const fs::path path = dir.write("f", "12345");
  CHECK(read_text_file(path, Blame::usage, 5) == "12345");
  const Error e = error_of([&] { read_text_file(path, Blame::usage, 4); });
  CHECK(e.blame() == Blame::usage);
  CHECK(e.problem() == path.string() + " has 5 bytes; at most 4 are read here");
}

TEST_CASE("mapped file: moves hand the mapping over; an empty or moved-from one has no bytes") {
  const ScratchDir dir;
  MappedFile a(dir.write("a", "aaa"), Blame::data);
  MappedFile b(std::move(a));
  CHECK(a.bytes().empty());
  CHECK(b.text() == "aaa");
  MappedFile c(dir.write("c", "cc"), Blame::data);
  c = std::move(b);
  CHECK(c.text() == "aaa");
  CHECK(MappedFile(dir.write("e", ""), Blame::data).bytes().empty());
  CHECK(MappedFile().text().empty());
}

TEST_CASE("digest: is XXH3 with 128 bits, as the xxHash project's own test vectors give it") {
  CHECK(digest_of("") == "99aa06d3014798d86001c324468d497f");
  CHECK(digest_of("a") != digest_of("b"));
}

TEST_CASE("digest: pieces of a large file make the digest of the whole") {
  const ScratchDir dir;
  for (const std::size_t size : {(1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3'000'001u}) {
    std::string bytes(size, 'x');
    bytes.back() = 'y';
    write_file(dir.path() / "f", bytes);
    CHECK(digest_of_file(dir.path() / "f", Blame::data) == digest_of(bytes));
  }
}

}  // namespace
}  // namespace zt
