// Shares no code with the passes, the placement or the derivation of waits: what they assume is proven here.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "base/text.h"
#include "schedule/schedule.h"

namespace zt::schedule {
namespace {

using Report = std::vector<Violation>;

class Context {
 public:
  Context(const Schedule& schedule, const StepFacts& step_facts, Report& out)
      : s(schedule), facts(step_facts), n(int(schedule.ops.size())), report_(out) {}

  void fault(int op, const std::string& what) {
    if (op < 0) return report_.push_back({-1, what});
    report_.push_back({op, cat("#", op, " `", name(s.ops[std::size_t(op)]), "`: ", what)});
  }
  const Op& op(int i) const { return s.ops[std::size_t(i)]; }
  const Slot& slot(SlotId id) const { return s.slots[std::size_t(id)]; }
  std::string slot_name(SlotId id) const { return name(slot(id)); }

  const Schedule& s;
  const StepFacts& facts;
  const int n;

 private:
  Report& report_;
};

bool has(const std::vector<SlotId>& list, SlotId slot) {
  return std::find(list.begin(), list.end(), slot) != list.end();
}

// ---- The list is well formed: every index means something. Nothing else is looked at before this holds.

bool well_formed(Context& c) {
  bool ok = true;
  const auto fault = [&](int op, const std::string& what) {
    c.fault(op, what);
    ok = false;
  };
  for (int i = 0; i < c.n; ++i) {
    const Op& op = c.op(i);
    for (const auto* list : {&op.reads, &op.writes, &op.births, &op.frees})
      for (SlotId slot : *list)
        if (slot < 0 || slot >= int(c.s.slots.size()))
          fault(i, cat("names slot ", slot, ", which does not exist"));
    for (int wait : op.waits)
      if (wait >= i || wait < -c.n)
        fault(i, cat("waits for ", wait, ", which is not an earlier op of this step or the one before"));
    if (int(op.lane) >= kLanes) fault(i, cat("is on lane ", int(op.lane), ", which does not exist"));
    const int last = c.facts.head_block();
    if (op.block < (op.kind == OpKind::norm ? -1 : 0) || op.block > last)
      fault(i, cat("block must be 0 to ", last));
    if (op.micro >= c.facts.micros || op.micro < -1)
      fault(i, cat("there are ", c.facts.micros, " micro-batches"));
    const bool serves_one = op.kind == OpKind::forward || op.kind == OpKind::recompute ||
                            op.kind == OpKind::head || op.kind == OpKind::backward;
    const bool serves_all = op.kind == OpKind::norm || op.kind == OpKind::update;
    if ((serves_one && op.micro < 0) || (serves_all && op.micro >= 0))
      fault(i, serves_one ? "must name its micro-batch" : "serves all micro-batches, must name none");
  }
  return ok;
}

// ---- Order in time, by vector clocks.

// Instances 0..n-1 are the ops of one step, n..2n-1 those of the next.
class Clocks {
 public:
  explicit Clocks(const Context& c) : n_(c.n), starts_(2 * std::size_t(c.n)), place_(2 * std::size_t(c.n)) {
    std::array<int, kLanes> count{}, tail;
    tail.fill(-1);
    for (int i = 0; i < 2 * n_; ++i) {
      const Op& op = c.op(i % n_);
      const std::size_t lane = std::size_t(op.lane);
      Clock now{};
      if (tail[lane] >= 0) now = finish(c, tail[lane]);
      for (int wait : op.waits) {
        const int earlier = wait + (wait < 0 ? n_ : 0) + (wait < 0 ? i / n_ - 1 : i / n_) * n_;
        if (earlier < 0) continue;  // before the very first step nothing runs
        const Clock other = finish(c, earlier);
        for (std::size_t l = 0; l < kLanes; ++l) now[l] = std::max(now[l], other[l]);
      }
      starts_[std::size_t(i)] = now;
      place_[std::size_t(i)] = count[lane]++;
      tail[lane] = i;
    }
    lanes_.reserve(std::size_t(n_));
    for (int i = 0; i < n_; ++i) lanes_.push_back(c.op(i).lane);
  }

  // Whether `earlier` has surely finished when `later` starts.
  bool ordered(int earlier, int later) const {
    const std::size_t lane = std::size_t(lanes_[std::size_t(earlier % n_)]);
    return starts_[std::size_t(later)][lane] > place_[std::size_t(earlier)];
  }

