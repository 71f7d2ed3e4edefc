#include "plan/bill.h"

#include <algorithm>
#include <numeric>

#include "base/align.h"
#include "base/text.h"
#include "plan/countable.h"
#include "plan/memory_timeline.h"
#include "plan/program.h"
#include "plan/step_plan.h"

namespace zt::plan {
namespace {

std::string dtype_words(const StepShape& shape, int bytes) {
  if (bytes == 4) return "float32";
  return shape.dtype == recipe::ModelDtype::float16 ? "float16" : "bfloat16";
}

BlockBytes bytes_of_blocks(const spec::ModelSpec& model, const StepShape& shape) {
  BlockBytes sum;
  for (const spec::BlockSpec& block : model.blocks) {
    const BlockBytes bytes = block_bytes(block, shape);
    sum.weights += bytes.weights;
    sum.grads += bytes.grads;
    sum.optimizer += bytes.optimizer;
    sum.snapshot += bytes.snapshot;
  }
  return sum;
}

const char* occupant_words(Occupant who) {
  switch (who) {
    case Occupant::gathered_weights: return "weights gathered";
    case Occupant::whole_gradients: return "gradients before their sum";
    case Occupant::block_inputs: return "inputs of blocks";
    case Occupant::activations: return "activations inside blocks";
    case Occupant::recomputed: return "activations computed again";
    case Occupant::activation_gradients: return "gradient of activations";
  }
  return "";
}

// The list whose arena is claimed: that of the larger one.
const schedule::Schedule& larger_list(const StepPlan& plan) {
  return plan.train.arena_bytes >= plan.eval.arena_bytes && !plan.train.ops.empty() ? plan.train : plan.eval;
}

void add_arena(std::vector<BillRow>& rows, const StepPlan& plan) {
  const MemoryPoint point = busiest(memory_timeline(larger_list(plan)));
  for (const auto& [who, id] : words(Occupant{})) rows.push_back({id, occupant_words(who), point.of(who)});
  rows.push_back({"arena_gaps", "gaps between them", plan.arena - point.live()});
}

// The micro-batch whose largest scratch the workspace is made for, and whose that is.
void add_workspace(std::vector<BillRow>& rows, const spec::ModelSpec& model, const StepShape& shape,
                   std::int64_t workspace) {
  const bool of_training = shape.training && workspace_bytes(model, shape.train_shape()) == workspace;
  const RunShape run = of_training ? shape.train_shape() : shape.eval_shape();
  const BufferSet head = head_scratch(model, run);
  if (head.bytes() == workspace) {
    std::int64_t logits = 0;
    for (const Buffer& buffer : head.list())
      if (buffer.name == "logits" || buffer.name == "d.logits")
        logits += round_up(buffer.rows * buffer.cols * buffer.element_bytes, schedule::kAlignment);
    rows.push_back({"logits_chunk",
                    cat("logits of ", with_commas(head_chunk(model, run)), " tokens at a time"), logits});
    rows.push_back({"workspace", "workspace: norm of the head", workspace - logits});
    return;
  }
  const bool backward = backward_scratch(model, run).bytes() == workspace;
  rows.push_back(
      {"workspace", cat("workspace: ", backward ? "backward" : "forward", " of a block"), workspace});
}

void add_disk(std::vector<BillRow>& rows, const spec::ModelSpec& model, const StepShape& shape) {
  if (!shape.training) return;
  const Disk& disk = shape.disk;
  if (disk.checkpoints > 0) {
    const std::int64_t one = checkpoint_bytes(model, shape.partition.ranks);
    rows.push_back({"checkpoint", "a checkpoint", one, Place::disk});
    rows.push_back(
        {"checkpoints_beside", cat(with_commas(disk.checkpoints - 1), " more that are kept or under way"),
         capped(static_cast<double>(one) * static_cast<double>(disk.checkpoints - 1)), Place::disk});
  }
  if (disk.exported)
    rows.push_back({"export", cat("exported model, ", dtype_words(shape, shape.element_bytes)),
                    model.bytes(shape.element_bytes), Place::disk});
}

std::string line(const std::string& what, std::int64_t bytes, std::int64_t of) {
  const std::string share =
      of > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(bytes) / static_cast<double>(of)) : "";
  return fmt::format("  {:<36} {:>18}  {:>11}  {:>7}\n", what, with_commas(bytes), human_bytes(bytes), share);
}

std::string rows_of(const StepPlan& plan, Place place, std::int64_t of) {
  std::string out;
  for (const BillRow& row : plan.bill)
    if (row.place == place) out += line(row.what, row.bytes, of);
  return out;
}

std::string process_text(const StepPlan& plan) {
  const std::string ranks = plan.process_ranks > 1 ? fmt::format(" of {} ranks", plan.process_ranks) : "";
  const std::int64_t process = plan.process_bytes(), planned = process - sum(plan.bill, Place::host);
  if (plan.gpu)
    return fmt::format("memory of the host for the process{}, beside the program\n", ranks) +
           rows_of(plan, Place::host, process) + line("total", process, process);
  return fmt::format("memory of the process{}, as the system counts it (estimated)\n", ranks) +
         line(cat("planned", ranks), planned, process) + rows_of(plan, Place::host, process) +
         line("process", process, process);
}

}  // namespace

