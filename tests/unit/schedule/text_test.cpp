#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "unit/schedule/lists.h"

namespace zt::schedule {
namespace {

using test::gpt;

std::string complaint(const std::string& bad) {
  try {
    parse(bad);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::data);
    return e.what();
  }
  FAIL("was read");
  return "";
}

std::string replaced(std::string in, const std::string& what, const std::string& by) {
  const auto at = in.find(what);
  REQUIRE(at != std::string::npos);
  return in.replace(at, what.size(), by);
}

TEST_CASE("text: every list is read back exactly") {
  for (int L : {0, 1, 3, 12})
    for (int micros : {1, 11})
      for (const Policy& policy : test::all_policies()) {
        const Schedule s = plan_train(gpt(L, micros), policy);
        CHECK(parse(text(s)) == s);
      }
  for (const test::OverRanks& o : test::all_over_ranks(gpt(5, 3))) {
    const Schedule s = plan_train(o.facts, o.policy);
    CHECK(parse(text(s)) == s);
  }
  CHECK(parse(text(plan_eval(gpt(3, 2)))) == plan_eval(gpt(3, 2)));
}

TEST_CASE("text: lines have no trailing blanks") {
  const std::string printed = text(plan_train(gpt(4, 2), {Recompute::sqrt, 1}));
  CHECK(printed.find(" \n") == std::string::npos);
}

TEST_CASE("text: names say kind, block, micro-batch and generation") {
  CHECK(name(Slot{.kind = SlotKind::S, .block = 2, .micro = 1, .generation = 1}) == "S.2@1'");
  CHECK(name(Slot{.kind = SlotKind::P, .block = 0}) == "P.0");
  CHECK(name(Slot{.kind = SlotKind::D, .micro = 3}) == "D@3");
  CHECK(name(Op{.kind = OpKind::norm}) == "norm");
  CHECK(name(Op{.kind = OpKind::update, .block = 4}) == "update b4");
}

TEST_CASE("text: what can't be read is refused with line and word, all at once") {
  const std::string good = text(plan_train(gpt(2, 1), {}));
  CHECK(complaint("").find("there is no table of ops") != std::string::npos);
  CHECK(complaint("hello\nworld").find("there is no table of ops") != std::string::npos);
  CHECK(complaint(replaced(good, "train,", "trian,")).find("line 1: must be `train, arena N bytes`") !=
        std::string::npos);
  CHECK(complaint(replaced(good, "forward b1", "forwrad b1")).find("line 5: 'forwrad' is not a kind of op") !=
        std::string::npos);
  CHECK(complaint(replaced(good, "b1 m0", "z1 m0")).find("'z1' is neither a block") != std::string::npos);
  CHECK(complaint(replaced(good, "compute", "computr")).find("'computr' is not a lane") != std::string::npos);
  CHECK(complaint(replaced(good, "batch P.0", "batch P.9")).find("slot 'P.9' is not in the table of slots") !=
        std::string::npos);
  CHECK(complaint(replaced(good, "batch P.0", "batch Q.0")).find("'Q.0' is not a slot") != std::string::npos);
  CHECK(complaint(replaced(good, "\n 1  ", "\n 7  ")).find("here must stand 1") != std::string::npos);
  CHECK(complaint(replaced(good, "\nnorm ", "\nloss ")).find("slot 'loss' is listed twice") !=
        std::string::npos);
  CHECK(complaint(replaced(good, "permanent", "12")).find("must be `permanent`") != std::string::npos);
  const std::string two =
      complaint(replaced(replaced(good, "compute", "computr"), "forward b2", "forwrad b2"));
  CHECK(two.find("computr") != std::string::npos);
  CHECK(two.find("forwrad") != std::string::npos);
}

TEST_CASE("text: huge ranges and numbers are refused at once") {
  const std::string good = text(plan_train(gpt(2, 1), {}));
}

// Cut and bent texts either parse or are refused; nothing else happens.
TEST_CASE("text: damaged texts are refused or read, never worse") {
  const test::OverRanks o = test::over_ranks(gpt(1, 2), 3);
  const std::string good = text(plan_train(o.facts, o.policy));
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); i += 3)
    for (const char by : {'\0', ' ', '9', '\'', '.', '\n', '@', '\xff'}) {
      std::string bad = good;
      bad[i] = by;
      try {
        verify(parse(bad), o.facts);
      } catch (const Error& e) {
        CHECK(e.blame() == Blame::data);
        ++refused;
      }
    }
  CHECK(refused > 1000);
}

TEST_CASE("text: the fingerprint changes with any offset, wait, slot or op") {
  const test::OverRanks over = test::over_ranks(gpt(3, 2), 3);
  const Schedule s = plan_train(over.facts, over.policy);
  std::set<std::string> seen = {fingerprint(s)};
  CHECK(seen.begin()->size() == 16);
  CHECK(fingerprint(parse(text(s))) == *seen.begin());
  std::size_t changes = 1;
  const auto changed = [&](auto change) {
    Schedule other = s;
    change(other);
    seen.insert(fingerprint(other));
    ++changes;
  };
  for (std::size_t i = 0; i < s.slots.size(); ++i)
    if (!permanent(s.slots[i])) changed([&](Schedule& o) { o.slots[i].offset += 64; });
  for (std::size_t i = 0; i < s.ops.size(); ++i) {
    changed([&](Schedule& o) { o.ops[i].waits.push_back(-1); });
    changed([&](Schedule& o) { o.ops[i].lane = Lane::copy; });
    changed([&](Schedule& o) { o.ops.erase(o.ops.begin() + std::ptrdiff_t(i)); });
  }
  changed([](Schedule& o) { o.arena_bytes += 64; });
  CHECK(seen.size() == changes);
}

}  // namespace
}  // namespace zt::schedule