 private:
  using Clock = std::array<int, kLanes>;  // how many ops of each lane have finished

  Clock finish(const Context& c, int i) const {
    Clock clock = starts_[std::size_t(i)];
    clock[std::size_t(c.op(i % n_).lane)] = place_[std::size_t(i)] + 1;
    return clock;
  }

  int n_;
  std::vector<Clock> starts_;
  std::vector<int> place_;  // position in its lane
  std::vector<Lane> lanes_;
};

// ---- Rule 1: born once, used only while live, freed once, nothing live at the end.

struct Access {
  int op;
  bool changes;
};

// Everything that happens to one slot, in list order.
struct History {
  int birth = -1, death = -1;
  std::vector<Access> accesses;
};

std::vector<History> histories(Context& c) {
  std::vector<History> all(c.s.slots.size());
  for (int i = 0; i < c.n; ++i) {
    const Op& op = c.op(i);
    for (SlotId slot : op.births) {
      History& h = all[std::size_t(slot)];
      if (permanent(c.slot(slot))) c.fault(i, cat(c.slot_name(slot), " is permanent and can't be born"));
      if (h.birth >= 0) c.fault(i, cat(c.slot_name(slot), " is born again, first by #", h.birth));
      if (h.birth < 0) h.birth = i;
      h.accesses.push_back({i, true});
    }
    for (SlotId slot : op.writes) all[std::size_t(slot)].accesses.push_back({i, true});
    for (SlotId slot : op.reads) all[std::size_t(slot)].accesses.push_back({i, false});
    for (SlotId slot : op.frees) {
      History& h = all[std::size_t(slot)];
      if (permanent(c.slot(slot))) c.fault(i, cat(c.slot_name(slot), " is permanent and can't be freed"));
      if (h.death >= 0) c.fault(i, cat(c.slot_name(slot), " is freed again, first by #", h.death));
      if (h.death < 0) h.death = i;
      if (!has(op.reads, slot) && !has(op.writes, slot) && !has(op.births, slot))
        c.fault(i, cat("frees ", c.slot_name(slot), " without touching it"));
      h.accesses.push_back({i, true});
    }
  }
  return all;
}

void check_lifetimes(Context& c, const std::vector<History>& all) {
  for (SlotId slot = 0; slot < int(all.size()); ++slot) {
    const History& h = all[std::size_t(slot)];
    if (permanent(c.slot(slot))) continue;
    if (h.birth < 0)
      c.fault(h.accesses.empty() ? -1 : h.accesses.front().op, cat(c.slot_name(slot), " is never born"));
    if (h.death < 0) c.fault(h.birth, cat(c.slot_name(slot), " is born here and never freed"));
    for (const Access& a : h.accesses) {
      if (h.birth >= 0 && a.op < h.birth)
        c.fault(a.op, cat("uses ", c.slot_name(slot), " before its birth in #", h.birth));
      if (h.death >= 0 && a.op > h.death)
        c.fault(a.op, cat("uses ", c.slot_name(slot), " after it was freed by #", h.death));
    }
  }
}

// ---- Rules 3 and 4 within a slot: readers after the writer, writers after all earlier readers.

void check_accesses(Context& c, const Clocks& clocks, const std::vector<History>& all) {
  for (SlotId slot = 0; slot < int(all.size()); ++slot) {
    // A permanent slot lives on through the next step; an arena slot's next life is a matter of bytes, below.
    const int rounds = permanent(c.slot(slot)) ? 2 : 1;
    std::vector<int> readers, writers;  // since the last change; the last change itself (one op)
    for (int round = 0; round < rounds; ++round)
      for (const Access& a : all[std::size_t(slot)].accesses) {
        const int now = a.op + round * c.n;
        const auto require_after = [&](int earlier, const char* what) {
          if (earlier == now || clocks.ordered(earlier, now)) return;
          c.fault(a.op, cat("does not wait for #", earlier % c.n, " `", name(c.op(earlier % c.n)), "`",
                            earlier < c.n && round == 1 ? " of the step before" : "", ", which ", what, " ",
                            c.slot_name(slot)));
        };
        for (int earlier : writers) require_after(earlier, "changes");
        if (!a.changes) {
          readers.push_back(now);
          continue;
        }
        for (int earlier : readers) require_after(earlier, "reads");
        readers.clear();
        writers = {now};
      }
  }
}

// ---- Rules 2, 3 and 4 between slots, byte by byte: the arena is cut at every slot's ends, and in each piece
// the slots that own it, one after the other, must not meet.

std::vector<std::vector<SlotId>> owners_by_piece(const Context& c, const std::vector<History>& all) {
  std::set<std::int64_t> cuts;
  std::vector<SlotId> arena;
  for (SlotId slot = 0; slot < int(all.size()); ++slot) {
    const Slot& it = c.slot(slot);
    if (permanent(it) || it.bytes == 0 || all[std::size_t(slot)].birth < 0 ||
        all[std::size_t(slot)].death < 0)
      continue;
    arena.push_back(slot);
    cuts.insert(it.offset);
    cuts.insert(it.offset + it.bytes);
  }
  std::sort(arena.begin(), arena.end(),
            [&](SlotId a, SlotId b) { return all[std::size_t(a)].birth < all[std::size_t(b)].birth; });
  const std::vector<std::int64_t> at(cuts.begin(), cuts.end());
  std::vector<std::vector<SlotId>> owners(at.size());
  for (SlotId slot : arena) {
    const Slot& it = c.slot(slot);
    const auto first = std::lower_bound(at.begin(), at.end(), it.offset) - at.begin();
    const auto last = std::lower_bound(at.begin(), at.end(), it.offset + it.bytes) - at.begin();
    for (auto piece = first; piece < last; ++piece) owners[std::size_t(piece)].push_back(slot);
  }
  return owners;
}

void check_bytes(Context& c, const Clocks& clocks, const std::vector<History>& all) {
  std::set<std::pair<SlotId, SlotId>> seen;
  // The bytes pass from `before` to `after`; `later` is 1 when the birth belongs to the next step.
  const auto check_handover = [&](SlotId before, SlotId after, int later) {
    if (!seen.insert({before, after}).second) return;
    const History &old = all[std::size_t(before)], &young = all[std::size_t(after)];
    if (later == 0 && old.death >= young.birth)
      return c.fault(young.birth, cat(c.slot_name(after), " takes bytes of ", c.slot_name(before),
                                      ", which lives until #", old.death));
    for (const Access& a : old.accesses)
      if (!clocks.ordered(a.op, young.birth + later * c.n))
        return c.fault(young.birth, cat("takes bytes of ", c.slot_name(before), " for ", c.slot_name(after),
                                        " without waiting for #", a.op, " `", name(c.op(a.op)), "`",
                                        later == 1 ? " of the step before" : ""));
  };
  for (const std::vector<SlotId>& owners : owners_by_piece(c, all)) {
    for (std::size_t i = 1; i < owners.size(); ++i) check_handover(owners[i - 1], owners[i], 0);
    if (!owners.empty()) check_handover(owners.back(), owners.front(), 1);
  }
}

// ---- Rule 8 and sizes.

std::int64_t bytes_by_facts(const Slot& slot, const StepFacts& f) {
  using enum SlotKind;
  const auto of_block = [&](std::int64_t BlockFacts::* bytes) {
    return slot.block >= 0 && slot.block < int(f.blocks.size()) ? f.blocks[std::size_t(slot.block)].*bytes
                                                                : -1;
  };
  switch (slot.kind) {
    case X: return of_block(&BlockFacts::input_bytes);
    case S: return of_block(&BlockFacts::saved_bytes);
    case W: return of_block(&BlockFacts::gathered_bytes);
    case P: return of_block(&BlockFacts::weight_bytes);
    case G: return of_block(&BlockFacts::whole_grad_bytes);
    case R: return of_block(&BlockFacts::grad_bytes);
    case O: return of_block(&BlockFacts::optimizer_bytes);
    case D: {
      std::int64_t most = 0;
      for (const BlockFacts& b : f.blocks) most = std::max(most, b.input_bytes);
      return most;
    }
    case loss: return f.loss_bytes;
    case norm: return f.norm_bytes;
    case batch: return f.batch_bytes;
    case workspace: return f.workspace_bytes;
  }
  return -1;
}

void check_sizes(Context& c) {
  std::int64_t permanent_sum = 0;
  for (const auto& [what, bytes] : c.facts.other_permanent) permanent_sum += bytes;
  std::set<std::tuple<SlotKind, int, int, int>> names;
  for (const Slot& slot : c.s.slots) {
    const std::int64_t right = bytes_by_facts(slot, c.facts);
    if (!names.insert({slot.kind, slot.block, slot.micro, slot.generation}).second)
      c.fault(-1, cat("two slots are called ", name(slot)));
    if (slot.bytes != right) c.fault(-1, cat(name(slot), " has ", slot.bytes, " bytes, should have ", right));
    if (permanent(slot)) {
      permanent_sum += slot.bytes;
    } else if (slot.offset < 0 || slot.offset % kAlignment != 0 ||
               slot.offset > c.s.arena_bytes - slot.bytes) {
      c.fault(-1, cat(name(slot), " lies at ", slot.offset, " + ", slot.bytes, ", outside the arena of ",
                      c.s.arena_bytes, " bytes or not on a multiple of ", kAlignment));
    }
  }
  if (c.facts.memory_bytes > 0 && c.s.arena_bytes + permanent_sum > c.facts.memory_bytes)
    c.fault(-1, cat("arena ", c.s.arena_bytes, " + permanent ", permanent_sum, " bytes exceed the memory of ",
                    c.facts.memory_bytes));
}

// ---- Rule 6: the list computes a training (or evaluation) step.

// What is wanted of one op: slots of these kinds in these lists.
class Wants {
 public:
  Wants(Context& c, int i) : c_(c), i_(i), op_(c.op(i)) {}

