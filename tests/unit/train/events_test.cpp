#include "train/events.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "e2e/program.h"
#include "support/paths.h"

namespace zt::train {
namespace {

TEST_CASE("events: one object a line with time, step, event, text and more; appended by the next start") {
  const test::ScratchDir scratch;
  const auto path = scratch.path() / "events.jsonl";
  Events(path).note(EventKind::start, 0, "began");
  Events(path).note(EventKind::rewind, 7, "back", {{"rows", {"a", "b"}}, {"back_to", 5}});
  const auto lines = test::json_lines(test::read_file(path));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["event"] == "start");
  CHECK(lines[0]["time"].get<std::string>().size() == 20);  // 2026-11-30T04:00:00Z
  CHECK(lines[1]["step"] == 7);
  CHECK(lines[1]["rows"] == nlohmann::json({"a", "b"}));
  CHECK(lines[1]["back_to"] == 5);
}

TEST_CASE("events: half a line of a killed run stays half a line") {
  const test::ScratchDir scratch;
  const auto path = scratch.write("events.jsonl", "{\"time\": \"20");
  Events(path).note(EventKind::resume, 3, "went on");
  const std::string text = test::read_file(path);
  CHECK(text.starts_with("{\"time\": \"20\n{\"time\":"));
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("events: a folder that takes no file is an error; a disk that gets full later is not") {
  CHECK_THROWS_AS(Events("/nonexistent/events.jsonl"), Error);
  Events full("/dev/full");
  full.note(EventKind::start, 0, "began");  // warns
  full.note(EventKind::done, 1, "complete");
}

TEST_CASE("events: bytes that are no UTF-8 don't end a run") {
  const test::ScratchDir scratch;
  Events(scratch.path() / "e").note(EventKind::skip, 1, "row \xff");
  CHECK(test::json_lines(test::read_file(scratch.path() / "e")).size() == 1);
}

}  // namespace
}  // namespace zt::train
