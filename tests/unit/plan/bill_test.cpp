// The bill of a step: rows that say what every byte is for, and add up.
#include "plan/bill.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/align.h"
#include "base/text.h"
#include "plan/memory_timeline.h"
#include "plan/program.h"
#include "plan/step_plan.h"

namespace zt::plan {
namespace {

using schedule::SlotKind;

spec::ModelSpec llama(int hidden, int layers, int vocab = 300) {
  return spec::from_config({{"model_type", "llama"},
                            {"hidden_size", hidden},
                            {"num_hidden_layers", layers},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 2},
                            {"intermediate_size", 3 * hidden},
                            {"vocab_size", vocab},
                            {"max_position_embeddings", 4096}},
                           "llama");
}

StepShape shape_of(int stage, int ranks, schedule::Policy policy = {}) {
  StepShape shape;
  shape.sequence_length = 128;
  shape.rows = 2;
  shape.micros = 3;
  shape.policy = policy;
  shape.policy.zero.gather_weights = stage == 3;
  shape.policy.zero.reduce = stage >= 2 ? schedule::ReduceEvery::micro : schedule::ReduceEvery::step;
  shape.partition = Partition::of_stage(stage, ranks, shape.policy.zero.reduce);
  return shape;
}

const std::vector<std::string> kArenaRows = {"gathered_weights", "whole_gradients", "block_inputs",
                                             "activations",      "recomputed",      "activation_gradients",
                                             "arena_gaps"};

std::int64_t arena_of(const StepPlan& plan) {
  std::int64_t sum = 0;
  for (const std::string& id : kArenaRows) sum += bytes_of(plan.bill, id);
  return sum;
}

// What lies at an op by the list itself, by its births and frees.
std::int64_t live_at(const schedule::Schedule& list, int op, std::initializer_list<SlotKind> kinds) {
  std::int64_t sum = 0;
  for (schedule::SlotId slot = 0; slot < int(list.slots.size()); ++slot) {
    const schedule::Slot& it = list.slots[std::size_t(slot)];
    if (std::ranges::find(kinds, it.kind) == kinds.end()) continue;
    int born = -1, freed = int(list.ops.size());
    for (int i = 0; i < int(list.ops.size()); ++i) {
      if (std::ranges::count(list.ops[std::size_t(i)].births, slot) > 0) born = i;
      if (std::ranges::count(list.ops[std::size_t(i)].frees, slot) > 0) freed = i;
    }
    if (born >= 0 && born <= op && op <= freed) sum += round_up(it.bytes, schedule::kAlignment);
  }
  return sum;
}

TEST_CASE("bill: the arena's rows add up to the arena, and are what its list says of the busiest op") {
  const spec::ModelSpec m = llama(64, 6);
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {1, 2, 4})
      for (const auto recompute :
           {schedule::Recompute::none, schedule::Recompute::full, schedule::Recompute::sqrt}) {
        CAPTURE(stage);
        CAPTURE(ranks);
        const StepPlan plan = plan_step(m, shape_of(stage, ranks, {.recompute = recompute}));
        CHECK(arena_of(plan) == plan.arena);
        const auto timeline = memory_timeline(plan.train);
        REQUIRE(timeline.size() == plan.train.ops.size());
        const MemoryPoint top = busiest(timeline);
        CHECK(plan.busiest == name(plan.train.ops[std::size_t(top.op)]));
        CHECK(top.of(Occupant::gathered_weights) == live_at(plan.train, top.op, {SlotKind::W}));
        CHECK(top.of(Occupant::whole_gradients) == live_at(plan.train, top.op, {SlotKind::G}));
        CHECK(top.of(Occupant::activation_gradients) == live_at(plan.train, top.op, {SlotKind::D}));
        CHECK(top.of(Occupant::block_inputs) + top.of(Occupant::activations) + top.of(Occupant::recomputed) ==
              live_at(plan.train, top.op, {SlotKind::X, SlotKind::S}));
        if (recompute == schedule::Recompute::none) CHECK(top.of(Occupant::recomputed) == 0);
        CHECK(bytes_of(plan.bill, "recomputed") == top.of(Occupant::recomputed));
        for (const MemoryPoint& point : timeline) {
          CHECK(point.live() <= top.live());
          CHECK(std::ranges::min(point.bytes) >= 0);
        }
      }
}

TEST_CASE(
    "bill: with full recomputation one block's activations are there at a time, and were computed again") {
  const spec::ModelSpec m = llama(64, 6);
  const StepShape shape = shape_of(0, 1, {.recompute = schedule::Recompute::full});
  const StepPlan plan = plan_step(m, shape);
  const std::int64_t one = saved_buffers(llama(64, 6), shape.train_shape()).bytes();
  std::int64_t again = 0;
  for (const MemoryPoint& point : memory_timeline(plan.train)) {
    CHECK(point.of(Occupant::activations) + point.of(Occupant::recomputed) <= one);
    again = std::max(again, point.of(Occupant::recomputed));
  }
  CHECK(again == one);
}

TEST_CASE("bill: an evaluation that is larger than training fills the arena") {
  StepShape shape = shape_of(0, 1);
  shape.eval_rows = 500;
  const StepPlan plan = plan_step(llama(64, 2), shape);
  CHECK(plan.arena == plan.eval.arena_bytes);
  CHECK(arena_of(plan) == plan.arena);
  CHECK(bytes_of(plan.bill, "activation_gradients") == 0);
}