  // One slot of this kind and block, of the op's micro-batch, in the list.
  SlotId one(const std::vector<SlotId>& list, const char* verb, SlotKind kind, int block) {
    for (SlotId slot : list)
      if (matches(slot, kind, block)) return slot;
    c_.fault(i_, cat("must ", verb, " ", wanted(kind, block)));
    return kNoSlot;
  }
  SlotId reads(SlotKind kind, int block = -1) { return one(op_.reads, "read", kind, block); }
  SlotId writes(SlotKind kind, int block = -1) { return one(op_.writes, "change", kind, block); }
  SlotId births(SlotKind kind, int block = -1) { return one(op_.births, "bear", kind, block); }
  void frees(SlotKind kind, int block = -1) { one(op_.frees, "free", kind, block); }

  // Weights are whole here or gathered; a slice of them is no use.
  void reads_weights(int block) {
    const BlockFacts& facts = c_.facts.blocks[std::size_t(block)];
    for (SlotId slot : op_.reads) {
      if (is(slot, SlotKind::W, block)) return;
      if (!is(slot, SlotKind::P, block)) continue;
      if (facts.weight_bytes < facts.gathered_bytes)
        c_.fault(i_, cat("reads ", c_.slot_name(slot), ", which is only a slice of the weights"));
      return;
    }
    c_.fault(i_, cat("must read the weights P.", block, " or W.", block));
  }
  // Gradients are added to the owned R, or to a whole G that a reduction takes later.
  void adds_gradient(int block) {
    if (!c_.facts.blocks[std::size_t(block)].trainable) return;
    for (SlotId slot : op_.writes)
      if (is(slot, SlotKind::R, block) || is(slot, SlotKind::G, block)) return;
    for (SlotId slot : op_.births)
      if (is(slot, SlotKind::G, block)) return;
    c_.fault(i_, cat("must add to the gradient R.", block, " or G.", block));
  }

