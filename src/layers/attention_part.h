// What GPT and Llama blocks share: attention over a fused qkv buffer, with or without a cache, and dropout on
// a branch.
#pragma once

#include "layers/block.h"

namespace zt::layers {

// Views into the columns of qkv_N(H+2K)d.
struct Qkv {
  View q_NHd, k_NKd, v_NKd;
  Qkv(const View& qkv, const spec::ModelSpec& m)
      : q_NHd(qkv.columns(0, std::int64_t{m.heads} * m.head_size)),
        k_NKd(qkv.columns(std::int64_t{m.heads} * m.head_size, std::int64_t{m.kv_heads} * m.head_size)),
        v_NKd(qkv.columns(std::int64_t{m.heads + m.kv_heads} * m.head_size,
                          std::int64_t{m.kv_heads} * m.head_size)) {}
};

// The independent streams of dropout masks a block needs.
enum class Site : std::uint32_t { attention = 0, attention_branch = 1, mlp_branch = 2, embedding = 3 };

class AttentionPart {
 public:
  AttentionPart(const RunContext& run, int index) : run_(run), index_(index) {}

  // o = attention(qkv); with a cache, the new rows are appended and attend to all before.
  void forward(const BlockData& data, View qkv, View o_NHd, View lse_HN) const;
  void backward(const BlockData& data, View qkv, View o_NHd, View lse_HN, View do_NHd, View dqkv,
                View delta_HN) const;

  // y = residual + dropout(linear(x)); `linear.y_NO` is filled in here.
  void add_branch(const BlockData& data, Site site, kernels::Linear linear, View residual_ND,
                  View y_ND) const;
  // The gradient that enters a branch: d itself, or d through the dropout mask, in `branch_ND`.
  View branch_gradient(const BlockData& data, Site site, View branch_ND) const;

 private:
  float dropout(const BlockData& data) const { return data.training ? run_.dropout : 0.f; }
  RandomStream stream(const BlockData& data, Site site) const;
  kernels::AttentionShape shape(const BlockData& data) const;

  RunContext run_;
  int index_;
};

}  // namespace zt::layers
