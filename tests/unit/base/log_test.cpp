#include "base/log.h"

#include <doctest/doctest.h>

#include <regex>

#include "base/error.h"
#include "base/text.h"
#include "support/paths.h"

namespace zt {
namespace {

int cleared = 0;

TEST_CASE("log: everything said after a file was named is in it, one dated line each") {
  const test::ScratchDir dir;
  const auto path = dir.path() / "log.txt";
  log::info("before");
  log::also_to_file(path.string());
  log::info("training 124M parameters {}");
  log::warn("slow disk");
  log::error("stopped");
  const auto lines = split(trim(test::read_file(path)), '\n');
  REQUIRE(lines.size() == 3);
  const std::string expected[] = {"training 124M parameters {}", "warning: slow disk", "error: stopped"};
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(lines[i]);
    CHECK(std::regex_match(lines[i].substr(0, 20), std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d ")));
    CHECK(lines[i].substr(20) == expected[i]);
  }
}

TEST_CASE("log: a file that can't be opened is the machine's fault") {
  const test::ScratchDir dir;
  dir.write("file", "");
  try {
    log::also_to_file((dir.path() / "file/log.txt").string());
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::machine);
    CHECK(e.problem().find("file/log.txt") != std::string::npos);
  }
}

TEST_CASE("log: the progress line is wiped before each message") {
  log::set_line_clearer([] { ++cleared; });
  log::info("one");
  log::warn("two");
  log::set_line_clearer(nullptr);
  log::info("three");
  CHECK(cleared == 2);
}

}  // namespace
}  // namespace zt
