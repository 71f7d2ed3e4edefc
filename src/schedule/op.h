// What a step is made of: ops and the slots they touch. Plain data: no closures, no tensors, no ranks.
//
// A model is a row of blocks: b0 embedding, b1..bL transformer, b(L+1) head (final norm, LM head, loss).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zt::schedule {

// The closed set of things a step does. One op is one block's worth of work; inside it is ordinary code.
//
//   forward    X.k, weights -> X.(k+1), S.k                       k = 0..L; b0 reads `batch` instead of X.0
//   head       X.(L+1), weights, batch -> loss, D; adds to the gradient. In `eval`: only the loss
//   recompute  X.k, weights -> S.k and, inside a segment, X.(k+1) again
//   backward   X.k, S.k, D, weights -> D in place; adds to the gradient. b0 frees D
//   accumulate G.k -> adds to R.k, on this rank alone
//   gather     P.k -> W.k, the owned slices of all ranks; or P.k whole in place, from updated slices
//   reduce     G.k, summed over ranks -> adds to R.k; or R.k in place
//   norm       of a block: R.k -> its part in norm; without a block: all parts of all ranks -> norm
//   update     norm, R.k -> P.k, O.k; leaves R.k zero, so that the next step may add to it
//
// gather and reduce occur with several ranks only.
enum class OpKind : std::uint8_t {
  gather,
  forward,
  recompute,
  head,
  backward,
  accumulate,
  reduce,
  norm,
  update
};

// Each lane is first-in first-out.
enum class Lane : std::uint8_t { compute, comm, copy };
inline constexpr int kLanes = 3;

// X block input, S saved inner activations, D gradient of a block input, W gathered weights, G whole
// gradient: slots in the arena. P owned weights, R owned gradient, O master weights and moments, and the
// small ones: permanent, outside the arena.
enum class SlotKind : std::uint8_t { X, S, D, W, G, P, R, O, loss, norm, batch, workspace };

using SlotId = int;  // index into Schedule::slots
inline constexpr SlotId kNoSlot = -1;

// A piece of memory with one lifetime. Arena slots are born once and freed once; permanent ones always exist.
struct Slot {
  SlotKind kind = SlotKind::X;
  int block = -1;      // -1: not of one block (D, loss, norm, batch, workspace)
  int micro = -1;      // -1: not of one micro-batch
  int generation = 0;  // how many earlier slots have the same kind, block and micro; printed as primes
  std::int64_t bytes = 0;
  std::int64_t offset = -1;  // in the arena, a multiple of kAlignment; -1 for permanent slots
  friend bool operator==(const Slot&, const Slot&) = default;
};
inline constexpr std::int64_t kAlignment = 64;

struct Op {
  OpKind kind = OpKind::forward;
  Lane lane = Lane::compute;
  int block = -1;  // -1: the norm of all blocks
  int micro = -1;  // -1: norm, update; the gathers and reductions that serve several micro-batches
  std::vector<SlotId> reads = {};   // must be there and finished
  std::vector<SlotId> writes = {};  // changed in place (so also read)
  std::vector<SlotId> births = {};  // exist from here: overwritten whole, their old bytes mean nothing
  std::vector<SlotId> frees = {};   // last touched here: in reads, writes or, as scratch, births
  std::vector<int> waits = {};      // derived: ops that must have finished; -1 = last op of the step before
  friend bool operator==(const Op&, const Op&) = default;
};

bool permanent(SlotKind kind);
inline bool permanent(const Slot& slot) { return permanent(slot.kind); }

const char* name(OpKind kind);
const char* name(Lane lane);
const char* name(SlotKind kind);
std::string name(const Slot& slot);  // "X.3", "S.2@1" (micro-batch 1), "S.2@1'" (born a second time), "loss"
std::string name(const Op& op);      // "forward b3 m0", "update b1", "norm"

}  // namespace zt::schedule
