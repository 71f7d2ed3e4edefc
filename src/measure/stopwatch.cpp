#include "measure/stopwatch.h"

#include <algorithm>

#include "measure/rounds.h"

namespace zt::measure {

using plan::Kernel;

template <typename Call>
void Stopwatch::time(const Size& size, const Call& call) {
  Time& time = times_[size];
  const double start = now();
  call();
  time.seconds += now() - start;
  ++time.calls;
}

void Stopwatch::linear(const kernels::Linear& l) {
  kernels::Linear product = l;
  product.b_O = {};
  time({Kernel::product, l.x_NI.rows, l.y_NO.cols, l.x_NI.cols}, [&] { timed_->linear(product); });
}

void Stopwatch::linear_backward(const kernels::LinearGrad& l) {
  const std::int64_t N = l.dy_NO.rows, O = l.dy_NO.cols, I = l.w_is_IO ? l.w_OI.rows : l.w_OI.cols;
  if (l.dx_NI) {
    kernels::LinearGrad dx = l;
    dx.dw_OI = dx.db_O = {};
    time({Kernel::product_dx, N, O, I}, [&] { timed_->linear_backward(dx); });
  }
  if (l.dw_OI) {
    kernels::LinearGrad dw = l;
    dw.dx_NI = dw.db_O = {};
    time({Kernel::product_dw, N, O, I}, [&] { timed_->linear_backward(dw); });
  }
  if (l.db_O) {
    kernels::LinearGrad db = l;
    db.dx_NI = db.dw_OI = {};
    time({Kernel::bias_grad, N, O, 0}, [&] { timed_->linear_backward(db); });
  }
}

// Query and key norms have several groups a row: rows of their own, as many as there are statistics.
static Size norm_size(Kernel kernel, const View& x, const View& r) {
  return {kernel, r.size(), x.size() / r.size(), 0};
}

void Stopwatch::rms_norm(const kernels::RmsNorm& a) {
  time(norm_size(Kernel::rms_norm, a.x_ND, a.r_NH), [&] { timed_->rms_norm(a); });
}
void Stopwatch::rms_norm_backward(const kernels::RmsNormGrad& a) {
  time(norm_size(Kernel::rms_norm_backward, a.x_ND, a.r_NH), [&] { timed_->rms_norm_backward(a); });
}
void Stopwatch::layer_norm(const kernels::LayerNorm& a) {
  time(norm_size(Kernel::layer_norm, a.x_ND, a.r_NH), [&] { timed_->layer_norm(a); });
}
void Stopwatch::layer_norm_backward(const kernels::LayerNormGrad& a) {
  time(norm_size(Kernel::layer_norm_backward, a.x_ND, a.r_NH), [&] { timed_->layer_norm_backward(a); });
}

// By rows and columns of what it changes.
static Size size_of(Kernel kernel, const View& y) { return {kernel, y.rows, y.cols, 0}; }

void Stopwatch::rope(const kernels::Rope& a) {
  time(size_of(Kernel::rope, a.x_NHd), [&] { timed_->rope(a); });
}

static Size attention_size(Kernel kernel, const kernels::AttentionShape& shape,
                           std::span<const std::int32_t> bounds) {
  const auto documents = static_cast<std::int64_t>(bounds.size()) - 1;
  return {kernel, bounds.back() / documents, documents * shape.heads, shape.head_size};
}

void Stopwatch::attention(const kernels::Attention& a) {
  time(attention_size(Kernel::attention, a.shape, a.bounds), [&] { timed_->attention(a); });
}
void Stopwatch::attention_backward(const kernels::AttentionGrad& a) {
  time(attention_size(Kernel::attention_backward, a.shape, a.bounds), [&] { timed_->attention_backward(a); });
}
void Stopwatch::attention_decode(const kernels::AttentionDecode& a) { timed_->attention_decode(a); }

void Stopwatch::gelu(const kernels::Gelu& a) {
  time(size_of(Kernel::gelu, a.y_NF), [&] { timed_->gelu(a); });
}
void Stopwatch::gelu_backward(const kernels::GeluGrad& a) {
  time(size_of(Kernel::gelu_backward, a.dx_NF), [&] { timed_->gelu_backward(a); });
}
void Stopwatch::swiglu(const kernels::SwiGlu& a) {
  time(size_of(Kernel::swiglu, a.y_NF), [&] { timed_->swiglu(a); });
}
void Stopwatch::swiglu_backward(const kernels::SwiGluGrad& a) {
  time(size_of(Kernel::swiglu_backward, a.dy_NF), [&] { timed_->swiglu_backward(a); });
}
void Stopwatch::embedding(const kernels::Embedding& a) {
  time(size_of(Kernel::embedding, a.y_ND), [&] { timed_->embedding(a); });
}
void Stopwatch::embedding_backward(const kernels::EmbeddingGrad& a) {
  time(size_of(Kernel::embedding_backward, a.dy_ND), [&] { timed_->embedding_backward(a); });
}
void Stopwatch::dropout(const kernels::Dropout& a) {
  time(size_of(Kernel::dropout, a.y_ND), [&] { timed_->dropout(a); });
}
void Stopwatch::adamw(const kernels::AdamW& a) {
  time(size_of(Kernel::adamw, a.p_n), [&] { timed_->adamw(a); });
}
void Stopwatch::sum_squares(const kernels::SumSquares& a) {
  time(size_of(Kernel::sum_squares, a.x_n), [&] { timed_->sum_squares(a); });
}
void Stopwatch::cast(const kernels::Cast& a) {
  time(size_of(Kernel::copy, a.y), [&] { timed_->cast(a); });
}
void Stopwatch::add(const kernels::Add& a) {
  time(size_of(Kernel::add, a.y), [&] { timed_->add(a); });
}

// Its products, chunk by chunk. The loss itself is timed apart, with a head that is nearly nothing but loss: here it
// would be the small difference of large numbers.
void Stopwatch::cross_entropy_head(const kernels::CrossEntropyHead& h) {
  const std::int64_t N = h.x_ND.rows, C = h.logits_CV.rows;
  for (std::int64_t first = 0; first < N; first += C) {
    const std::int64_t rows = std::min(C, N - first);
    const View x = h.x_ND.slice(first, rows), logits = h.logits_CV.slice(0, rows);
    linear({.x_NI = x, .w_OI = h.w_VD, .b_O = {}, .y_NO = logits});
    if (!h.dx_ND) continue;
    const View dlogits = h.dlogits_CV ? h.dlogits_CV.slice(0, rows) : logits;
    if (h.dlogits_CV) timed_->cast({logits, dlogits});  // numbers, whatever lay there
    linear_backward({.x_NI = x,
                     .w_OI = h.w_VD,
                     .dy_NO = dlogits,
                     .dx_NI = h.dx_ND.slice(first, rows),
                     .dw_OI = h.dw_VD,
                     .db_O = {}});
  }
  if (h.loss_sum != nullptr) *h.loss_sum = 0;
}

}  // namespace zt::measure