std::vector<BillRow> bill_of(const spec::ModelSpec& model, const StepShape& shape, const StepPlan& plan) {
  const BlockBytes blocks = bytes_of_blocks(model, shape);
  const std::int64_t master = shape.element_bytes == 4 ? 0 : blocks.optimizer / 3;
  std::int64_t batches = batch_bytes(shape.eval_shape());
  if (shape.training) batches += shape.micros * batch_bytes(shape.train_shape());
  std::vector<BillRow> rows = {
      {"parameters", cat("parameters, ", dtype_words(shape, shape.element_bytes)), blocks.weights},
      {"master_copy", "master copy, float32", master},
      {"moments", "moments of AdamW, float32", blocks.optimizer - master},
      {"gradients", cat("gradients, ", shape.grad_bytes == 4 ? "float32" : "bfloat16"), blocks.grads}};
  add_arena(rows, plan);
  add_workspace(rows, model, shape, plan.workspace);
  const ProgramBytes program = shape.gpu ? ProgramBytes{} : program_bytes(model, shape);
  // Copies of the state lie in the host's memory, whose rows are the whole process'.
  const Place copies = shape.gpu ? Place::host : Place::device;
  const std::int64_t of_copies = shape.gpu ? shape.process.ranks : 1;
  rows.insert(
      rows.end(),
      {{"batches", "batches: ids, positions, targets", batches},
       {"rotary_tables", "rotary tables", rope_table_bytes(model, shape.sequence_length)},
       {"communication", "communication buffers", shape.comm_bytes},
       shape.gpu ? BillRow{"kernel_workspace", "workspace of the kernels", shape.kernel_bytes}
                 : BillRow{"half_precision_tiles", "tiles of half-precision products", shape.kernel_bytes},
       {"checkpoint_staging", "copy that checkpoints are written from", of_copies * blocks.snapshot, copies},
       {"held_state", "copy that a run goes back to (rewind)",
        shape.held && shape.training ? of_copies * (blocks.weights + blocks.optimizer) : 0, copies},
       {"libraries", "libraries of the device", shape.process.device_libraries},
       {"program", "program and libraries", program.program, Place::host},
       {"kernel_scratch", "scratch of the kernels", program.scratch, Place::host},
       {"tokenizer", "tokenizer", program.tokenizer, Place::host}});
  add_disk(rows, model, shape);
  std::erase_if(rows, [](const BillRow& row) { return row.bytes == 0; });
  return rows;
}

std::int64_t sum(const std::vector<BillRow>& bill, Place place) {
  std::int64_t sum = 0;
  for (const BillRow& row : bill) sum += row.place == place ? row.bytes : 0;
  return sum;
}

std::int64_t bytes_of(const std::vector<BillRow>& bill, std::string_view id) {
  const auto found = std::ranges::find(bill, id, &BillRow::id);
  return found == bill.end() ? 0 : found->bytes;
}

std::string largest_rows(std::vector<BillRow> bill, std::size_t most) {
  std::erase_if(bill, [](const BillRow& row) { return row.place == Place::disk; });
  std::ranges::stable_sort(bill, std::ranges::greater(), &BillRow::bytes);
  if (bill.size() > most) bill.resize(most);
  std::vector<std::string> words;
  for (const BillRow& row : bill) words.push_back(cat(row.what, " ", human_bytes(row.bytes)));
  return join(words, ", ");
}

std::string bill_text(const StepPlan& plan) {
  const std::int64_t total = plan.total();
  std::string out = "memory of a rank\n" + rows_of(plan, Place::device, total) + line("total", total, total);
  out += fmt::format("the arena is fullest in `{}`\n", plan.busiest);
  if (sum(plan.bill, Place::host) > 0) out += process_text(plan);
  const std::int64_t disk = sum(plan.bill, Place::disk);
  if (disk > 0)
    out += "disk of the run, over all ranks\n" + rows_of(plan, Place::disk, disk) + line("total", disk, disk);
  return out;
}

std::int64_t checkpoint_bytes(const spec::ModelSpec& model, int ranks) {
  // A rank's slice of a block begins and ends in tensors that others hold too.
  constexpr std::int64_t kBookkeeping = 3000;
  std::int64_t elements = 0, pieces = 0;
  for (const spec::BlockSpec& block : model.blocks) {
    pieces += static_cast<std::int64_t>(block.tensors.size()) + ranks - 1;
    for (const spec::TensorSpec& tensor : block.tensors)
      elements += tensor.elements() * (tensor.trainable ? 3 : 1);
  }
  return 4 * elements + kBookkeeping * pieces;
}

}  // namespace zt::plan
