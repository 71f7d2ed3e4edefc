#include "plan/step_plan.h"

#include <algorithm>
#include <cmath>

#include "base/align.h"
#include "base/text.h"
#include "plan/countable.h"
#include "plan/memory_timeline.h"

namespace zt::plan {

static std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, schedule::kAlignment); }

BlockBytes block_bytes(const spec::BlockSpec& block, const StepShape& shape) {
  const Partition& p = shape.partition;
  const BlockLayout layout(block, p);
  BlockBytes bytes;
  bytes.gathered = aligned(layout.padded() * shape.element_bytes);
  bytes.weights = p.weights_whole ? bytes.gathered : aligned(layout.slice() * shape.element_bytes);
  if (!shape.training) return bytes;
  // Moments, and a master copy unless the weights are fp32 themselves.
  const int copies = shape.element_bytes == 4 ? 2 : 3;
  const std::int64_t trained = layout.most_trained();
  if (shape.snapshot) bytes.snapshot = snapshot_bytes(layout);
  if (!block.trainable()) return bytes;
  bytes.whole_grads = aligned(layout.padded() * 4);
  bytes.grads = aligned((p.grads_whole ? layout.padded() : trained) * shape.grad_bytes);
  bytes.optimizer = copies * aligned((p.update_whole ? layout.trained({0, block.elements}) : trained) * 4);
  return bytes;
}

int batch_arrays(const RunShape& run) { return 3 + (run.dropout ? 1 : 0) + (run.spans ? 2 : 0); }

std::int64_t batch_bytes(const RunShape& run) { return batch_arrays(run) * aligned(run.tokens * 4); }

std::int64_t rope_table_bytes(const spec::ModelSpec& model, std::int64_t positions) {
  return model.family == spec::Family::llama ? 2 * aligned(positions * (model.head_size / 2) * 4) : 0;
}

static schedule::StepFacts facts(const spec::ModelSpec& model, const StepShape& shape, const RunShape& run,
                                 std::int64_t micros) {
  schedule::StepFacts f;
  f.ranks = shape.partition.ranks;
  f.sliced_update = !shape.partition.update_whole;
  f.micros = static_cast<int>(micros);
  f.tied = model.tied;
  f.workspace_bytes = workspace_bytes(model, run);
  f.batch_bytes = micros * batch_bytes(run);
  const std::int64_t saved = saved_buffers(model, run).bytes();
  for (const spec::BlockSpec& block : model.blocks) {
    const BlockBytes bytes = block_bytes(block, shape);
    schedule::BlockFacts b;
    b.trainable = block.trainable();
    if (block.kind != spec::BlockKind::embedding)
      b.input_bytes = run.tokens * model.hidden * run.element_bytes;
    if (block.kind == spec::BlockKind::transformer) b.saved_bytes = saved;
    b.weight_bytes = bytes.weights;
    b.gathered_bytes = bytes.gathered;
    b.grad_bytes = bytes.grads;
    b.whole_grad_bytes = bytes.whole_grads;
    b.optimizer_bytes = bytes.optimizer;
    f.blocks.push_back(b);
  }
  return f;
}

schedule::StepFacts train_facts(const spec::ModelSpec& model, const StepShape& shape) {
  return facts(model, shape, shape.train_shape(), shape.micros);
}

schedule::StepFacts eval_facts(const spec::ModelSpec& model, const StepShape& shape) {
  return facts(model, shape, shape.eval_shape(), 1);
}

std::int64_t StepPlan::process_bytes() const {
  return (gpu ? 0 : process_ranks * total()) + sum(bill, Place::host);
}

// Which collective an op is, and the bytes this rank sends in it.
static void add_traffic(Traffic& sum, const schedule::Schedule& list, const schedule::Op& op,
                        const BlockLayout& layout, const StepShape& shape) {
  const std::int64_t elements = (shape.partition.ranks - 1) * layout.slice();
  if (op.kind == schedule::OpKind::gather) sum.all_gather += elements * shape.element_bytes;
  if (op.kind != schedule::OpKind::reduce) return;
  const bool from_whole = find_slot(list, op, schedule::SlotKind::G, op.block) != schedule::kNoSlot;
  const std::int64_t stored = from_whole ? 4 : shape.grad_bytes;
  const std::int64_t sent = elements * std::min<std::int64_t>(stored, shape.wire_bytes);
  if (shape.partition.update_whole)
    sum.all_reduce += sent + elements * stored;
  else
    sum.reduce_scatter += sent;
}

Traffic traffic_of(const schedule::Schedule& list, const spec::ModelSpec& model, const StepShape& shape) {
  std::vector<BlockLayout> layouts;
  for (const spec::BlockSpec& block : model.blocks) layouts.emplace_back(block, shape.partition);
  Traffic sum;
  for (const schedule::Op& op : list.ops)
    if (op.block >= 0) add_traffic(sum, list, op, layouts[static_cast<std::size_t>(op.block)], shape);
  return sum;
}

