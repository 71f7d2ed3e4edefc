// A step, planned: a flat list of ops, placed in one arena, with derived waits, verified.
//
// Three readers use the same list: the executor, the simulator and the verifier; people read its text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/op.h"
#include "schedule/policy.h"

namespace zt::schedule {

enum class StepKind : std::uint8_t { train, eval };

struct Schedule {
  StepKind kind = StepKind::train;
  std::vector<Slot> slots;
  std::vector<Op> ops;
  std::int64_t arena_bytes = 0;  // peak of the arena; a multiple of kAlignment
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// One optimizer step as every rank plays it: micros x (forward b0..bL, head, backward bL..b0), norms, update
// b0..b(L+1), and between them what moves between ranks.
// Gradients add up in R.k over the micro-batches; R.k must be zero before the very first step.
// The result is placed, waits are derived, and it has passed verify().
// Throws Error(usage) for nonsense in facts or policy, Error(machine) when it needs more than memory_bytes
// (the hint names the nearest policy that fits), Error(bug) when verify() objects.
Schedule plan_train(const StepFacts& facts, const Policy& policy);

// Loss of `micros` micro-batches without backward: no D, no R; S is scratch of its forward.
Schedule plan_eval(const StepFacts& facts, const Zero& zero = {});

// Bytes of all permanent slots, workspace and other_permanent included. Arena + this must fit the device.
std::int64_t permanent_bytes(const Schedule& schedule, const StepFacts& facts);

// The slot of this kind (and block) that `op` names in any of its lists; kNoSlot when it names none.
// A handful of comparisons. Where an op reads one generation and bears another there is no such pair of one
// kind and block, so the answer is unique; `forward bk` distinguishes X.k and X.(k+1) by block.
SlotId find_slot(const Schedule& schedule, const Op& op, SlotKind kind, int block = -1);
// The same; throws Error(bug) naming op and slot when the op does not name one.
SlotId slot_of(const Schedule& schedule, const Op& op, SlotKind kind, int block = -1);

struct Violation {
  int op;            // index of the op; -1 when it is about the whole list
  std::string text;  // "#4 `forward b1 m0`: reads X.1, which is not live"
};

// Proves, with code of its own, what design and docs promise of every list:
//   born once, used only while live, freed once, no leak; two live slots never share a byte; a reader after
//   the writer, a writer after all readers, a birth after the last touch of the bytes it takes (by vector
//   clocks over lanes and waits); all of it for two copies of the step in a row; waits point backwards only;
//   every (block, micro-batch) one forward and one backward, in the right order and with the right slots;
//   every gradient enters the norm, every block is updated once after it; sizes, arena and memory fit.
// Empty when the list is sound. Never throws for a broken list.
std::vector<Violation> verify(const Schedule& schedule, const StepFacts& facts);

// The whole list as aligned tables for people; parse() reads it back exactly.
std::string text(const Schedule& schedule);
// Throws Error(data) that lists every line it can't read.
Schedule parse(std::string_view text);
// XXH3-64 of the text, offsets and waits included, as 16 hexadecimal digits. Ranks compare it before they
// start.
std::string fingerprint(const Schedule& schedule);

}  // namespace zt::schedule