 private:
  bool is(SlotId slot, SlotKind kind, int block) const {
    return c_.slot(slot).kind == kind && c_.slot(slot).block == block;
  }
  bool matches(SlotId slot, SlotKind kind, int block) const {
    return is(slot, kind, block) && (permanent(kind) || c_.slot(slot).micro == op_.micro);
  }
  std::string wanted(SlotKind kind, int block) const {
    return name(Slot{.kind = kind, .block = block, .micro = permanent(kind) ? -1 : op_.micro});
  }

  Context& c_;
  int i_;
  const Op& op_;
};

// Whether a gather or reduction works within one slot of this kind instead of between two.
bool in_place(const Context& c, const Op& op, SlotKind kind) {
  return op.reads.empty() && op.births.empty() && op.writes.size() == 1 &&
         c.slot(op.writes.front()).kind == kind;
}

void check_slots_of(Context& c, int i) {
  using enum SlotKind;
  const Op& op = c.op(i);
  const bool train = c.s.kind == StepKind::train;
  const int k = op.block, head = c.facts.head_block();
  const bool saves = k >= 0 && c.facts.blocks[std::size_t(k)].saved_bytes > 0;
  Wants op_must(c, i);
  switch (op.kind) {
    case OpKind::forward:
      if (k >= head) return c.fault(i, "the head has no forward op");
      k == 0 ? op_must.reads(batch) : op_must.reads(X, k);
      op_must.reads_weights(k);
      op_must.births(X, k + 1);
      if (saves) op_must.births(S, k);
      return;
    case OpKind::recompute:
      if (k == 0 || k >= head) return c.fault(i, "only transformer blocks are recomputed");
      op_must.reads(X, k);
      op_must.reads_weights(k);
      if (op.births.empty()) c.fault(i, "bears nothing");
      return;
    case OpKind::head:
      if (k != head) return c.fault(i, cat("the head is block b", head));
      op_must.reads(X, k);
      op_must.reads(batch);
      op_must.reads_weights(k);
      op_must.writes(loss);
      if (saves) op_must.births(S, k);
      if (c.facts.tied) op_must.reads_weights(0);
      if (!train) return;
      op_must.births(D);
      op_must.adds_gradient(k);
      if (c.facts.tied) op_must.adds_gradient(0);
      return;
    case OpKind::backward:
      if (k >= head) return c.fault(i, "the head has no backward op");
      k == 0 ? op_must.reads(batch) : op_must.reads(X, k);
      if (saves) op_must.reads(S, k);
      if (k > 0) op_must.reads_weights(k);
      op_must.writes(D);
      op_must.adds_gradient(k);
      return;
    case OpKind::gather:
      if (in_place(c, op, P)) return;
      op_must.reads(P, k);
      op_must.births(W, k);
      return;
    case OpKind::accumulate:
      op_must.reads(G, k);
      op_must.writes(R, k);
      return;
    case OpKind::reduce:
      op_must.writes(R, k);
      if (!in_place(c, op, R)) op_must.reads(G, k);
      return;
    case OpKind::norm:
      if (k >= 0) op_must.reads(R, k);
      op_must.writes(norm);
      return;
    case OpKind::update:
      op_must.reads(norm);
      for (SlotKind kind : {P, O, R}) op_must.writes(kind, k);
      return;
  }
}

// A slot means what its name says only when the right op bears it, and only the right ops change it.
void check_makers(Context& c, int i) {
  const Op& op = c.op(i);
  const auto arises = [&](const Slot& gradient) {
    const bool mine = gradient.micro == op.micro || gradient.micro == -1;
    const bool tied = c.facts.tied && op.kind == OpKind::head && gradient.block == 0;
    if (!c.facts.blocks[std::size_t(std::max(0, gradient.block))].trainable) return false;
    return mine && (op.kind == OpKind::head || op.kind == OpKind::backward) &&
           (gradient.block == op.block || tied);
  };
  const auto right_birth = [&](const Slot& slot) {
    using enum SlotKind;
    const bool computes = op.kind == OpKind::forward || op.kind == OpKind::recompute;
    switch (slot.kind) {
      case X: return computes && slot.block == op.block + 1 && slot.micro == op.micro;
      case S:
        return (computes || op.kind == OpKind::head) && slot.block == op.block && slot.micro == op.micro;
      case D: return op.kind == OpKind::head && slot.micro == op.micro;
      case W: return op.kind == OpKind::gather && slot.block == op.block;
      case G: return arises(slot);
      default: return false;
    }
  };
  const auto right_write = [&](const Slot& slot) {
    using enum SlotKind;
    switch (slot.kind) {
      case D: return op.kind == OpKind::backward && slot.micro == op.micro;
      case G: return arises(slot);
      case R:
        return arises(slot) ||
               ((op.kind == OpKind::accumulate || op.kind == OpKind::reduce || op.kind == OpKind::update) &&
                slot.block == op.block);
      case P: return (op.kind == OpKind::update || op.kind == OpKind::gather) && slot.block == op.block;
      case O: return op.kind == OpKind::update && slot.block == op.block;
      case loss: return op.kind == OpKind::head;
      case norm: return op.kind == OpKind::norm;
      case workspace: return true;
      default: return false;
    }
  };
  for (SlotId slot : op.births)
    if (!right_birth(c.slot(slot))) c.fault(i, cat("can't bear ", c.slot_name(slot)));
  for (SlotId slot : op.writes)
    if (!right_write(c.slot(slot))) c.fault(i, cat("can't change ", c.slot_name(slot)));
}

// How often, and in which order, the kinds occur.
class Census {
 public:
  explicit Census(Context& c) : c_(c) {
    for (int i = 0; i < c.n; ++i) {
      const Op& op = c.op(i);
      at_[{op.kind, op.block, op.micro}].push_back(i);
    }
  }

