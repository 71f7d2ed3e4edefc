// From a model and the shape of a run to the facts a step is planned from, and the bill of its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/buffers.h"
#include "schedule/schedule.h"
#include "spec/model.h"

namespace zt::plan {

// Bytes of one block's permanent slots. fp32 weights are their own master copy.
struct BlockBytes {
  std::int64_t weights = 0, grads = 0, optimizer = 0;
};
BlockBytes block_bytes(const spec::BlockSpec& block, int element_bytes, bool training);

// What a run asks of a step. Evaluation has its own number of rows.
struct StepShape {
  int element_bytes = 4;
  bool dropout = false;
  bool training = true;
  std::int64_t sequence_length = 0;
  std::int64_t rows = 1;       // of one micro-batch
  std::int64_t micros = 1;     // of one step
  std::int64_t eval_rows = 1;  // of one evaluation batch
  schedule::Policy policy;

  RunShape train_shape() const { return {rows * sequence_length, element_bytes, dropout}; }
  RunShape eval_shape() const { return {eval_rows * sequence_length, element_bytes, dropout}; }
};

// Bytes of one micro-batch's token ids, positions and targets.
std::int64_t batch_bytes(const RunShape& run);
// cos and sin for `positions` positions, fp32; 0 for learned positions.
std::int64_t rope_table_bytes(const spec::ModelSpec& model, std::int64_t positions);

schedule::StepFacts train_facts(const spec::ModelSpec& model, const StepShape& shape);
schedule::StepFacts eval_facts(const spec::ModelSpec& model, const StepShape& shape);

// The lists of a run and every byte they need.
struct StepPlan {
  schedule::Schedule train, eval;  // `train` is empty when the run does not train
  std::int64_t arena = 0;          // the larger list's
  std::int64_t workspace = 0;
  std::vector<std::pair<std::string, std::int64_t>> bill;  // purpose and bytes, in the order people read them
  std::int64_t total() const;
};
StepPlan plan_step(const spec::ModelSpec& model, const StepShape& shape);

// The bill as a table, then sizes of the lists and their fingerprints.
std::string text(const StepPlan& plan);

}  // namespace zt::plan
