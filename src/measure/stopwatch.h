// A backend that times each kernel of another one, by its size.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/kernels.h"
#include "plan/work.h"

namespace zt::measure {

// A call as plan::Work counts it.
struct Size {
  plan::Kernel kernel = plan::Kernel::copy;
  std::int64_t m = 0, n = 0, k = 0;
  auto operator<=>(const Size&) const = default;
};
struct Time {
  double seconds = 0;
  std::int64_t calls = 0;
};
using Times = std::map<Size, Time>;

// Kernels that plan::Work counts apart are called one by one, so results may be missing: products leave out their bias
// and the head its loss. The steps of a probe take their usual course, what they compute means nothing.
class Stopwatch final : public kernels::Kernels {
 public:
  // `times` outlives this.
  Stopwatch(std::unique_ptr<kernels::Kernels> timed, Times& times)
      : timed_(std::move(timed)), times_(times) {}

  void linear(const kernels::Linear&) override;
  void linear_backward(const kernels::LinearGrad&) override;
  void rms_norm(const kernels::RmsNorm&) override;
  void rms_norm_backward(const kernels::RmsNormGrad&) override;
  void layer_norm(const kernels::LayerNorm&) override;
  void layer_norm_backward(const kernels::LayerNormGrad&) override;
  void rope(const kernels::Rope&) override;
  void attention(const kernels::Attention&) override;
  void attention_backward(const kernels::AttentionGrad&) override;
  void attention_decode(const kernels::AttentionDecode&) override;
  void gelu(const kernels::Gelu&) override;
  void gelu_backward(const kernels::GeluGrad&) override;
  void swiglu(const kernels::SwiGlu&) override;
  void swiglu_backward(const kernels::SwiGluGrad&) override;
  void embedding(const kernels::Embedding&) override;
  void embedding_backward(const kernels::EmbeddingGrad&) override;
  void dropout(const kernels::Dropout&) override;
  void cross_entropy_head(const kernels::CrossEntropyHead&) override;
  void adamw(const kernels::AdamW&) override;
  void sum_squares(const kernels::SumSquares&) override;
  void cast(const kernels::Cast&) override;
  void add(const kernels::Add&) override;
  std::int64_t held_bytes() const override { return timed_->held_bytes(); }

 private:
  template <typename Call>
  void time(const Size& size, const Call& call);

  std::unique_ptr<kernels::Kernels> timed_;
  Times& times_;
};

}  // namespace zt::measure