  void check() {
    for (int m = 0; m < c_.facts.micros; ++m) check_micro(m);
    if (c_.s.kind == StepKind::train)
      check_update();
    else
      check_nothing_of_training();
  }

 private:
  int one(OpKind kind, int block, int micro) {
    const auto found = at_.find({kind, block, micro});
    const std::size_t count = found == at_.end() ? 0 : found->second.size();
    if (count == 1) return found->second.front();
    const std::string what = name(Op{.kind = kind, .block = block, .micro = micro});
    c_.fault(count == 0 ? -1 : found->second[1], cat("`", what, "` occurs ", count, " times, should once"));
    return -1;
  }

  void in_order(int earlier, int later) {
    if (earlier < 0 || later < 0 || earlier < later) return;
    c_.fault(later, cat("stands before #", earlier, " `", name(c_.op(earlier)), "`, whose result it needs"));
  }

  void check_micro(int m) {
    const int head = c_.facts.head_block();
    int last = -1;
    for (int k = 0; k < head; ++k) {
      const int now = one(OpKind::forward, k, m);
      in_order(last, now);
      last = now;
    }
    const int now = one(OpKind::head, head, m);
    in_order(last, now);
    last = now;
    if (c_.s.kind == StepKind::eval) return;
    for (int k = head - 1; k >= c_.facts.lowest_trained(); --k) {
      const int back = one(OpKind::backward, k, m);
      in_order(last, back);
      last = back;
    }
  }

