#include "train/tensorboard.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <csignal>

#include "base/text.h"
#include "support/paths.h"

namespace zt::train {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

// RFC 3720 (iSCSI), appendix B.4, and the check value of the CRC catalogue ("123456789").
TEST_CASE("tensorboard: CRC-32C gives the published values") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i), down += static_cast<char>(31 - i);
  CHECK(crc32c(up) == 0x46dd794e);
  CHECK(crc32c(down) == 0x113fdb5c);
  CHECK(crc32c("123456789") == 0xe3069283);
}

// The first record that TensorFlow's FileWriter writes begins with these bytes whatever it holds: 24 is the length of
// an Event with wall_time and file_version "brain.Event:2".
TEST_CASE("tensorboard: a file begins as TensorFlow's own do") {
  const std::string event = version_event(1.5);
  CHECK(event == bytes_of({0x09}) + std::string(6, '\0') + bytes_of({0xf8, 0x3f}) + bytes_of({0x10, 0x00}) +
                     bytes_of({0x1a, 13}) + "brain.Event:2");
  const std::string record = tf_record(event);
  REQUIRE(record.size() == event.size() + 16);
  CHECK(record[0] == static_cast<char>(event.size()));
  CHECK(record.substr(1, 7) == std::string(7, '\0'));
  CHECK(record.substr(12, event.size()) == event);
}

// Whole records of a file, by their lengths.
std::vector<std::string> records(const fs::path& path) {
  const std::string bytes = test::read_file(path);
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < bytes.size()) {
    REQUIRE(at + 12 <= bytes.size());
    std::size_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<unsigned char>(bytes[at + std::size_t(i)]);
    REQUIRE(at + 16 + length <= bytes.size());
    out.push_back(bytes.substr(at + 12, length));
    CHECK(bytes.substr(at, 16 + length) == tf_record(out.back()));
    at += 16 + length;
  }
  return out;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

StepMetrics metrics_of(std::int64_t step) {
  StepMetrics m;
  m.step = step, m.loss = 2.5 / static_cast<double>(step);
  return m;
}

TEST_CASE("tensorboard: starts within a second, or after the clock went back, sort behind each other") {
  const test::ScratchDir scratch;
  const fs::path folder = scratch.path() / "tensorboard";
  scratch.write("tensorboard/events.out.tfevents.4000000000.host.1", "");
  scratch.write("tensorboard/other.txt", "");
  for (int i = 0; i < 3; ++i) TensorBoard(folder, 10 * i).step(metrics_of(10 * i + 1));
  const std::vector<fs::path> files = files_in(folder);
  REQUIRE(files.size() == 5);
  for (int i = 0; i < 3; ++i) {
    CHECK(starts_with(files[std::size_t(i) + 1].filename().string(),
                      cat("events.out.tfevents.400000000", i + 1, ".")));
    // The step number follows its key, 0x10.
    const std::vector<std::string> all = records(files[std::size_t(i) + 1]);
    REQUIRE(all.size() == 3);
    CHECK(all[1].substr(9, 2) == bytes_of({0x10, 10 * i + 1}));
    CHECK(all[1].substr(11) == bytes_of({0x3a, 2, 0x08, 1}));
    CHECK(all[2].substr(9, 2) == bytes_of({0x10, 10 * i + 1}));
  }
}

TEST_CASE("tensorboard: a disk that takes no more ends nothing and leaves whole records") {
  const test::ScratchDir scratch;
  const fs::path folder = scratch.path() / "tensorboard";
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {200u, 900u, 1000u, 1777u}) {
    CAPTURE(limit);
    TensorBoard board(folder, 0);
    rlimit small = before;
    small.rlim_cur = limit;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    for (int step = 1; step <= 5; ++step) board.step(metrics_of(step));
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    board.step(metrics_of(6));
    const fs::path file = files_in(folder).back();
    CHECK(fs::file_size(file) <= limit);
    const std::size_t whole = records(file).size();
    CHECK(whole >= 2);
    CHECK(whole < 7);
  }
  std::signal(SIGXFSZ, ignored);
}

TEST_CASE("tensorboard: a folder that can't be made ends nothing") {
  const test::ScratchDir scratch;
  scratch.write("tensorboard", "a person's file");
  TensorBoard board(scratch.path() / "tensorboard", 0);
  board.step(metrics_of(1));
  board.evaluation(1, 2.0, 100);
  CHECK(test::read_file(scratch.path() / "tensorboard") == "a person's file");
}

}  // namespace
}  // namespace zt::train
