#include "layers/gpt_block.h"

#include "layers/carve.h"

namespace zt::layers {

// `y` absent: a recompute that only fills `saved`, so the last product is not needed.
void GptBlock::forward(const BlockData& data) {
  kernels::Kernels& k = *run_.kernels;
  const Carved s = saved(run_, data), w = forward_scratch(run_, data);
  const Params p = params(run_, index_, data);

  const View norm1_ND = remade(run_, data, "norm1.out", s, w);
  first_norm(data, norm1_ND);
  k.linear({norm1_ND, p.w("attn.c_attn.weight"), p.w_or_none("attn.c_attn.bias"), s["qkv"], true});
  attention_.forward(data, s["qkv"], s["attention.out"], s["lse"]);
  attention_.add_branch(
      data, Site::attention_branch,
      {s["attention.out"], p.w("attn.c_proj.weight"), p.w_or_none("attn.c_proj.bias"), {}, true}, data.x_ND,
      s["middle"]);

  const View norm2_ND = remade(run_, data, "norm2.out", s, w);
  second_norm(data, norm2_ND);
  k.linear({norm2_ND, p.w("mlp.c_fc.weight"), p.w_or_none("mlp.c_fc.bias"), s["mlp.in"], true});
  const View mlp_NF = remade(run_, data, "mlp.out", s, w);
  activation(data, mlp_NF);
  if (!data.y_ND) return;
  attention_.add_branch(data, Site::mlp_branch,
                        {mlp_NF, p.w("mlp.c_proj.weight"), p.w_or_none("mlp.c_proj.bias"), {}, true},
                        s["middle"], data.y_ND);
}

void GptBlock::first_norm(const BlockData& data, View norm_ND) const {
  const Carved s = saved(run_, data);
  const Params p = params(run_, index_, data);
  run_.kernels->layer_norm({data.x_ND, p.w("ln_1.weight"), p.w_or_none("ln_1.bias"), norm_ND, s["norm1.mean"],
                            s["norm1.r"], run_.model->norm_eps});
}

void GptBlock::second_norm(const BlockData& data, View norm_ND) const {
  const Carved s = saved(run_, data);
  const Params p = params(run_, index_, data);
  run_.kernels->layer_norm({s["middle"], p.w("ln_2.weight"), p.w_or_none("ln_2.bias"), norm_ND,
                            s["norm2.mean"], s["norm2.r"], run_.model->norm_eps});
}

void GptBlock::activation(const BlockData& data, View y_NF) const {
  run_.kernels->gelu({saved(run_, data)["mlp.in"], y_NF});
}

void GptBlock::backward(const BlockData& data) {
  mlp_backward(data);
  attention_backward(data);
}

// d: gradient of y -> gradient of h.
void GptBlock::mlp_backward(const BlockData& data) const {
  kernels::Kernels& k = *run_.kernels;
  const Carved s = saved(run_, data), w = backward_scratch(run_, data);
  const Params p = params(run_, index_, data);
  const Carved shared = mlp_scratch(run_, data, w);
  const View d_branch =
      attention_.branch_gradient(data, Site::mlp_branch, w.has("branch") ? w["branch"] : View());
  const View d_mlp = shared["d.mlp.out"];

  const View mlp_NF = remade(run_, data, "mlp.out", s, w);
  if (run_.selective) activation(data, mlp_NF);
  k.linear_backward({mlp_NF, p.w("mlp.c_proj.weight"), d_branch, d_mlp, p.g("mlp.c_proj.weight"),
                     p.g_or_none("mlp.c_proj.bias"), true});
  k.gelu_backward({s["mlp.in"], d_mlp, d_mlp});
  const View norm2_ND = remade(run_, data, "norm2.out", s, w);
  if (run_.selective) second_norm(data, norm2_ND);
  k.linear_backward({norm2_ND, p.w("mlp.c_fc.weight"), d_mlp, w["d.norm"], p.g("mlp.c_fc.weight"),
                     p.g_or_none("mlp.c_fc.bias"), true});
  k.layer_norm_backward({s["middle"], p.w("ln_2.weight"), s["norm2.mean"], s["norm2.r"], w["d.norm"],
                         data.d_ND, p.g("ln_2.weight"), p.g_or_none("ln_2.bias"), true});
}

// d: gradient of h -> gradient of x.
void GptBlock::attention_backward(const BlockData& data) const {
  kernels::Kernels& k = *run_.kernels;
  const Carved s = saved(run_, data), w = backward_scratch(run_, data);
  const Params p = params(run_, index_, data);
  const Carved shared = attention_scratch(run_, data, w);
  const View d_branch =
      attention_.branch_gradient(data, Site::attention_branch, w.has("branch") ? w["branch"] : View());

  k.linear_backward({s["attention.out"], p.w("attn.c_proj.weight"), d_branch, shared["d.attention.out"],
                     p.g("attn.c_proj.weight"), p.g_or_none("attn.c_proj.bias"), true});
  attention_.backward(data, s["qkv"], s["attention.out"], s["lse"], shared["d.attention.out"],
                      shared["d.qkv"], shared["delta"]);
  const View norm1_ND = remade(run_, data, "norm1.out", s, w);
  if (run_.selective) first_norm(data, norm1_ND);
  k.linear_backward({norm1_ND, p.w("attn.c_attn.weight"), shared["d.qkv"], w["d.norm"],
                     p.g("attn.c_attn.weight"), p.g_or_none("attn.c_attn.bias"), true});
  k.layer_norm_backward({data.x_ND, p.w("ln_1.weight"), s["norm1.mean"], s["norm1.r"], w["d.norm"], data.d_ND,
                         p.g("ln_1.weight"), p.g_or_none("ln_1.bias"), true});
}

}  // namespace zt::layers