  void check_update() {
    const int norm = one(OpKind::norm, -1, -1);
    for (int k = 0; k <= c_.facts.head_block(); ++k) {
      if (!c_.facts.blocks[std::size_t(k)].trainable) {
        none_for_frozen(k);
        continue;
      }
      const int part = one(OpKind::norm, k, -1), update = one(OpKind::update, k, -1);
      in_order(part, norm);
      in_order(norm, update);
      for (int i = 0; i < c_.n; ++i)
        if (adds_to(i, k)) in_order(i, part);
      if (c_.facts.ranks > 1 && c_.facts.sliced_update && whole_weights(k))
        in_order(update, one(OpKind::gather, k, -1));
    }
  }

  bool whole_weights(int k) const {
    const BlockFacts& block = c_.facts.blocks[std::size_t(k)];
    return block.weight_bytes == block.gathered_bytes;
  }

  // Whether op `i` changes R.k before its update.
  bool adds_to(int i, int k) const {
    if (c_.op(i).kind == OpKind::update) return false;
    for (SlotId slot : c_.op(i).writes)
      if (c_.slot(slot).kind == SlotKind::R && c_.slot(slot).block == k) return true;
    return false;
  }

  void none_for_frozen(int k) {
    for (const OpKind kind : {OpKind::norm, OpKind::update, OpKind::reduce, OpKind::accumulate})
      for (const auto& [id, ops] : at_)
        if (std::get<0>(id) == kind && std::get<1>(id) == k)
          c_.fault(ops.front(), "the block is not trained");
  }

  void check_nothing_of_training() {
    for (int i = 0; i < c_.n; ++i) {
      const OpKind kind = c_.op(i).kind;
      if (kind != OpKind::gather && kind != OpKind::forward && kind != OpKind::head)
        c_.fault(i, "does not belong to an evaluation");
    }
  }

