#include "plan/step_plan.h"

#include <algorithm>

#include "base/align.h"
#include "base/text.h"

namespace zt::plan {

static std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, schedule::kAlignment); }

BlockBytes block_bytes(const spec::BlockSpec& block, int element_bytes, bool training) {
  BlockBytes bytes;
  const std::int64_t fp32 = aligned(block.elements * 4);
  bytes.weights = aligned(block.elements * element_bytes);
  if (!training) return bytes;
  bytes.grads = fp32;
  bytes.optimizer = (element_bytes == 4 ? 2 : 3) * fp32;
  return bytes;
}

std::int64_t batch_bytes(const RunShape& run) { return 3 * aligned(run.tokens * 4); }

std::int64_t rope_table_bytes(const spec::ModelSpec& model, std::int64_t positions) {
  return model.family == spec::Family::llama ? 2 * aligned(positions * (model.head_size / 2) * 4) : 0;
}

static schedule::StepFacts facts(const spec::ModelSpec& model, const RunShape& run, bool training,
                                 std::int64_t micros) {
  schedule::StepFacts f;
  f.micros = static_cast<int>(micros);
  f.tied = model.tied;
  f.workspace_bytes = workspace_bytes(model, run);
  f.batch_bytes = micros * batch_bytes(run);
  const std::int64_t saved = saved_buffers(model, run).bytes();
  for (const spec::BlockSpec& block : model.blocks) {
    const BlockBytes bytes = block_bytes(block, run.element_bytes, training);
    schedule::BlockFacts b;
    if (block.kind != spec::BlockKind::embedding)
      b.input_bytes = run.tokens * model.hidden * run.element_bytes;
    if (block.kind == spec::BlockKind::transformer) b.saved_bytes = saved;
    b.weight_bytes = bytes.weights;
    b.grad_bytes = bytes.grads;
    b.optimizer_bytes = bytes.optimizer;
    f.blocks.push_back(b);
  }
  return f;
}

schedule::StepFacts train_facts(const spec::ModelSpec& model, const StepShape& shape) {
  return facts(model, shape.train_shape(), true, shape.micros);
}

schedule::StepFacts eval_facts(const spec::ModelSpec& model, const StepShape& shape) {
  return facts(model, shape.eval_shape(), shape.training, 1);
}

std::int64_t StepPlan::total() const {
  std::int64_t sum = 0;
  for (const auto& [purpose, bytes] : bill) sum += bytes;
  return sum;
}

StepPlan plan_step(const spec::ModelSpec& model, const StepShape& shape) {
  StepPlan p;
  p.eval = plan_eval(eval_facts(model, shape));
  p.arena = p.eval.arena_bytes;
  p.workspace = workspace_bytes(model, shape.eval_shape());
  std::int64_t batches = batch_bytes(shape.eval_shape());
  if (shape.training) {
    p.train = plan_train(train_facts(model, shape), shape.policy);
    p.arena = std::max(p.arena, p.train.arena_bytes);
    p.workspace = std::max(p.workspace, workspace_bytes(model, shape.train_shape()));
    batches += shape.micros * batch_bytes(shape.train_shape());
  }
  BlockBytes sum;
  for (const spec::BlockSpec& block : model.blocks) {
    const BlockBytes bytes = block_bytes(block, shape.element_bytes, shape.training);
    sum.weights += bytes.weights;
    sum.grads += bytes.grads;
    sum.optimizer += bytes.optimizer;
  }
  const char* const optimizer = shape.element_bytes == 4 ? "moments" : "master copy and moments";
  p.bill = {{"weights", sum.weights},
            {"gradients (fp32)", sum.grads},
            {optimizer, sum.optimizer},
            {"activations (arena)", p.arena},
            {"workspace", p.workspace},
            {"batches", batches},
            {"rotary tables", rope_table_bytes(model, shape.sequence_length)}};
  std::erase_if(p.bill, [](const auto& row) { return row.second == 0; });
  return p;
}

std::string text(const StepPlan& plan) {
  std::string out = "memory\n";
  for (const auto& [purpose, bytes] : plan.bill)
    out += fmt::format("  {:<26} {:>16}  {:>11}\n", purpose, with_commas(bytes), human_bytes(bytes));
  out +=
      fmt::format("  {:<26} {:>16}  {:>11}\n", "total", with_commas(plan.total()), human_bytes(plan.total()));
  if (!plan.train.ops.empty())
    out += fmt::format("training step: {} ops, fingerprint {}\n", plan.train.ops.size(),
                       fingerprint(plan.train));
  out +=
      fmt::format("evaluation step: {} ops, fingerprint {}\n", plan.eval.ops.size(), fingerprint(plan.eval));
  return out;
}

}  // namespace zt::plan
