// Causal attention inside each document of a row of tokens; scores never exist as a T x T matrix.
// N = tokens, H = query heads, K = key/value heads (H a multiple of K), d = head size.
//
//   p = softmax_j(scale q_i . k_j)  over j <= i, j in i's document, and j > i - window where window > 0
//   o_i = sum_j p_ij v_j            (with dropout > 0: kept p are divided by 1 - dropout, others are 0)
//
// Sources: Dao et al. 2022 (FlashAttention) alg. 1; Dao 2023 (FlashAttention-2) for the log-sum-exp form of
// backward. Documents are the only description of masking: document b holds tokens [bounds[b], bounds[b+1]);
// bounds start at 0 and end at N. q, k, v, o are f32, bf16 or f16, rows may be strided. Scores, softmax and sums
// in fp32. lse_HN is f32, saved.
//
// Backends that cannot read the host's bounds take them as two numbers a token, i32 in the device's memory: begin_N and
// end_N, the first token of its document and the one past the last. Others leave them alone.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "tensor/view.h"

namespace zt::kernels {

struct AttentionShape {
  int heads = 0, kv_heads = 0, head_size = 0;
  float scale = 1.f;
  int window = 0;
  float dropout = 0.f;
  RandomStream random;  // element (number of row i, head h, key's distance i - j) decides each kept p
  // Token i has the number first_row + row_N[i], or first_row + i where row_N is absent, so that masks do not depend
  // on how rows are split and laid out.
  std::int64_t first_row = 0;
  View row_N;  // i32, not negative
};

struct Attention {
  View q_NHd, k_NKd, v_NKd, o_NHd, lse_HN;
  std::span<const std::int32_t> bounds;
  AttentionShape shape;
  View begin_N = {}, end_N = {};
};

// dq, dk, dv are overwritten. delta_HN (f32) is scratch: row sums of do * o.
struct AttentionGrad {
  View q_NHd, k_NKd, v_NKd, o_NHd, lse_HN, do_NHd;
  View dq_NHd, dk_NKd, dv_NKd, delta_HN;
  std::span<const std::int32_t> bounds;
  AttentionShape shape;
  View begin_N = {}, end_N = {};
};

// One new query row against a cache: q_1Hd at position `length - 1`, k_LKd and v_LKd hold `length` rows
// (generation).
struct AttentionDecode {
  View q_1Hd, k_LKd, v_LKd, o_1Hd;
  std::int64_t length = 0;
  AttentionShape shape;
};

}  // namespace zt::kernels
