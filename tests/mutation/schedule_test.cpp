// Every rule of the verifier notices its own violation: thousands of broken lists, each class made
// exhaustively.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "mutation/playback.h"
#include "unit/schedule/lists.h"

namespace zt::schedule {
namespace {

using test::gpt;

struct Case {
  StepFacts facts;
  Schedule good;
};

const std::vector<Case>& one_lane() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (bool tied : {false, true})
      for (int micros : {1, 2}) {
        for (const Policy& policy : test::all_policies())
          all.push_back({gpt(4, micros, tied), plan_train(gpt(4, micros, tied), policy)});
        all.push_back({gpt(4, micros, tied), plan_eval(gpt(4, micros, tied))});
      }
    return all;
  }();
  return cases;
}

const std::vector<Case>& two_lanes() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (bool tied : {false, true})
      for (const test::OverRanks& o : test::all_over_ranks(gpt(4, 2, tied)))
        all.push_back({o.facts, plan_train(o.facts, o.policy)});
    for (int frozen : {1, 3}) {
      const test::OverRanks o = test::over_ranks(test::with_frozen(gpt(4, 2, false), frozen), 3);
      all.push_back({o.facts, plan_train(o.facts, o.policy)});
    }
    return all;
  }();
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> all = one_lane();
  for (std::size_t i = 0; i < two_lanes().size(); i += 5) all.push_back(two_lanes()[i]);
  return all;
}

// Counts and judges the mutants of one class.
class Judge {
 public:
  explicit Judge(std::string what) : what_(std::move(what)) {}
  ~Judge() { MESSAGE(what_, ": ", made_, " mutants"); }
  void must_flag(const Case& c, const Schedule& mutant, const std::string& how) {
    ++made_;
    if (!verify(mutant, c.facts).empty()) return;
    FAIL_CHECK(what_, " survived: ", how, "\n", text(mutant));
  }
  int made() const { return made_; }

 private:
  std::string what_;
  int made_ = 0;
};

bool has(const std::vector<SlotId>& list, SlotId slot) {
  return std::find(list.begin(), list.end(), slot) != list.end();
}

bool touches(const Op& op, SlotId slot) {
  return has(op.reads, slot) || has(op.writes, slot) || has(op.births, slot) || has(op.frees, slot);
}

std::vector<int> touchers(const Schedule& s, SlotId slot) {
  std::vector<int> ops;
  for (int i = 0; i < int(s.ops.size()); ++i)
    if (touches(s.ops[std::size_t(i)], slot)) ops.push_back(i);
  return ops;
}

Schedule without_op(Schedule s, std::size_t i) {
  s.ops.erase(s.ops.begin() + std::ptrdiff_t(i));
  return with_waits(std::move(s));
}

Schedule with_op_moved(Schedule s, std::size_t from, std::size_t to) {
  const Op op = s.ops[from];
  s.ops.erase(s.ops.begin() + std::ptrdiff_t(from));
  s.ops.insert(s.ops.begin() + std::ptrdiff_t(to), op);
  return with_waits(std::move(s));
}

void lose_waits(Judge& judge, bool of_step_before) {
  for (const Case& c : two_lanes())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i)
      for (std::size_t w = 0; w < c.good.ops[i].waits.size(); ++w) {
        if ((c.good.ops[i].waits[w] < 0) != of_step_before) continue;
        Schedule mutant = c.good;
        mutant.ops[i].waits.erase(mutant.ops[i].waits.begin() + std::ptrdiff_t(w));
        judge.must_flag(c, mutant, cat("wait ", w, " of #", i));
      }
}

TEST_CASE("mutation: the unbroken lists are sound, for the verifier and in play") {
  for (const Case& c : all_cases()) {
    CHECK(verify(c.good, c.facts).empty());
    CHECK(test::first_fault_in_play(c.good, 10) == "");
  }
}

TEST_CASE("mutation: losing any one wait is noticed") {
  Judge judge("lost wait");
  lose_waits(judge, false);
  CHECK(judge.made() > 2000);
}

TEST_CASE("mutation: losing any one wait for the step before is noticed") {
  Judge judge("lost wait for the step before");
  lose_waits(judge, true);
  CHECK(judge.made() > 200);
}

