// One call of attention with its inputs, and how it is judged: the table of backends and the GPU's own shapes share it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parity/parity.h"
#include "reference/attention.h"

namespace zt::parity {

struct AttentionCase {
  Dtype dtype = Dtype::f32;
  int H = 2, K = 1, d = 16, window = 0;
  float dropout = 0.f;
  std::vector<std::int32_t> bounds = {0, 70};
  std::int64_t gap = 0;  // elements between rows

  std::int64_t N() const { return bounds.back(); }
  kernels::AttentionShape shape() const;
};

std::string text(const AttentionCase& c);

// q, k, v and grad are filled; the rest is for kernels to write.
struct AttentionBuffers {
  explicit AttentionBuffers(const AttentionCase& c);
  void forward(kernels::Kernels& kernels);
  void backward(kernels::Kernels& kernels);
  reference::Attended exact() const;

  Guarded q, k, v, o, grad, dq, dk, dv, lse, delta;

 private:
  AttentionCase case_;
};

// Relative error of a probability in units of 2^-24: the score's sum of d products, its scaling, the
// maximum's or the log-sum-exp's rounding, twice (the normaliser's terms have it too), and exp.
double probability_steps(const AttentionCase& c, double score);

// Kernels may round probabilities and ds to the narrow format before the products, as is usual on every backend.
double operand_steps(Dtype dtype);

// Against the reference, from what it gives for the forward pass; inputs must stay as they are.
void check_attention_forward(kernels::Kernels& k, const AttentionCase& c);
void check_attention_gradients(kernels::Kernels& k, const AttentionCase& c);

}  // namespace zt::parity
