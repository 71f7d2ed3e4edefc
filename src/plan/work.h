// What each op of a step computes: the kernels it calls, in order, with their sizes. The layers call the same
// (a test counts them), so time is planned from what runs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/step_plan.h"
#include "recipe/words.h"

namespace zt::plan {

// One for each kernel of a backend, products by what they are of:
//
//   kernel               m          n             k          counts
//   product              tokens     outputs       inputs     y_mn = x_mk w; 2 m n k FLOPs
//   product_dx           tokens     outputs       inputs     dx_mk = dy_mn w
//   product_dw           tokens     outputs       inputs     dw_nk += dy_mn x_mk, in fp32
//   bias, bias_grad      tokens     outputs       0          y_mn starts as, or db_n gets, what a product leaves out
//   attention            length     rows x heads  head size  4 k FLOPs for each pair of query and key that it sees
//   attention_backward   length     rows x heads  head size  10 k: five products where forward has two
//   the others           rows       columns       0          bytes that must move, read or written
enum class Kernel : std::uint8_t {
  product,
  product_dx,
  product_dw,
  bias,
  bias_grad,
  attention,
  attention_backward,
  embedding,
  embedding_backward,
  layer_norm,
  layer_norm_backward,
  rms_norm,
  rms_norm_backward,
  rope,
  gelu,
  gelu_backward,
  swiglu,
  swiglu_backward,
  dropout,
  cross_entropy,
  copy,
  clear,
  add,
  sum_squares,
  adamw
};
// Whether a rate of this kernel counts FLOPs (else bytes).
bool counts_flops(Kernel kernel);

inline std::vector<recipe::Word<Kernel>> words(Kernel) {
  return {{Kernel::product, "product"},
          {Kernel::product_dx, "product_dx"},
          {Kernel::product_dw, "product_dw"},
          {Kernel::bias, "bias"},
          {Kernel::bias_grad, "bias_grad"},
          {Kernel::attention, "attention"},
          {Kernel::attention_backward, "attention_backward"},
          {Kernel::embedding, "embedding"},
          {Kernel::embedding_backward, "embedding_backward"},
          {Kernel::layer_norm, "layer_norm"},
          {Kernel::layer_norm_backward, "layer_norm_backward"},
          {Kernel::rms_norm, "rms_norm"},
          {Kernel::rms_norm_backward, "rms_norm_backward"},
          {Kernel::rope, "rope"},
          {Kernel::gelu, "gelu"},
          {Kernel::gelu_backward, "gelu_backward"},
          {Kernel::swiglu, "swiglu"},
          {Kernel::swiglu_backward, "swiglu_backward"},
          {Kernel::dropout, "dropout"},
          {Kernel::cross_entropy, "cross_entropy"},
          {Kernel::copy, "copy"},
          {Kernel::clear, "clear"},
          {Kernel::add, "add"},
          {Kernel::sum_squares, "sum_squares"},
          {Kernel::adamw, "adamw"}};
}

// Calls of one kernel with one size.
struct Work {
  Kernel kernel = Kernel::copy;
  std::int64_t m = 0, n = 0, k = 0;
  double flops = 0, bytes = 0;  // of one call
  std::int64_t calls = 1;
  double amount() const { return counts_flops(kernel) ? flops : bytes; }
  friend bool operator==(const Work&, const Work&) = default;
};

// A kernel call of this size on numbers of `element_bytes`; for the attention kernels m is the length of every
// document and the mask is causal, over at most `window` keys (0: all).
Work work_of(Kernel kernel, std::int64_t m, std::int64_t n, std::int64_t k, int element_bytes,
             std::int64_t window = 0);

// What this rank computes in an op of `list`, when every row is full and is one document. What an op moves between
// ranks is not in it, but for the copies and sums it makes on the way there.
std::vector<Work> work_of(const schedule::Schedule& list, const schedule::Op& op,
                          const spec::ModelSpec& model, const StepShape& shape);

}  // namespace zt::plan