TEST_CASE("mutation: freeing a slot at any use but the last is noticed") {
  Judge judge("early free");
  for (const Case& c : all_cases())
    for (SlotId slot = 0; slot < int(c.good.slots.size()); ++slot) {
      const std::vector<int> ops = touchers(c.good, slot);
      if (permanent(c.good.slots[std::size_t(slot)]) || ops.size() < 2) continue;
      for (std::size_t at = 0; at + 1 < ops.size(); ++at) {
        Schedule mutant = c.good;
        std::erase(mutant.ops[std::size_t(ops.back())].frees, slot);
        mutant.ops[std::size_t(ops[at])].frees.push_back(slot);
        judge.must_flag(c, mutant, cat(name(c.good.slots[std::size_t(slot)]), " freed by #", ops[at]));
      }
    }
  CHECK(judge.made() > 500);
}

TEST_CASE("mutation: leaks, double frees, lost births, double births and late births are noticed") {
  Judge leak("leak"), twice_freed("double free"), unborn("never born"), twice_born("double birth"),
      late("late birth");
  for (const Case& c : all_cases())
    for (SlotId slot = 0; slot < int(c.good.slots.size()); ++slot) {
      if (permanent(c.good.slots[std::size_t(slot)])) continue;
      const std::vector<int> ops = touchers(c.good, slot);
      const std::string what = name(c.good.slots[std::size_t(slot)]);
      const std::size_t first = std::size_t(ops.front()), last = std::size_t(ops.back());
      Schedule mutant = c.good;
      std::erase(mutant.ops[last].frees, slot);
      leak.must_flag(c, mutant, what);
      mutant = c.good;
      mutant.ops[first].frees.push_back(slot);
      twice_freed.must_flag(c, mutant, what);
      mutant = c.good;
      std::erase(mutant.ops[first].births, slot);
      unborn.must_flag(c, mutant, what);
      mutant = c.good;
      mutant.ops[last].births.push_back(slot);
      twice_born.must_flag(c, mutant, what);
      if (ops.size() < 2) continue;
      mutant = c.good;
      std::erase(mutant.ops[first].births, slot);
      mutant.ops[std::size_t(ops[1])].births.push_back(slot);
      late.must_flag(c, mutant, what);
    }
}

TEST_CASE("mutation: a slot moved onto a live one is noticed") {
  Judge judge("overlap");
  for (const Case& c : all_cases())
    for (SlotId a = 0; a < int(c.good.slots.size()); ++a)
      for (SlotId b = 0; b < int(c.good.slots.size()); ++b) {
        const Slot &moved = c.good.slots[std::size_t(a)], &other = c.good.slots[std::size_t(b)];
        if (a == b || permanent(moved) || permanent(other)) continue;
        const std::vector<int> of_a = touchers(c.good, a), of_b = touchers(c.good, b);
        if (of_a.back() < of_b.front() || of_b.back() < of_a.front()) continue;
        Schedule mutant = c.good;
        // The arena grows with it, so that nothing but the overlap is wrong.
        mutant.slots[std::size_t(a)].offset = other.offset + (other.bytes - 1) / kAlignment * kAlignment;
        mutant.arena_bytes += moved.bytes + other.bytes;
        judge.must_flag(c, with_waits(mutant), cat(name(moved), " onto ", name(other)));
      }
  CHECK(judge.made() > 2000);
}

TEST_CASE("mutation: slots outside the arena, askew or of wrong size are noticed") {
  Judge judge("bad place");
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < c.good.slots.size(); ++i) {
      const auto broken = [&](auto change, const char* how) {
        Schedule mutant = c.good;
        change(mutant.slots[i]);
        judge.must_flag(c, with_waits(mutant), cat(how, " ", name(c.good.slots[i])));
      };
      broken([](Slot& slot) { slot.bytes += 64; }, "larger");
      broken([](Slot& slot) { slot.bytes -= 1; }, "smaller");
      if (permanent(c.good.slots[i])) continue;
      broken([&](Slot& slot) { slot.offset = c.good.arena_bytes; }, "outside");
      broken([](Slot& slot) { slot.offset += 8; }, "askew");
      broken([](Slot& slot) { slot.offset = -64; }, "before the start");
    }
  for (const Case& c : all_cases()) {
    Schedule mutant = c.good;
    mutant.arena_bytes -= kAlignment;
    judge.must_flag(c, mutant, "arena too small");
  }
}

TEST_CASE("mutation: losing or doubling any op is noticed, whatever it is") {
  Judge lost("lost op"), twice("doubled op");
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i) {
      lost.must_flag(c, without_op(c.good, i), name(c.good.ops[i]));
      Schedule mutant = c.good;
      mutant.ops.insert(mutant.ops.begin() + std::ptrdiff_t(i), c.good.ops[i]);
      twice.must_flag(c, with_waits(std::move(mutant)), name(c.good.ops[i]));
    }
  CHECK(lost.made() > 1000);
}

