#include "layers/embedding.h"

#include "layers/attention_part.h"
#include "layers/carve.h"
#include "layers/gpt_block.h"
#include "layers/llama_block.h"

namespace zt::layers {
namespace {

// Token and position tables by the family's names.
struct Tables {
  View wte_VD, wpe_PD, dwte_VD, dwpe_PD;
  Tables(const RunContext& run, const BlockData& data) {
    const Params p(run.model->blocks.front(), data.weights, data.grads, run.dtype);
    const bool gpt = run.model->family == spec::Family::gpt2;
    wte_VD = p.w(gpt ? "wte.weight" : "embed_tokens.weight");
    dwte_VD = p.g(gpt ? "wte.weight" : "embed_tokens.weight");
    wpe_PD = p.w_or_none("wpe.weight");
    dwpe_PD = p.g_or_none("wpe.weight");
  }
};

// One stream for the whole model, so its number lies above those of all blocks.
RandomStream embedding_stream(const RunContext& run, const BlockData& data) {
  return {run.seed, Purpose::dropout, data.step,
          static_cast<std::uint32_t>(run.model->layers * 4) + static_cast<std::uint32_t>(Site::embedding)};
}

}  // namespace

void EmbeddingBlock::forward(const BlockData& data) {
  const Tables t(run_, data);
  run_.kernels->embedding({data.batch->tokens_N, data.batch->positions_N, t.wte_VD, t.wpe_PD, data.y_ND});
  if (data.training && run_.dropout > 0.f)
    run_.kernels->dropout({data.y_ND, data.y_ND, run_.dropout, embedding_stream(run_, data),
                           data.batch->first_row, false, data.batch->row_N});
}

void EmbeddingBlock::backward(const BlockData& data) {
  const Tables t(run_, data);
  if (run_.dropout > 0.f)
    run_.kernels->dropout({data.d_ND, data.d_ND, run_.dropout, embedding_stream(run_, data),
                           data.batch->first_row, false, data.batch->row_N});
  run_.kernels->embedding_backward(
      {data.batch->tokens_N, data.batch->positions_N, data.d_ND, t.dwte_VD, t.dwpe_PD});
}

std::unique_ptr<Block> make_embedding(const RunContext& run) { return std::make_unique<EmbeddingBlock>(run); }

std::unique_ptr<Block> make_transformer_block(const RunContext& run, int index) {
  if (run.model->family == spec::Family::gpt2) return std::make_unique<GptBlock>(run, index);
  return std::make_unique<LlamaBlock>(run, index);
}

}  // namespace zt::layers
