// Which of the attention kernels that fit a call is taken; for tests and measurements.
#pragma once

#include <cstdint>

namespace zt::kernels {

enum class AttentionPath : std::uint8_t {
  best,     // the fastest that this GPU can run
  any_gpu,  // mma.sync, sm_80 and later
  plain,    // ordinary fp32 arithmetic
};

// Of the whole process; not to be set while kernels are launched.
void set_attention_path(AttentionPath path);

}  // namespace zt::kernels