TEST_CASE("mutation: updates before the norm and norms before the last gradient are noticed") {
  Judge judge("norm out of order");
  for (const Case& c : all_cases()) {
    if (c.good.kind == StepKind::eval) continue;
    std::size_t norm = 0;
    while (c.good.ops[norm].kind != OpKind::norm || c.good.ops[norm].block >= 0) ++norm;
    for (std::size_t to = norm + 1; to < c.good.ops.size(); ++to)
      judge.must_flag(c, with_op_moved(c.good, norm, to), cat("norm to ", to));
    for (std::size_t to = 0; to < norm; ++to)
      judge.must_flag(c, with_op_moved(c.good, norm, to), cat("norm to ", to));
    for (std::size_t from = norm + 1; from < c.good.ops.size(); ++from)
      if (c.good.ops[from].kind == OpKind::update)
        judge.must_flag(c, with_op_moved(c.good, from, norm), cat("update ", from, " before norm"));
  }
}

TEST_CASE("mutation: two backwards or two forwards of one micro-batch changed about are noticed") {
  Judge judge("swapped blocks");
  for (const Case& c : all_cases())
    for (OpKind kind : {OpKind::forward, OpKind::backward})
      for (std::size_t i = 0; i < c.good.ops.size(); ++i)
        for (std::size_t j = i + 1; j < c.good.ops.size(); ++j) {
          const Op &a = c.good.ops[i], &b = c.good.ops[j];
          if (a.kind != kind || b.kind != kind || a.micro != b.micro) continue;
          Schedule mutant = c.good;
          std::swap(mutant.ops[i], mutant.ops[j]);
          judge.must_flag(c, with_waits(std::move(mutant)), cat(name(a), " and ", name(b)));
        }
}

TEST_CASE("mutation: a gather behind its reader and a reduction before its gradient are noticed") {
  Judge judge("late gather, early reduction");
  for (const Case& c : two_lanes())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i) {
      const Op& op = c.good.ops[i];
      if (op.kind == OpKind::gather) {
        if (op.births.empty()) continue;  // in place: after its update, the next readers are of the next step
        const std::vector<int> ops = touchers(c.good, op.births.front());
        judge.must_flag(c, with_op_moved(c.good, i, std::size_t(ops[1])), name(op));
      }
      if (op.kind == OpKind::reduce) {
        const SlotId slot = op.frees.empty() ? op.writes.front() : op.frees.front();
        const std::vector<int> ops = touchers(c.good, slot);
        const auto before = std::lower_bound(ops.begin(), ops.end(), int(i)) - 1;
        judge.must_flag(c, with_op_moved(c.good, i, std::size_t(*before)), name(op));
      }
    }
  CHECK(judge.made() > 1000);
}

TEST_CASE("mutation: any slot that an op no longer names is noticed") {
  Judge judge("undeclared slot");
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i)
      for (auto list : {&Op::reads, &Op::writes})
        for (std::size_t at = 0; at < (c.good.ops[i].*list).size(); ++at) {
          Schedule mutant = c.good;
          auto& slots = mutant.ops[i].*list;
          const std::string what = name(c.good.slots[std::size_t(slots[at])]);
          slots.erase(slots.begin() + std::ptrdiff_t(at));
          judge.must_flag(c, with_waits(std::move(mutant)), cat(what, " of ", name(c.good.ops[i])));
        }
}

TEST_CASE("mutation: a slot of another block or micro-batch in its place is noticed") {
  Judge judge("wrong slot");
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i)
      for (auto list : {&Op::reads, &Op::writes})
        for (std::size_t at = 0; at < (c.good.ops[i].*list).size(); ++at)
          for (SlotId other = 0; other < int(c.good.slots.size()); other += 3) {
            const SlotId right = (c.good.ops[i].*list)[at];
            const Slot &a = c.good.slots[std::size_t(right)], &b = c.good.slots[std::size_t(other)];
            if (a.kind != b.kind || (a.block == b.block && a.micro == b.micro)) continue;
            if (a.kind == SlotKind::W && a.block == b.block) continue;  // the same weights
            if (has(c.good.ops[i].reads, other) || has(c.good.ops[i].writes, other)) continue;
            Schedule mutant = c.good;
            (mutant.ops[i].*list)[at] = other;
            judge.must_flag(c, with_waits(std::move(mutant)), cat(name(b), " for ", name(a)));
          }
}

TEST_CASE("mutation: waits that point forward, at themselves or two steps back are noticed") {
  Judge judge("wait out of range");
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < c.good.ops.size(); ++i)
      for (int wait : {int(i), int(i) + 1, int(c.good.ops.size()), -int(c.good.ops.size()) - 1}) {
        Schedule mutant = c.good;
        mutant.ops[i].waits.push_back(wait);
        judge.must_flag(c, mutant, cat("#", i, " waits for ", wait));
      }
}

