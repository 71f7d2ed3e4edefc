#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/recipes.h"
#include "report/report_page.h"
#include "support/paths.h"

namespace zt::report {
namespace {

using test::ScratchDir;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST_CASE("report: files that nest without end are left out with a note, and the page comes") {
  struct Case {
    const char* file;
    std::string text, note;
  };
  const int levels = 1'000'000;
  const std::vector<Case> cases = {
      {"run.json", cat(R"({"a":)", repeated("[", levels), repeated("]", levels), "}"),
       "nests deeper than 64 levels"},
      {"run.json", repeated(R"({"a":)", levels / 2), "run.json"},
      {"trace.json", cat(R"({"step":)", repeated("[", levels), repeated("]", levels), "}"), "'step' must be"},
      {"events.jsonl", cat(repeated("[", 500'000), "\n"), "events.jsonl has 1 broken lines"},
      {"events.jsonl", cat(R"({"event":"start","a":)", repeated("[", 400'000), repeated("]", 400'000), "}\n"),
       ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.file);
    CAPTURE(c.note);
    const ScratchDir folder;
    folder.write("metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
    folder.write(c.file, c.text);
    const Run run = read_run(folder.path());
    CHECK(report_page({run}).size() > 1000);
    std::string notes;
    for (const std::string& note : run.notes) notes += note + "\n";
    CHECK_MESSAGE(notes.find(c.note) != std::string::npos, notes);
  }
}

TEST_CASE("report: recipes whose aliases multiply, or hold themselves, are compared in bounded time") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i)
    text += cat("a", i, ": &a", i, " [", repeated(cat("*a", i - 1, ", "), 9), "*a", i - 1, "]\n");
  const auto values = recipe_values(text);
  CHECK(values.size() > 1000);
  CHECK(values.size() <= 100'000);
  CHECK(values.at("a0[9]") == "x");
  CHECK(recipe_values("a: &a [*a, 1]\nb: 2\n").size() < 100);
  CHECK(recipe_values(repeated("[", 100'000)).empty());
}

}  // namespace
}  // namespace zt::report
