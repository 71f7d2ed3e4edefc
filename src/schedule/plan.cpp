#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "schedule/passes.h"

namespace zt::schedule {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 46;  // of one slot: 64 TiB, so sums can't overflow
constexpr std::int64_t kMostWork =
    1 << 16;  // blocks x micro-batches: a list people can wait for, some seconds

void check_block(Problems& problems, int k, const BlockFacts& b) {
  const auto check = [&](const char* what, std::int64_t bytes) {
    if (bytes < 0 || bytes > kMostBytes)
      problems.add(cat("block b", k, ": ", what, " is ", bytes, ", must be 0 to ", kMostBytes));
  };
  check("input_bytes", b.input_bytes);
  check("saved_bytes", b.saved_bytes);
  check("weight_bytes", b.weight_bytes);
  check("gathered_bytes", b.gathered_bytes);
  check("grad_bytes", b.grad_bytes);
  check("whole_grad_bytes", b.whole_grad_bytes);
  check("optimizer_bytes", b.optimizer_bytes);
  if (k > 0 && b.input_bytes == 0) problems.add(cat("block b", k, ": input_bytes is 0"));
}

void check(const StepFacts& facts, const Policy& policy) {
  Problems problems;
  const std::int64_t blocks = std::int64_t(facts.blocks.size());
  if (blocks < 2) problems.add(cat("a model has an embedding and a head, here are ", blocks, " blocks"));
  if (facts.ranks < 1) problems.add(cat("ranks must be at least 1, is ", facts.ranks));
  if (policy.zero.prefetch < 0) problems.add(cat("prefetch must be at least 0, is ", policy.zero.prefetch));
  if (facts.micros < 1) problems.add(cat("micro-batches of a step must be at least 1, is ", facts.micros));
  if (facts.micros >= 1 && blocks > kMostWork / facts.micros)
    problems.add(cat(blocks, " blocks x ", facts.micros, " micro-batches is more than ", kMostWork,
                     "; make fewer and larger micro-batches"));
  if (policy.recompute == Recompute::every && policy.every < 1)
    problems.add(cat("recompute every k-th block: k must be at least 1, is ", policy.every));
  for (int k = 0; k < int(std::min(blocks, kMostWork)); ++k)
    check_block(problems, k, facts.blocks[std::size_t(k)]);
  for (const std::int64_t bytes :
       {facts.workspace_bytes, facts.batch_bytes, facts.loss_bytes, facts.norm_bytes, facts.memory_bytes})
    if (bytes < 0 || bytes > kMostBytes) problems.add(cat("a permanent size is ", bytes, " bytes"));
  for (const auto& [what, bytes] : facts.other_permanent)
    if (bytes < 0 || bytes > kMostBytes) problems.add(cat("permanent '", what, "' is ", bytes, " bytes"));
  problems.throw_if_any(Blame::usage, "this step cannot be planned:");
}

Schedule with_weights(Schedule s, const StepFacts& facts, const Zero& zero) {
  return facts.ranks > 1 && zero.gather_weights ? with_gathers(std::move(s), facts, zero)
                                                : with_resident_weights(std::move(s), facts);
}

Schedule with_gradients(Schedule s, const StepFacts& facts, const Policy& policy) {
  if (facts.ranks > 1 && policy.zero.reduce == ReduceEvery::micro)
    return with_whole_gradients(std::move(s), facts, OpKind::reduce);
  s = policy.grads_apart ? with_whole_gradients(std::move(s), facts, OpKind::accumulate)
                         : with_owned_gradients(std::move(s), facts);
  return facts.ranks > 1 ? with_final_reductions(std::move(s), facts) : s;
}

Schedule placed_train(const StepFacts& facts, const Policy& policy) {
  Schedule s = train_order(facts);
  s = with_recompute(std::move(s), facts, policy);
  s = with_weights(std::move(s), facts, policy.zero);
  s = with_gradients(std::move(s), facts, policy);
  s = with_update(std::move(s), facts);
  if (facts.ranks > 1 && facts.sliced_update && !policy.zero.gather_weights)
    s = with_gathered_updates(std::move(s), facts);
  return place(std::move(s));
}

bool fits(const Schedule& s, const StepFacts& facts) {
  return facts.memory_bytes == 0 || s.arena_bytes + permanent_bytes(s, facts) <= facts.memory_bytes;
}

// The policy with the least recomputation that fits, as advice; or how much is missing even with the best.
std::string advice(const StepFacts& facts, const Policy& from) {
  std::vector<Policy> policies;
  const auto offer = [&](Recompute recompute, int every) {
    policies.push_back(from);
    policies.back().recompute = recompute;
    policies.back().every = every;
  };
  offer(Recompute::none, 1);
  for (int k = std::min(4, facts.transformer_blocks()); k >= 2; --k) offer(Recompute::every, k);
  offer(Recompute::full, 1);
  offer(Recompute::sqrt, 1);
  std::int64_t least = -1;
  for (const Policy& policy : policies) {
    const Schedule s = placed_train(facts, policy);
    const std::int64_t total = s.arena_bytes + permanent_bytes(s, facts);
    if (fits(s, facts)) return cat("recompute: ", name(policy), " fits, with ", human_bytes(total));
    least = least < 0 ? total : std::min(least, total);
  }
  return cat("no recompute policy fits, the least is ", human_bytes(least), "; shorten the micro-batch");
}

void require_fit(const Schedule& s, const StepFacts& facts, const std::string& what, const Policy* advise) {
  if (fits(s, facts)) return;
  const std::int64_t permanent = permanent_bytes(s, facts);
  throw Error(Blame::machine,
              cat(what, " needs ", human_bytes(s.arena_bytes + permanent), " (", human_bytes(s.arena_bytes),
                  " of activations and gradients in flight, ", human_bytes(permanent),
                  " permanent), the limit is ", human_bytes(facts.memory_bytes)),
              advise != nullptr ? advice(facts, *advise) : "shorten the micro-batch of the evaluation");
}

// Our own mistake must stop before it becomes a wrong number.
Schedule verified(Schedule s, const StepFacts& facts) {
  const std::vector<Violation> violations = verify(s, facts);
  if (violations.empty()) return s;
  Problems problems;
  for (std::size_t i = 0; i < std::min<std::size_t>(violations.size(), 10); ++i)
    problems.add(violations[i].text);
  problems.throw_if_any(Blame::bug, cat("the planned step is unsound (", violations.size(), " violations):"));
  return s;
}

}  // namespace

