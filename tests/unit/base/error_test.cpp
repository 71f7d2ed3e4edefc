#include "base/error.h"

#include <doctest/doctest.h>

#include <set>

namespace zt {
namespace {

constexpr Blame kAll[] = {Blame::usage, Blame::data,    Blame::model, Blame::numbers,
                          Blame::peer,  Blame::machine, Blame::bug};

TEST_CASE("error: the exit statuses are those of the user interface, all different") {
  const int statuses[] = {2, 3, 4, 5, 6, 7, 70};
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::size(kAll); ++i) {
    CHECK(exit_status(kAll[i]) == statuses[i]);
    names.insert(name(kAll[i]));
  }
  CHECK(names.size() == std::size(kAll));
}

TEST_CASE("error: the text is the problem, and the hint on a line of its own when there is one") {
  const Error bare(Blame::data, "no tokens");
  CHECK(std::string(bare.what()) == "no tokens");
  CHECK(bare.hint() == "");
  const Error hinted(Blame::machine, "disk full", "free some space");
  CHECK(std::string(hinted.what()) == "disk full\n  hint: free some space");
  CHECK(hinted.blame() == Blame::machine);
  CHECK(hinted.problem() == "disk full");
  CHECK(hinted.hint() == "free some space");
}

TEST_CASE("problems: none is no error; several are one error that lists all in order") {
  Problems problems;
  CHECK(problems.empty());
  CHECK_NOTHROW(problems.throw_if_any(Blame::usage, "recipe has problems:"));
  problems.add("line 1: a");
  problems.add("line 2: b");
  CHECK(problems.list() == std::vector<std::string>{"line 1: a", "line 2: b"});
  try {
    problems.throw_if_any(Blame::usage, "recipe has problems:", "see the manual");
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    CHECK(std::string(e.what()) == "recipe has problems:\n  line 1: a\n  line 2: b\n  hint: see the manual");
  }
}

}  // namespace
}  // namespace zt
