#include "layers/attention_part.h"

#include "base/error.h"
#include "layers/carve.h"

namespace zt::layers {

RandomStream AttentionPart::stream(const BlockData& data, Site site) const {
  return {run_.seed, Purpose::dropout, data.step,
          static_cast<std::uint32_t>(index_ * 4) + static_cast<std::uint32_t>(site)};
}

kernels::AttentionShape AttentionPart::shape(const BlockData& data) const {
  const spec::ModelSpec& m = *run_.model;
  kernels::AttentionShape s;
  s.heads = m.heads;
  s.kv_heads = m.kv_heads;
  s.head_size = m.head_size;
  s.scale = m.attention_scale;
  s.window = m.window(index_);
  if (data.cache == nullptr) {
    s.dropout = dropout(data);
    s.random = stream(data, Site::attention);
    s.first_row = data.batch->first_row;
    s.row_N = data.batch->row_N;
  }
  return s;
}

void AttentionPart::forward(const BlockData& data, View qkv, View o_NHd, View lse_HN) const {
  const Qkv x(qkv, *run_.model);
  if (data.cache == nullptr) {
    run_.kernels->attention({x.q_NHd, x.k_NKd, x.v_NKd, o_NHd, lse_HN, data.batch->bounds, shape(data),
                             data.batch->begin_N, data.batch->end_N});
    return;
  }
  KvCache& cache = *data.cache;
  if (cache.length >= cache.k_LKd.rows) throw Error(Blame::bug, "the key/value cache is full");
  run_.kernels->cast({x.k_NKd, cache.k_LKd.slice(cache.length, 1)});
  run_.kernels->cast({x.v_NKd, cache.v_LKd.slice(cache.length, 1)});
  ++cache.length;
  run_.kernels->attention_decode({x.q_NHd, cache.k_LKd.slice(0, cache.length),
                                  cache.v_LKd.slice(0, cache.length), o_NHd, cache.length, shape(data)});
}

void AttentionPart::backward(const BlockData& data, View qkv, View o_NHd, View lse_HN, View do_NHd, View dqkv,
                             View delta_HN) const {
  const Qkv x(qkv, *run_.model), dx(dqkv, *run_.model);
  run_.kernels->attention_backward({x.q_NHd, x.k_NKd, x.v_NKd, o_NHd, lse_HN, do_NHd, dx.q_NHd, dx.k_NKd,
                                    dx.v_NKd, delta_HN, data.batch->bounds, shape(data), data.batch->begin_N,
                                    data.batch->end_N});
}

void AttentionPart::add_branch(const BlockData& data, Site site, kernels::Linear linear, View residual_ND,
                               View y_ND) const {
  run_.kernels->cast({residual_ND, y_ND});
  if (dropout(data) == 0.f) {
    linear.y_NO = y_ND;
    linear.accumulate = true;
    run_.kernels->linear(linear);
    return;
  }
  const View branch = forward_scratch(run_, data)["branch"];
  linear.y_NO = branch;
  run_.kernels->linear(linear);
  run_.kernels->dropout(
      {branch, y_ND, dropout(data), stream(data, site), data.batch->first_row, true, data.batch->row_N});
}

View AttentionPart::branch_gradient(const BlockData& data, Site site, View branch_ND) const {
  if (dropout(data) == 0.f) return data.d_ND;
  run_.kernels->dropout({data.d_ND, branch_ND, dropout(data), stream(data, site), data.batch->first_row,
                         false, data.batch->row_N});
  return branch_ND;
}

}  // namespace zt::layers
