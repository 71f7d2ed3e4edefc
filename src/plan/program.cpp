#include "plan/program.h"

#include <algorithm>

#include "base/align.h"

namespace zt::plan {
namespace {

constexpr double kMiB = 1 << 20;

// Measured on Debian 12 with Open MPI 4.1, oneDNN 2.6 and HDF5 1.10, two cores; in MiB.
constexpr double kCode = 26.0;  // pages of code and data that a run touches, and small objects: 25.3 to 26.5
constexpr double kMpi = 7.7;    // Open MPI of one process beside its windows: 7.2 to 8.2
constexpr double kProducts = 2.5;     // what oneDNN keeps for fp32 products beside packed operands: -6 to 16
constexpr double kOperandCopies = 2;  // its packed operands stay in the heap: copies of the largest
constexpr double kEntry = 512;        // bytes an entry of a vocabulary: 360 (gpt2) to 640 (llama3)

// oneDNN packs the right operand of an fp32 product, at most so many numbers deep and wide (gemm blocks of its AVX-512
// driver), and for each thread a block of the left one.
constexpr std::int64_t kPackedDepth = 384, kPackedWidth = 9984;

double packed(std::int64_t columns, std::int64_t depth) {
  return 4.0 * static_cast<double>(std::min(columns, kPackedWidth) * std::min(depth, kPackedDepth));
}

// The largest products backward makes: of the MLP's gradient with its weights, and with its inputs. Products of float16
// are made of fp32 tiles 512 wide.
double product_scratch(const spec::ModelSpec& model, const StepShape& shape) {
  if (shape.dtype == recipe::ModelDtype::bfloat16) return 0;
  const std::int64_t width =
      shape.element_bytes == 4 ? model.intermediate : std::min(model.intermediate, 512);
  const double operands = packed(width, model.hidden) + packed(width, shape.train_shape().tokens);
  const double threads = static_cast<double>(shape.process.threads) * 4 * kPackedDepth * kPackedDepth;
  return kProducts * kMiB + kOperandCopies * operands + threads;
}

// Whole documents are worked on at once where there are enough of them for all threads.
bool whole_documents(const spec::ModelSpec& model, const StepShape& shape) {
  return shape.process.threads - 1 <= 0.4 * static_cast<double>(model.kv_heads * shape.rows);
}

// What the windows of other ranks on this node hold: every process maps them all. Of each, an all_gather uses the first
// two thirds or less; see comm/windows.cpp.
double windows_of_others(const StepShape& shape) {
  const double others = shape.partition.ranks - 1;
  return others < 2 ? static_cast<double>(shape.comm_bytes) * others
                    : static_cast<double>(shape.comm_bytes) * 2;
}

}  // namespace

std::int64_t attention_scratch_bytes(std::int64_t tokens, int head_size) {
  return 3 * 4 * round_up(tokens, 64) * round_up(head_size, 16);
}

ProgramBytes program_bytes(const spec::ModelSpec& model, const StepShape& shape) {
  const Process& process = shape.process;
  const double ranks = process.ranks;
  ProgramBytes bytes;
  double program = kCode * kMiB;
  if (process.mpi) program += kMpi * kMiB + windows_of_others(shape);
  bytes.program = static_cast<std::int64_t>(program);
  double scratch = product_scratch(model, shape);
  if (shape.training && whole_documents(model, shape))
    scratch += static_cast<double>(process.threads) *
               static_cast<double>(attention_scratch_bytes(shape.sequence_length, model.head_size));
  bytes.scratch = static_cast<std::int64_t>(ranks * scratch);
  if (process.vocabulary) bytes.tokenizer = static_cast<std::int64_t>(ranks * kEntry * model.vocab);
  return bytes;
}

}  // namespace zt::plan