  Context& c_;
  std::map<std::tuple<OpKind, int, int>, std::vector<int>> at_;
};

// Every whole gradient is taken by exactly one reduction (or accumulation), after its last change.
void check_takers(Context& c, const std::vector<History>& all) {
  for (SlotId slot = 0; slot < int(all.size()); ++slot) {
    if (c.slot(slot).kind != SlotKind::G) continue;
    int reductions = 0, last_change = -1, reduction = -1;
    for (const Access& a : all[std::size_t(slot)].accesses) {
      const OpKind kind = c.op(a.op).kind;
      const bool takes = kind == OpKind::reduce || kind == OpKind::accumulate;
      if (takes && !a.changes) {
        ++reductions;
        reduction = a.op;
      } else if (!takes && a.changes) {
        last_change = std::max(last_change, a.op);
      }
    }
    if (reductions != 1)
      c.fault(all[std::size_t(slot)].birth,
              cat(c.slot_name(slot), " enters ", reductions, " reductions, should one"));
    else if (reduction < last_change)
      c.fault(reduction, cat("reduces ", c.slot_name(slot), " before #", last_change, " adds to it"));
  }
}

// With several ranks every contribution to R.k passes through exactly one sum over ranks: on its way from G, or
// in place after the last one. With one rank there is none to sum with.
void check_sums(Context& c) {
  struct Sums {
    int last_local = -1;  // op that adds this rank's own gradient
    std::vector<int> in_place;
    bool from_whole = false;
  };
  std::map<int, Sums> by_block;
  for (int i = 0; i < c.n; ++i) {
    const Op& op = c.op(i);
    if (op.kind == OpKind::reduce && c.facts.ranks == 1)
      c.fault(i, "there is one rank, with nobody to sum with");
    if (op.kind == OpKind::update) continue;
    for (SlotId slot : op.writes) {
      if (c.slot(slot).kind != SlotKind::R) continue;
      Sums& sums = by_block[c.slot(slot).block];
      if (op.kind != OpKind::reduce)
        sums.last_local = i;
      else if (in_place(c, op, SlotKind::R))
        sums.in_place.push_back(i);
      else
        sums.from_whole = true;
    }
  }
  if (c.facts.ranks == 1) return;
  for (const auto& [block, sums] : by_block) {
    const std::size_t wanted = sums.last_local >= 0 ? 1 : 0;
    if (sums.in_place.size() != wanted || (sums.from_whole && wanted == 1))
      c.fault(sums.last_local, cat("R.", block, " is summed over ranks in place ", sums.in_place.size(),
                                   " times, should be ", wanted, sums.from_whole ? ", and from G too" : ""));
    else if (wanted == 1 && sums.in_place.front() < sums.last_local)
      c.fault(sums.in_place.front(), cat("sums R.", block, " before #", sums.last_local, " adds to it"));
  }
}

// Gathering in place is for whole weights whose slices were updated, and takes place once.
void check_gathers(Context& c) {
  for (int i = 0; i < c.n; ++i) {
    const Op& op = c.op(i);
    if (op.kind != OpKind::gather) continue;
    if (c.facts.ranks == 1) c.fault(i, "there is one rank, with nobody to gather from");
    if (!in_place(c, op, SlotKind::P)) continue;
    const BlockFacts& block = c.facts.blocks[std::size_t(op.block)];
    if (c.s.kind != StepKind::train || !c.facts.sliced_update || block.weight_bytes != block.gathered_bytes)
      c.fault(i, cat("gathers ", c.slot_name(op.writes.front()), " in place without need"));
  }
}

}  // namespace

std::vector<Violation> verify(const Schedule& schedule, const StepFacts& facts) {
  Report report;
  Context c(schedule, facts, report);
  if (facts.blocks.size() < 2 || facts.micros < 1) {
    c.fault(-1, "a model has an embedding and a head, and a step at least one micro-batch");
    return report;
  }
  check_sizes(c);
  if (!well_formed(c)) return report;
  const std::vector<History> all = histories(c);
  check_lifetimes(c, all);
  const Clocks clocks(c);
  check_accesses(c, clocks, all);
  check_bytes(c, clocks, all);
  for (int i = 0; i < c.n; ++i) {
    check_slots_of(c, i);
    check_makers(c, i);
  }
  Census(c).check();
  check_takers(c, all);
  check_sums(c);
  check_gathers(c);
  return report;
}

}  // namespace zt::schedule