TEST_CASE("mutation: indices that mean nothing are noticed and harm nobody") {
  Judge judge("nonsense");
  for (const Case& c : {one_lane().front(), two_lanes().front()})
    for (std::size_t i = 0; i < c.good.ops.size(); ++i)
      for (int value : {-2, 1 << 20}) {
        const auto broken = [&](auto change) {
          Schedule mutant = c.good;
          change(mutant.ops[i]);
          judge.must_flag(c, mutant, cat("#", i, " with ", value));
        };
        broken([&](Op& op) { op.reads.push_back(value); });
        broken([&](Op& op) { op.writes.push_back(value); });
        broken([&](Op& op) { op.births.push_back(value); });
        broken([&](Op& op) { op.frees.push_back(value); });
        broken([&](Op& op) { op.block = value; });
        broken([&](Op& op) { op.micro = value; });
        broken([&](Op& op) { op.lane = Lane(7); });
      }
  const Case& c = one_lane().front();
  judge.must_flag(c, {}, "empty list");
  CHECK_FALSE(verify(c.good, {}).empty());
}

TEST_CASE("mutation: a list that needs one byte more than there is, is noticed") {
  for (Case c : one_lane()) {
    c.facts.memory_bytes = c.good.arena_bytes + permanent_bytes(c.good, c.facts);
    CHECK(verify(c.good, c.facts).empty());
    c.facts.memory_bytes -= 1;
    CHECK(verify(c.good, c.facts).size() == 1);
  }
}

// Where timing decides, bytes are the judge: what the play calls faulty, the verifier must have flagged, and
// what the verifier passes must survive many more plays.
TEST_CASE("mutation: no play ever finds a fault in a list that the verifier passed") {
  std::mt19937_64 random(7);
  const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
  int faulty = 0, flagged = 0, passed = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case& c = two_lanes()[below(two_lanes().size())];
    Schedule mutant = c.good;
    Op& op = mutant.ops[below(mutant.ops.size())];
    switch (round % 4) {
      case 0:  // loses what it waits for
        op.waits.clear();
        break;
      case 1:  // changes lanes
        op.lane = Lane((int(op.lane) + 1 + int(below(2))) % kLanes);
        break;
      case 2: {  // a slot moves, waits stay as they were
        Slot& slot = mutant.slots[below(mutant.slots.size())];
        if (permanent(slot)) continue;
        const std::int64_t places = (mutant.arena_bytes - slot.bytes) / kAlignment + 1;
        slot.offset = std::int64_t(below(std::size_t(places))) * kAlignment;
        break;
      }
      case 3:  // waits for something else
        if (op.waits.empty()) continue;
        op.waits[below(op.waits.size())] -= 1 + int(below(3));
        break;
    }
    const bool sound = verify(mutant, c.facts).empty();
    const bool in_range = std::all_of(op.waits.begin(), op.waits.end(),
                                      [&](int wait) { return wait >= -int(mutant.ops.size()); });
    if (!in_range) continue;
    const std::string fault = test::first_fault_in_play(mutant, sound ? 60 : 6, std::uint64_t(round));
    if (sound) CHECK_MESSAGE(fault == "", text(mutant));
    faulty += fault.empty() ? 0 : 1;
    flagged += sound ? 0 : 1;
    passed += sound ? 1 : 0;
  }
  MESSAGE("flagged ", flagged, ", of these faulty in play ", faulty, ", passed ", passed);
  CHECK(faulty > 100);
  CHECK(passed > 100);
}

TEST_CASE("mutation: with lanes drawn at random, derived waits are enough and none is idle") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    const StepFacts f = gpt(3, 2, round % 2 == 0);
    Schedule s = plan_train(f, test::all_policies()[std::size_t(round) % test::all_policies().size()]);
    for (Op& op : s.ops) op.lane = Lane(random() % kLanes);
    s = with_waits(std::move(s));
    CHECK(verify(s, f).empty());
    CHECK(test::first_fault_in_play(s, 10, std::uint64_t(round)) == "");
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      for (std::size_t w = 0; w < s.ops[i].waits.size(); ++w) {
        Schedule mutant = s;
        mutant.ops[i].waits.erase(mutant.ops[i].waits.begin() + std::ptrdiff_t(w));
        CHECK_MESSAGE(!verify(mutant, f).empty(), "wait ", w, " of #", i, " is idle\n", text(s));
      }
  }
}

}  // namespace
}  // namespace zt::schedule
