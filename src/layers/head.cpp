#include "layers/head.h"

#include "layers/carve.h"

namespace zt::layers {
namespace {

// The head's tensors and scratch, by the family's names; a tied model's matrix lies in the embedding block.
struct Parts {
  View norm_D, bias_D, d_norm_D, d_bias_D, w_VD, dw_VD;
  Carved scratch;
  Parts(const RunContext& run, const HeadData& data)
      : scratch(plan::head_scratch(*run.model, shape_of(run, data.block)), data.block.workspace, run.dtype) {
    const bool gpt = run.model->family == spec::Family::gpt2;
    const Params p(run.model->blocks.back(), data.block.weights, data.block.grads, run.dtype);
    const char* const norm = gpt ? "ln_f.weight" : "norm.weight";
    norm_D = p.w(norm);
    d_norm_D = p.g(norm);
    bias_D = p.w_or_none("ln_f.bias");
    d_bias_D = p.g_or_none("ln_f.bias");
    const Params e(run.model->blocks.front(), data.embedding_weights, data.embedding_grads, run.dtype);
    const char* const embedding = gpt ? "wte.weight" : "embed_tokens.weight";
    w_VD = run.model->tied ? e.w(embedding) : p.w("lm_head.weight");
    dw_VD = run.model->tied ? e.g(embedding) : p.g("lm_head.weight");
  }
};

void norm_forward(const RunContext& run, const HeadData& data, const Parts& t) {
  const float eps = run.model->norm_eps;
  if (run.model->family == spec::Family::gpt2) {
    run.kernels->layer_norm(
        {data.block.x_ND, t.norm_D, t.bias_D, t.scratch["norm.out"], t.scratch["mean"], t.scratch["r"], eps});
  } else {
    run.kernels->rms_norm({data.block.x_ND, t.norm_D, t.scratch["norm.out"], t.scratch["r"], eps});
  }
}

void norm_backward(const RunContext& run, const HeadData& data, const Parts& t) {
  const View dy = t.scratch["d.norm.out"];
  if (run.model->family == spec::Family::gpt2) {
    run.kernels->layer_norm_backward({data.block.x_ND, t.norm_D, t.scratch["mean"], t.scratch["r"], dy,
                                      data.block.d_ND, t.d_norm_D, t.d_bias_D});
  } else {
    run.kernels->rms_norm_backward(
        {data.block.x_ND, t.norm_D, t.scratch["r"], dy, data.block.d_ND, t.d_norm_D});
  }
}

}  // namespace

void Head::loss(const HeadData& data) const {
  const Parts t(run_, data);
  norm_forward(run_, data, t);
  kernels::CrossEntropyHead head;
  head.x_ND = t.scratch["norm.out"];
  head.w_VD = t.w_VD;
  head.target_N = data.block.batch->target_N;
  head.grad_scale = data.grad_scale;
  head.loss_N = data.loss_N;
  head.loss_sum = data.loss_sum;
  head.logits_CV = t.scratch["logits"];
  if (data.block.d_ND) {
    head.dx_ND = t.scratch["d.norm.out"];
    head.dw_VD = t.dw_VD;
    if (t.scratch.has("d.logits")) head.dlogits_CV = t.scratch["d.logits"];
  }
  run_.kernels->cross_entropy_head(head);
  if (data.block.d_ND) norm_backward(run_, data, t);
}

void Head::logits(const HeadData& data, View logits_NV) const {
  const Parts t(run_, data);
  norm_forward(run_, data, t);
  run_.kernels->linear({t.scratch["norm.out"], t.w_VD, {}, logits_NV});
}

}  // namespace zt::layers
