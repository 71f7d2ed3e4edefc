// Descriptions of matrices for the hardware that copies tiles ("tensor maps").
#pragma once

#include <cuda.h>

#include "kernels/attention_call.cuh"

namespace zt::kernels {

// Boxes of 64 columns, 128 bytes a row, in the 128-byte swizzle; zeros beyond the last token. Built on the host for
// every call and handed to the kernel by value.
struct AttentionMaps {
  CUtensorMap q, k, v;

  AttentionMaps(const AttentionCall& call, int query_rows, int key_rows);
};

// The same, and the gradient of the output in boxes of as many rows as the queries'.
struct AttentionGradMaps : AttentionMaps {
  CUtensorMap grad;

  AttentionGradMaps(const AttentionCall& call, int query_rows, int key_rows);
};

}  // namespace zt::kernels
