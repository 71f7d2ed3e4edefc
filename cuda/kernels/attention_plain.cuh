// Attention by ordinary fp32 arithmetic: every format (also mixed), head sizes up to 256, rows at any address.
// attention.cu takes these kernels where tensor cores cannot be used.
#pragma once

#include "kernels/attention_call.cuh"

namespace zt::kernels {

constexpr int kLargestHead = 256;

void launch_plain_attention(const AttentionCall& call, cudaStream_t stream);
void launch_plain_attention_backward(const AttentionCall& call, cudaStream_t stream);

// One query at position call.tokens - 1 against call.tokens rows of keys and values; no dropout, no lse.
void launch_attention_decode(const AttentionCall& call, cudaStream_t stream);

}  // namespace zt::kernels
