// What a rank's process holds besides its plan: code, libraries, what products pack, a tokenizer. Measured constants.
#pragma once

#include <cstdint>

#include "plan/step_plan.h"

namespace zt::plan {

// Resident bytes, for all ranks of the process; bench/records/2026-11-30-plan-memory.md has the measurements. Mapped
// data files are not counted: the system takes their pages back when memory is short.
struct ProgramBytes {
  std::int64_t program =
      0;  // code and libraries; with MPI what it holds, and the other ranks' shared windows
  std::int64_t scratch =
      0;  // of the kernels: packed operands of fp32 products, tiles of attention's backward
  std::int64_t tokenizer = 0;  // its vocabulary
  std::int64_t total() const { return program + scratch + tokenizer; }
};
ProgramBytes program_bytes(const spec::ModelSpec& model, const StepShape& shape);

// Scratch of attention's backward, of one thread, for documents of `tokens` tokens: fp32 k, dk and dv of a head.
std::int64_t attention_scratch_bytes(std::int64_t tokens, int head_size);

}  // namespace zt::plan
