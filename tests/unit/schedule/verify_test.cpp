#include <doctest/doctest.h>

#include <algorithm>

#include "unit/schedule/lists.h"

namespace zt::schedule {
namespace {

using test::gpt;

std::string all_faults(const Schedule& s, const StepFacts& f) {
  std::string out;
  for (const Violation& v : verify(s, f)) out += v.text + "\n";
  return out;
}

Op& find(Schedule& s, OpKind kind, int block) {
  return *std::find_if(s.ops.begin(), s.ops.end(),
                       [&](const Op& o) { return o.kind == kind && o.block == block; });
}

bool says(const Schedule& s, const StepFacts& f, const std::string& what) {
  const std::string faults = all_faults(s, f);
  const bool found = faults.find(what) != std::string::npos;
  if (!found) MESSAGE("instead of `", what, "`:\n", faults);
  return found;
}

TEST_CASE("verify: a violation names op and slots") {
  const StepFacts f = gpt(2, 1);
  const Schedule good = plan_train(f, {});
  Schedule s = good;
  find(s, OpKind::backward, 1).frees.clear();
  CHECK(says(s, f, "#1 `forward b1 m0`: S.1@0 is born here and never freed"));
  s = good;
  find(s, OpKind::backward, 2).frees.push_back(slot_of(s, find(s, OpKind::backward, 1), SlotKind::X, 1));
  CHECK(says(s, f, "#4 `backward b2 m0`: frees X.1@0 without touching it"));
  CHECK(says(s, f, "#5 `backward b1 m0`: uses X.1@0 after it was freed by #4"));
  s = good;
  s.ops.erase(s.ops.begin() + 5);
  CHECK(says(s, f, "`backward b1 m0` occurs 0 times, should once"));
  s = good;
  find(s, OpKind::norm, 2).reads.clear();
  CHECK(says(s, f, "`norm b2`: must read R.2"));
  s = good;
  find(s, OpKind::backward, 1).writes.pop_back();
  CHECK(says(s, f, "must add to the gradient R.1 or G.1"));
  s = good;
  s.slots[std::size_t(slot_of(s, find(s, OpKind::forward, 1), SlotKind::S, 1))].offset =
      s.slots[std::size_t(slot_of(s, find(s, OpKind::forward, 2), SlotKind::S, 2))].offset;
  CHECK(says(s, f, "S.2@0 takes bytes of S.1@0, which lives until #5"));
}

TEST_CASE("verify: a lost wait names the op that had to be waited for") {
  const auto [f, policy] = test::over_ranks(gpt(2, 1, false), 3, {.zero = {.reduce = ReduceEvery::micro}});
  Schedule s = plan_train(f, policy);
  for (Op& op : s.ops)
    if (op.kind == OpKind::norm) op.waits.clear();
  CHECK(says(s, f, "`norm b0`: does not wait for #"));
  CHECK(says(s, f, "`reduce b0 m0`, which changes R.0"));
  s = plan_train(f, policy);
  for (Op& op : s.ops) std::erase_if(op.waits, [](int wait) { return wait < 0; });
  CHECK(says(s, f, " of the step before"));
}

TEST_CASE("verify: sums over ranks are complete, once, and only where there are several ranks") {
  const auto [f, policy] = test::over_ranks(gpt(2, 1, false), 1);
  const Schedule good = plan_train(f, policy);
  const auto without = [&](OpKind kind) {
    Schedule s = good;
    std::erase_if(s.ops, [&](const Op& op) { return op.kind == kind && op.block == 1; });
    return with_waits(std::move(s));
  };
  CHECK(says(without(OpKind::reduce), f, "R.1 is summed over ranks in place 0 times, should be 1"));
  CHECK(says(without(OpKind::gather), f, "`gather b1` occurs 0 times, should once"));
  StepFacts alone = f;
  alone.ranks = 1;
  CHECK(says(good, alone, "there is one rank, with nobody to sum with"));
  CHECK(says(good, alone, "there is one rank, with nobody to gather from"));
  StepFacts sliced = f;
  for (BlockFacts& b : sliced.blocks) b.weight_bytes /= 4;
  CHECK(says(good, sliced, "reads P.1, which is only a slice of the weights"));
}

TEST_CASE("verify: training ops have no place in an evaluation, nor does a tied head without the embedding") {
  const StepFacts f = gpt(1, 1, true);
  Schedule s = plan_train(f, {});
  s.kind = StepKind::eval;
  CHECK(says(s, f, "does not belong to an evaluation"));
  s = plan_eval(gpt(1, 1, false));
  for (Slot& slot : s.slots)
    for (const Slot& right : plan_eval(f).slots)
      if (slot.kind == right.kind && slot.block == right.block && slot.micro == right.micro)
        slot.bytes = right.bytes;
  CHECK(says(s, f, "must read the weights P.0 or W.0"));
}

TEST_CASE("verify: a list for other facts is refused") {
  const Schedule s = plan_train(gpt(2, 2), {});
  CHECK_FALSE(verify(s, gpt(3, 2)).empty());
  CHECK_FALSE(verify(s, gpt(1, 2)).empty());
  CHECK_FALSE(verify(s, gpt(2, 1)).empty());
  CHECK_FALSE(verify(s, gpt(2, 3)).empty());
}

}  // namespace
}  // namespace zt::schedule
