// From a model and the shape of a run to the facts a step is planned from, and what the planned step needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/bill.h"
#include "plan/buffers.h"
#include "plan/partition.h"
#include "recipe/settings.h"
#include "schedule/schedule.h"
#include "spec/model.h"

namespace zt::plan {

// Where a rank lives: what its process holds beside the plan depends on it.
struct Process {
  int ranks = 1;            // that share the process: more than one for virtual ranks, as threads
  int threads = 1;          // each rank computes with
  bool mpi = false;         // it speaks to other processes
  bool vocabulary = false;  // it holds a tokenizer with as many entries as the model
  // Of a GPU: what its libraries hold there (contexts, workspaces).
  std::int64_t device_libraries = 0;
};

// What a run writes.
struct Disk {
  std::int64_t checkpoints = 0;  // that exist at once at most, one under way included
  bool exported = false;         // the model, in its own number format
};

// What a run asks of a step on one rank. Evaluation has its own number of rows.
struct StepShape {
  Partition partition;
  recipe::ModelDtype dtype = recipe::ModelDtype::float32;  // of weights and activations, of
  int element_bytes = 4;                                   // so many bytes
  int grad_bytes = 4;                                      // of the accumulated gradient R
  int wire_bytes = 4;     // of gradients on their way between ranks; at most as wide as what is sent
  bool snapshot = false;  // a copy of this rank's state, from which checkpoints are written beside training
  bool held = false;      // a copy of everything a step changes, to which a run can go back
  std::int64_t comm_bytes = 0;    // what the communicator holds for itself
  std::int64_t kernel_bytes = 0;  // what the kernels hold for themselves
  bool gpu =
      false;  // memory of its own, copies for later in the host's, and kernels that want batches as GPUs do
  bool dropout = false;
  bool selective = false;  // recomputation inside the blocks, beside the policy's of whole blocks
  bool training = true;
  std::int64_t sequence_length = 0;
  std::int64_t rows = 1;       // of one micro-batch
  std::int64_t micros = 1;     // of one step
  std::int64_t eval_rows = 1;  // of one evaluation batch
  schedule::Policy policy;
  Process process;
  Disk disk;

  RunShape train_shape() const { return {rows * sequence_length, element_bytes, dropout, selective, gpu}; }
  RunShape eval_shape() const {
    return {eval_rows * sequence_length, element_bytes, dropout, selective, gpu};
  }
};

// Bytes of one block's slots on the rank that holds the most. fp32 weights are their own master copy.
struct BlockBytes {
  std::int64_t weights = 0;      // P
  std::int64_t gathered = 0;     // W
  std::int64_t grads = 0;        // R
  std::int64_t whole_grads = 0;  // G
  std::int64_t optimizer = 0;    // O
  std::int64_t snapshot = 0;     // fp32 values and moments of the rank's own slice
};
BlockBytes block_bytes(const spec::BlockSpec& block, const StepShape& shape);

// Bytes of one micro-batch's token ids, positions and targets, with dropout the numbers of its tokens, on a GPU where
// their documents begin and end: so many arrays, each of the same size.
int batch_arrays(const RunShape& run);
std::int64_t batch_bytes(const RunShape& run);
// cos and sin for `positions` positions, fp32; 0 for learned positions.
std::int64_t rope_table_bytes(const spec::ModelSpec& model, std::int64_t positions);

schedule::StepFacts train_facts(const spec::ModelSpec& model, const StepShape& shape);
schedule::StepFacts eval_facts(const spec::ModelSpec& model, const StepShape& shape);

// Bytes that one rank sends in a step. Every rank sends the same.
struct Traffic {
  std::int64_t all_gather = 0, reduce_scatter = 0, all_reduce = 0;
  std::int64_t total() const { return all_gather + reduce_scatter + all_reduce; }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
// What the ops of a list send.
Traffic traffic_of(const schedule::Schedule& list, const spec::ModelSpec& model, const StepShape& shape);
// The ZeRO paper's volume with the exact ring factor, in bytes and without padding: gradients once (every
// micro-batch, or a step) and weights once a step, or, where they are sliced, twice a micro-batch.
// Rajbhandari et al. 2020, section 7.
std::int64_t paper_traffic(const spec::ModelSpec& model, const StepShape& shape);

// The lists of a run and every byte they need and send.
struct StepPlan {
  schedule::Schedule train, eval;  // `train` is empty when the run does not train
  std::int64_t arena = 0;          // the larger list's
  std::int64_t workspace = 0;
  std::string busiest;        // the op at which the larger list holds the most
  std::vector<BillRow> bill;  // without rows of no bytes
  // What a rank claims and holds: the device's rows. A run's planned_bytes.
  std::int64_t total() const { return sum(bill, Place::device); }
  // The whole process in the host's memory: the host's rows, and on a processor `total` of each of its ranks.
  std::int64_t process_bytes() const;
  // What must fit into the memory in which the step runs: the GPU's, or the process.
  std::int64_t needed_bytes() const { return gpu ? total() : process_bytes(); }
  int process_ranks = 1;
  bool gpu = false;
  Traffic traffic;                 // of a training step
  std::int64_t paper_traffic = 0;  // see above
  // What weights that stay gathered between their uses by the recipe's wish cost in memory and save in traffic.
  std::int64_t kept_bytes = 0, kept_traffic = 0;
  std::int64_t padding_traffic = 0;  // what padding adds to the paper's volume
};
// Error(usage) for runs of more bytes than fit the numbers here (an exbibyte), and as schedule::plan_train.
StepPlan plan_step(const spec::ModelSpec& model, const StepShape& shape);

// The bill as a table, then sizes of the lists and their fingerprints.
std::string text(const StepPlan& plan);

}  // namespace zt::plan
