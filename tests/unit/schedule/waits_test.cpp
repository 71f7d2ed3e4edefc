#include <doctest/doctest.h>

#include "unit/schedule/lists.h"

namespace zt::schedule {
namespace {

// Lists written by hand; what each op must wait for follows from the rules in the comment of each line.
constexpr Lane kCompute = Lane::compute, kComm = Lane::comm;

Op op(OpKind kind, Lane lane, std::vector<SlotId> reads, std::vector<SlotId> writes,
      std::vector<SlotId> births, std::vector<SlotId> frees) {
  return {.kind = kind, .lane = lane, .reads = reads, .writes = writes, .births = births, .frees = frees};
}

std::vector<std::vector<int>> waits_of(const Schedule& s) {
  std::vector<std::vector<int>> all;
  for (const Op& o : with_waits(s).ops) all.push_back(o.waits);
  return all;
}

using Waits = std::vector<std::vector<int>>;

TEST_CASE("waits: weights in one buffer are gathered when the reader before has finished") {
  const auto W = [](int block) { return Slot{SlotKind::W, block, -1, 0, 64, 0}; };
  Schedule s;
  s.slots = {W(0), W(1), {SlotKind::P, 0, -1, 0, 64, -1}, {SlotKind::P, 1, -1, 0, 64, -1}};
  s.ops = {op(OpKind::gather, kComm, {2}, {}, {0}, {}),       // takes the bytes of W.1 of the step before: #3
           op(OpKind::forward, kCompute, {0}, {}, {}, {0}),   // reads what #0 wrote
           op(OpKind::gather, kComm, {3}, {}, {1}, {}),       // takes the bytes that #1 reads
           op(OpKind::forward, kCompute, {1}, {}, {}, {1})};  // reads what #2 wrote
  CHECK(waits_of(s) == Waits{{-1}, {0}, {1}, {2}});
  s.slots[1].offset = 64;  // a buffer of its own: nothing of this step to wait for
  CHECK(waits_of(s) == Waits{{-3}, {0}, {-1}, {2}});
}

TEST_CASE("waits: a gather waits for the update of the step before, and an update for the gather") {
  Schedule s;
  s.slots = {
      {SlotKind::P, 0, -1, 0, 64, -1}, {SlotKind::W, 0, -1, 0, 64, 0}, {SlotKind::P, 1, -1, 0, 64, -1}};
  s.ops = {op(OpKind::gather, kComm, {0}, {}, {1}, {}),      // P.0 was changed by #2 of the step before
           op(OpKind::forward, kCompute, {1}, {}, {}, {1}),  // W.0
           op(OpKind::update, kCompute, {}, {0}, {}, {}),    // P.0 is read by #0; #1 knows that already
           op(OpKind::update, kCompute, {}, {2}, {}, {})};   // nothing
  CHECK(waits_of(s) == Waits{{-2}, {0}, {}, {}});
}

TEST_CASE("waits: what another wait already knows is not waited for again") {
  Schedule s;
  s.slots = {
      {SlotKind::R, 0, -1, 0, 64, -1}, {SlotKind::R, 1, -1, 0, 64, -1}, {SlotKind::norm, -1, -1, 0, 64, -1}};
  s.ops = {op(OpKind::backward, kCompute, {}, {0}, {}, {}),
           op(OpKind::reduce, kComm, {0}, {1}, {}, {}),         // #0 wrote R.0
           op(OpKind::norm, Lane::copy, {0, 1}, {2}, {}, {})};  // needs #0 and #1, and #1 waited for #0
  const Waits waits = waits_of(s);
  CHECK(waits[0] == std::vector<int>{-1});  // the norm still reads R.0; it waited for #1 itself
  CHECK(waits[1] == std::vector<int>{0});
  CHECK(waits[2] == std::vector<int>{1});
}

}  // namespace
}  // namespace zt::schedule