TEST_CASE("bill: the head's logits are a row where the head has the largest workspace, and only there") {
  const StepShape shape = shape_of(0, 1);
  // 256 tokens x 20,000 logits x 4 bytes; the chunk is 64 MiB / 80,000 bytes = 838 tokens, so all of them.
  const StepPlan wide = plan_step(llama(64, 2, 20000), shape);
  CHECK(bytes_of(wide.bill, "logits_chunk") == 256 * 20000 * 4);
  CHECK(bytes_of(wide.bill, "logits_chunk") + bytes_of(wide.bill, "workspace") == wide.workspace);
  const StepPlan narrow = plan_step(llama(256, 2, 50), shape);
  CHECK(bytes_of(narrow.bill, "logits_chunk") == 0);
  CHECK(bytes_of(narrow.bill, "workspace") == narrow.workspace);
  CHECK(text(narrow).find("workspace: backward of a block") != std::string::npos);
}

TEST_CASE("bill: ids are unique words of small letters, and every place's rows add up in the text") {
  StepShape shape = shape_of(3, 4, {.recompute = schedule::Recompute::sqrt});
  shape.element_bytes = 2;
  shape.snapshot = true;
  shape.disk = {3, true};
  shape.process = {1, 2, true, true};
  shape.comm_bytes = 3 << 20;
  shape.kernel_bytes = 1000;
  const StepPlan plan = plan_step(llama(64, 6), shape);
  std::set<std::string> ids;
  for (const BillRow& row : plan.bill) {
    CHECK(ids.insert(row.id).second);
    CHECK(row.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
    CHECK(row.bytes > 0);
  }
  CHECK(ids.contains("master_copy"));
  CHECK(ids.contains("checkpoint_staging"));
  CHECK(ids.contains("tokenizer"));
  CHECK(plan.process_bytes() == plan.total() + sum(plan.bill, Place::host));
  const std::string shown = text(plan);
  CHECK(shown.find(with_commas(plan.total())) != std::string::npos);
  CHECK(shown.find(with_commas(plan.process_bytes())) != std::string::npos);
  CHECK(shown.find(with_commas(sum(plan.bill, Place::disk))) != std::string::npos);
}

TEST_CASE("bill: virtual ranks share one program, and each holds its own plan") {
  StepShape shape = shape_of(2, 4);
  const StepPlan apart = plan_step(llama(64, 6), shape);
  shape.process.ranks = 4;
  const StepPlan together = plan_step(llama(64, 6), shape);
  CHECK(together.total() == apart.total());
  CHECK(bytes_of(together.bill, "program") == bytes_of(apart.bill, "program"));
  CHECK(together.process_bytes() == 4 * apart.total() + sum(together.bill, Place::host));
}

TEST_CASE(
    "bill: on a GPU copies of the state are the host's, for all ranks of the process, and the rest is the "
    "GPU's") {
  StepShape shape = shape_of(2, 4);
  shape.snapshot = shape.held = true;
  shape.process.ranks = 2;
  const StepPlan host = plan_step(llama(64, 6), shape);
  shape.gpu = true;
  shape.kernel_bytes = 1 << 20;
  const StepPlan gpu = plan_step(llama(64, 6), shape);
  for (const char* const copy : {"checkpoint_staging", "held_state"})
    CHECK(bytes_of(gpu.bill, copy) == 2 * bytes_of(host.bill, copy));
  CHECK(bytes_of(gpu.bill, "kernel_workspace") == 1 << 20);
  CHECK(bytes_of(gpu.bill, "program") == 0);
  // Two more arrays a batch: where the document of each token begins and ends.
  const std::int64_t spans = bytes_of(gpu.bill, "batches") - bytes_of(host.bill, "batches");
  CHECK(spans == 2 * (bytes_of(host.bill, "batches") / 3));
  const std::int64_t copies = sum(gpu.bill, Place::host);
  CHECK(copies == bytes_of(gpu.bill, "checkpoint_staging") + bytes_of(gpu.bill, "held_state"));
  CHECK(gpu.total() == host.total() - copies / 2 + spans + (1 << 20));
  CHECK(gpu.needed_bytes() == gpu.total());
  CHECK(gpu.process_bytes() == copies);
  CHECK(text(gpu).find("memory of the host for the process of 2 ranks") != std::string::npos);
  CHECK(host.needed_bytes() == host.process_bytes());
}

TEST_CASE("bill: disk counts fp32 values and both moments, a frozen tensor's value only, and what is kept") {
  // 3 norms of 64, q and o 64 x 64, k and v 64 x 32, three of the MLP 64 x 192, embedding and head 300 x 64.
  const std::int64_t parameters = 2 * 300 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 192);
  spec::ModelSpec m = llama(64, 2);
  REQUIRE(m.parameters() == parameters);
  StepShape shape = shape_of(0, 1);
  shape.disk = {4, true};
  const std::int64_t tensors = 1 + 2 * 9 + 2;
  const StepPlan plan = plan_step(m, shape);
  CHECK(bytes_of(plan.bill, "checkpoint") == 12 * parameters + 3000 * tensors);
  CHECK(bytes_of(plan.bill, "checkpoints_beside") == 3 * bytes_of(plan.bill, "checkpoint"));
  CHECK(bytes_of(plan.bill, "export") == 4 * parameters);
  for (spec::TensorSpec& tensor : m.blocks[0].tensors) tensor.trainable = false;
  CHECK(checkpoint_bytes(m, 1) == 12 * parameters - 8 * 300 * 64 + 3000 * tensors);
  shape.training = false;
  CHECK(sum(plan_step(m, shape).bill, Place::disk) == 0);
}

}  // namespace
}  // namespace zt::plan