// Sums of N-1 shares of every block; `padded` counts whole slices.
static std::int64_t paper_volume(const spec::ModelSpec& model, const StepShape& shape, bool padded) {
  const Partition& p = shape.partition;
  const bool micro = shape.policy.zero.reduce == schedule::ReduceEvery::micro;
  const std::int64_t stored = micro ? 4 : shape.grad_bytes,
                     wire = std::min<std::int64_t>(stored, shape.wire_bytes);
  const std::int64_t sums = micro ? shape.micros : 1;
  double sum = 0;
  for (const spec::BlockSpec& block : model.blocks) {
    const BlockLayout layout(block, p);
    const double share =
        static_cast<double>(padded ? layout.padded() : layout.elements()) * (p.ranks - 1) / p.ranks;
    const bool trained = block.trainable();
    if (trained) sum += share * static_cast<double>(sums * (wire + (p.update_whole ? stored : 0)));
    if (!p.weights_whole)
      sum += share * static_cast<double>(2 * shape.micros * shape.element_bytes);
    else if (!p.update_whole && trained)
      sum += share * shape.element_bytes;
  }
  return std::llround(sum);
}

std::int64_t paper_traffic(const spec::ModelSpec& model, const StepShape& shape) {
  return paper_volume(model, shape, false);
}

// Compares the step with one that frees gathered weights after every use.
static void add_cost_of_keeping(const spec::ModelSpec& model, const StepShape& shape, StepPlan* p) {
  const schedule::Zero& zero = shape.policy.zero;
  const bool keeps = zero.keep_blocks > 0 || !zero.reshard_after_forward;
  if (shape.partition.weights_whole || !keeps) return;
  schedule::Policy frees = shape.policy;
  frees.zero.keep_blocks = 0;
  frees.zero.reshard_after_forward = true;
  const schedule::Schedule other = plan_train(train_facts(model, shape), frees);
  p->kept_bytes = p->train.arena_bytes - other.arena_bytes;
  p->kept_traffic = traffic_of(other, model, shape).total() - p->traffic.total();
}

// The larger list's arena is claimed.
static void claim(const schedule::Schedule& list, StepPlan* p) {
  if (list.arena_bytes < p->arena) return;
  p->arena = list.arena_bytes;
  p->busiest = name(list.ops[static_cast<std::size_t>(busiest(memory_timeline(list)).op)]);
}

StepPlan plan_step(const spec::ModelSpec& model, const StepShape& shape) {
  require_countable(model, shape);
  StepPlan p;
  p.eval = plan_eval(eval_facts(model, shape), shape.policy.zero);
  claim(p.eval, &p);
  p.workspace = workspace_bytes(model, shape.eval_shape());
  if (shape.training) {
    p.train = plan_train(train_facts(model, shape), shape.policy);
    claim(p.train, &p);
    p.workspace = std::max(p.workspace, workspace_bytes(model, shape.train_shape()));
  }
  if (shape.training) {
    p.traffic = traffic_of(p.train, model, shape);
    p.paper_traffic = paper_traffic(model, shape);
    p.padding_traffic = paper_volume(model, shape, true) - p.paper_traffic;
    add_cost_of_keeping(model, shape, &p);
  }
  p.process_ranks = shape.process.ranks;
  p.gpu = shape.gpu;
  p.bill = bill_of(model, shape, p);
  return p;
}

static std::string row(const char* what, std::int64_t bytes) {
  return fmt::format("  {:<36} {:>18}  {:>11}\n", what, with_commas(bytes), human_bytes(bytes));
}

static std::string traffic_text(const StepPlan& plan) {
  std::string out = "traffic of a step, sent by each rank\n";
  const Traffic& t = plan.traffic;
  if (t.all_gather > 0) out += row("all_gather", t.all_gather);
  if (t.reduce_scatter > 0) out += row("reduce_scatter", t.reduce_scatter);
  if (t.all_reduce > 0) out += row("all_reduce", t.all_reduce);
  out += row("total", t.total());
  out += row("the ZeRO paper's formula", plan.paper_traffic);
  if (plan.padding_traffic > 0) out += row("+ padding", plan.padding_traffic);
  const std::int64_t saved = plan.paper_traffic + plan.padding_traffic - t.total();
  if (saved > 0) out += row("- weights still gathered", saved);
  if (plan.kept_traffic > 0)
    out += fmt::format("weights kept gathered by the recipe cost {} of memory and save {} of traffic\n",
                       human_bytes(plan.kept_bytes), human_bytes(plan.kept_traffic));
  return out;
}

std::string text(const StepPlan& plan) {
  std::string out = bill_text(plan);
  if (plan.traffic.total() > 0) out += traffic_text(plan);
  if (!plan.train.ops.empty())
    out += fmt::format("training step: {} ops, fingerprint {}\n", plan.train.ops.size(),
                       fingerprint(plan.train));
  out +=
      fmt::format("evaluation step: {} ops, fingerprint {}\n", plan.eval.ops.size(), fingerprint(plan.eval));
  return out;
}

}  // namespace zt::plan