Schedule plan_train(const StepFacts& facts, const Policy& policy) {
  check(facts, policy);
  Schedule s = placed_train(facts, policy);
  require_fit(s, facts, cat("a training step with recompute: ", name(policy)), &policy);
  return verified(with_waits(std::move(s)), facts);
}

Schedule plan_eval(const StepFacts& facts, const Zero& zero) {
  check(facts, {.zero = zero});
  Schedule s = place(with_weights(eval_order(facts), facts, zero));
  require_fit(s, facts, "an evaluation step", nullptr);
  return verified(with_waits(std::move(s)), facts);
}

std::int64_t permanent_bytes(const Schedule& schedule, const StepFacts& facts) {
  std::int64_t sum = 0;
  for (const Slot& slot : schedule.slots)
    if (permanent(slot)) sum += slot.bytes;
  for (const auto& [what, bytes] : facts.other_permanent) sum += bytes;
  return sum;
}

SlotId find_slot(const Schedule& schedule, const Op& op, SlotKind kind, int block) {
  for (const auto* list : {&op.births, &op.reads, &op.writes, &op.frees})
    for (SlotId id : *list) {
      const Slot& slot = schedule.slots[std::size_t(id)];
      if (slot.kind == kind && slot.block == block) return id;
    }
  return kNoSlot;
}

SlotId slot_of(const Schedule& schedule, const Op& op, SlotKind kind, int block) {
  const SlotId id = find_slot(schedule, op, kind, block);
  if (id == kNoSlot)
    throw Error(Blame::bug, cat("`", name(op), "` names no slot ", name(Slot{.kind = kind, .block = block})));
  return id;
}

}  // namespace zt::schedule
