// The first block: token embedding, and learned positions where the model has them.
#pragma once

#include "layers/block.h"

namespace zt::layers {

class EmbeddingBlock final : public Block {
 public:
  explicit EmbeddingBlock(const RunContext& run) : run_(run) {}
  void forward(const BlockData& data) override;
  void recompute(const BlockData& data) override { forward(data); }
  void backward(const BlockData& data) override;

 private:
  RunContext run_;
};

}  // namespace zt::layers
