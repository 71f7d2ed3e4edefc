#include "layers/llama_block.h"

#include "layers/carve.h"

namespace zt::layers {

// `y` absent: a recompute that only fills `saved`, so the last product is not needed.
void LlamaBlock::forward(const BlockData& data) {
  kernels::Kernels& k = *run_.kernels;
  const Carved s = saved(run_, data), w = forward_scratch(run_, data);
  const Params p = params(run_, index_, data);

  const View norm1_ND = remade(run_, data, "norm1.out", s, w);
  first_norm(data, norm1_ND);
  k.linear(
      {norm1_ND, p.w("q_proj.weight", "v_proj.weight"), p.w_or_none("q_proj.bias", "v_proj.bias"), s["qkv"]});
  turn(data);
  attention_.forward(data, s["qkv"], s["attention.out"], s["lse"]);
  attention_.add_branch(data, Site::attention_branch,
                        {s["attention.out"], p.w("o_proj.weight"), p.w_or_none("o_proj.bias"), {}}, data.x_ND,
                        s["middle"]);

  const View norm2_ND = remade(run_, data, "norm2.out", s, w);
  second_norm(data, norm2_ND);
  k.linear({norm2_ND, p.w("gate_proj.weight", "up_proj.weight"),
            p.w_or_none("gate_proj.bias", "up_proj.bias"), s["mlp.in"]});
  const View mlp_NF = remade(run_, data, "mlp.out", s, w);
  activation(data, mlp_NF);
  if (!data.y_ND) return;
  attention_.add_branch(data, Site::mlp_branch,
                        {mlp_NF, p.w("down_proj.weight"), p.w_or_none("down_proj.bias"), {}}, s["middle"],
                        data.y_ND);
}

void LlamaBlock::first_norm(const BlockData& data, View norm_ND) const {
  run_.kernels->rms_norm({data.x_ND, params(run_, index_, data).w("input_layernorm.weight"), norm_ND,
                          saved(run_, data)["norm1.r"], run_.model->norm_eps});
}

void LlamaBlock::second_norm(const BlockData& data, View norm_ND) const {
  const Carved s = saved(run_, data);
  run_.kernels->rms_norm({s["middle"], params(run_, index_, data).w("post_attention_layernorm.weight"),
                          norm_ND, s["norm2.r"], run_.model->norm_eps});
}

void LlamaBlock::activation(const BlockData& data, View y_NF) const {
  const std::int64_t F = run_.model->intermediate;
  const View gate_up = saved(run_, data)["mlp.in"];
  run_.kernels->swiglu({gate_up.columns(0, F), gate_up.columns(F, F), y_NF});
}

void LlamaBlock::turn(const BlockData& data) const {
  kernels::Kernels& k = *run_.kernels;
  const spec::ModelSpec& m = *run_.model;
  const Carved s = saved(run_, data);
  const Qkv x(s["qkv"], m);
  if (m.qk_norm) {
    const Params p = params(run_, index_, data);
    const View raw = s["qk.raw"];
    k.cast({s["qkv"].columns(0, raw.cols), raw});
    k.rms_norm({raw.columns(0, x.q_NHd.cols), p.w("q_norm.weight"), x.q_NHd, s["q_norm.r"], m.norm_eps});
    k.rms_norm(
        {raw.columns(x.q_NHd.cols, x.k_NKd.cols), p.w("k_norm.weight"), x.k_NKd, s["k_norm.r"], m.norm_eps});
  }
  k.rope({x.q_NHd, data.batch->positions_N, run_.cos_Pd2, run_.sin_Pd2, m.head_size});
  k.rope({x.k_NKd, data.batch->positions_N, run_.cos_Pd2, run_.sin_Pd2, m.head_size});
}

void LlamaBlock::turn_back(const BlockData& data, View dqkv) const {
  kernels::Kernels& k = *run_.kernels;
  const spec::ModelSpec& m = *run_.model;
  const Qkv dx(dqkv, m);
  k.rope({dx.q_NHd, data.batch->positions_N, run_.cos_Pd2, run_.sin_Pd2, m.head_size, true});
  k.rope({dx.k_NKd, data.batch->positions_N, run_.cos_Pd2, run_.sin_Pd2, m.head_size, true});
  if (!m.qk_norm) return;
  const Carved s = saved(run_, data);
  const Params p = params(run_, index_, data);
  const View raw = s["qk.raw"];
  k.rms_norm_backward({raw.columns(0, dx.q_NHd.cols), p.w("q_norm.weight"), s["q_norm.r"], dx.q_NHd, dx.q_NHd,
                       p.g("q_norm.weight")});
  k.rms_norm_backward({raw.columns(dx.q_NHd.cols, dx.k_NKd.cols), p.w("k_norm.weight"), s["k_norm.r"],
                       dx.k_NKd, dx.k_NKd, p.g("k_norm.weight")});
}

void LlamaBlock::backward(const BlockData& data) {
  mlp_backward(data);
  attention_backward(data);
}

// d: gradient of y -> gradient of h.
void LlamaBlock::mlp_backward(const BlockData& data) const {
  kernels::Kernels& k = *run_.kernels;
  const std::int64_t F = run_.model->intermediate;
  const Carved s = saved(run_, data), w = backward_scratch(run_, data);
  const Params p = params(run_, index_, data);
  const Carved shared = mlp_scratch(run_, data, w);
  const View d_branch =
      attention_.branch_gradient(data, Site::mlp_branch, w.has("branch") ? w["branch"] : View());
  const View gate_up = s["mlp.in"], d_gate_up = shared["d.mlp.in"];

  const View mlp_NF = remade(run_, data, "mlp.out", s, w);
  if (run_.selective) activation(data, mlp_NF);
  k.linear_backward({mlp_NF, p.w("down_proj.weight"), d_branch, shared["d.mlp.out"], p.g("down_proj.weight"),
                     p.g_or_none("down_proj.bias")});
  k.swiglu_backward({gate_up.columns(0, F), gate_up.columns(F, F), shared["d.mlp.out"],
                     d_gate_up.columns(0, F), d_gate_up.columns(F, F)});
  const View norm2_ND = remade(run_, data, "norm2.out", s, w);
  if (run_.selective) second_norm(data, norm2_ND);
  k.linear_backward({norm2_ND, p.w("gate_proj.weight", "up_proj.weight"), d_gate_up, w["d.norm"],
                     p.g("gate_proj.weight", "up_proj.weight"),
                     p.g_or_none("gate_proj.bias", "up_proj.bias")});
  k.rms_norm_backward({s["middle"], p.w("post_attention_layernorm.weight"), s["norm2.r"], w["d.norm"],
                       data.d_ND, p.g("post_attention_layernorm.weight"), true});
}

// d: gradient of h -> gradient of x.
void LlamaBlock::attention_backward(const BlockData& data) const {
  kernels::Kernels& k = *run_.kernels;
  const Carved s = saved(run_, data), w = backward_scratch(run_, data);
  const Params p = params(run_, index_, data);
  const Carved shared = attention_scratch(run_, data, w);
  const View d_branch =
      attention_.branch_gradient(data, Site::attention_branch, w.has("branch") ? w["branch"] : View());

  k.linear_backward({s["attention.out"], p.w("o_proj.weight"), d_branch, shared["d.attention.out"],
                     p.g("o_proj.weight"), p.g_or_none("o_proj.bias")});
  attention_.backward(data, s["qkv"], s["attention.out"], s["lse"], shared["d.attention.out"],
                      shared["d.qkv"], shared["delta"]);
  turn_back(data, shared["d.qkv"]);
  const View norm1_ND = remade(run_, data, "norm1.out", s, w);
  if (run_.selective) first_norm(data, norm1_ND);
  k.linear_backward({norm1_ND, p.w("q_proj.weight", "v_proj.weight"), shared["d.qkv"], w["d.norm"],
                     p.g("q_proj.weight", "v_proj.weight"), p.g_or_none("q_proj.bias", "v_proj.bias")});
  k.rms_norm_backward({data.x_ND, p.w("input_layernorm.weight"), s["norm1.r"], w["d.norm"], data.d_ND,
                       p.g("input_layernorm.weight"), true});
}

}  // namespace zt::layers
