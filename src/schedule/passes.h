// The planner's passes, list to list. Policies add; they do not multiply: no pass knows of another.
#pragma once

#include <map>
#include <vector>

#include "schedule/schedule.h"

namespace zt::schedule {

// What is computed, in which order, with X, S and D. Everything is kept until its last reader.
Schedule train_order(const StepFacts& facts);
Schedule eval_order(const StepFacts& facts);

// Dropped blocks keep S only inside forward, and bear it again in a recompute op before backward.
Schedule with_recompute(Schedule s, const StepFacts& facts, const Policy& policy);

// Weights are always there: every op that needs block k's weights reads P.k.
Schedule with_resident_weights(Schedule s, const StepFacts& facts);
// Weights are gathered on the comm lane, `prefetch` uses ahead of the one that needs them, and freed by their
// last reader. A use is a stretch of ops that read a block's weights with hardly anything in between.
Schedule with_gathers(Schedule s, const StepFacts& facts, const Zero& zero);

// Gradients are added to R.k where they arise.
Schedule with_owned_gradients(Schedule s, const StepFacts& facts);
// Gradients of every micro-batch arise whole in G.k. `taker` adds them to R.k: `reduce` on the comm lane, summed
// over ranks, or `accumulate` at once.
Schedule with_whole_gradients(Schedule s, const StepFacts& facts, OpKind taker);
// R.k is summed over ranks in place, once, after the last op that adds to it.
Schedule with_final_reductions(Schedule s, const StepFacts& facts);

// Appends the norm of all gradients and one update per block.
Schedule with_update(Schedule s, const StepFacts& facts);
// Whole weights are put together again on the comm lane, block by block after its update.
Schedule with_gathered_updates(Schedule s, const StepFacts& facts);

// Gives every arena slot an offset, so that the arena is as small as the live bytes allow, or nearly.
Schedule place(Schedule s);
// Derives which ops of other lanes an op must wait for, in this step and the one before.
Schedule with_waits(Schedule s);

// Blocks whose weights an op reads: its own, and b0's for a tied head. The embedding's backward needs none.
std::vector<int> weight_blocks(const Op& op, const StepFacts& facts);
// Blocks to whose gradient an op adds; frozen ones have none.
std::vector<int> gradient_blocks(const Op& op, const StepFacts& facts);

// A new slot. `generation` counts those already there with the same kind, block and micro.
SlotId add_slot(Schedule& s, SlotKind kind, int block, int micro, std::int64_t bytes, int generation = 0);
// The permanent slots of one kind, one per block and as large as the facts say; made where they are missing.
std::vector<SlotId> block_slots(Schedule& s, SlotKind kind, const StepFacts& facts,
                                std::int64_t BlockFacts::* bytes);

// Puts ops in front of the op with the given index; the list's length as an index appends.
Schedule insert_before(Schedule s, std::map<int, std::vector<Op>> inserted);

}  // namespace zt::schedule
