#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu_kernels.h"
#include "kernels/cpu_math.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Blame::bug, cat("cross_entropy_head: ", what));
}

void check(const CrossEntropyHead& h) {
  const std::int64_t N = h.x_ND.rows, D = h.x_ND.cols, V = h.w_VD.rows;
  if (h.w_VD.cols != D) refuse(cat("x has ", D, " columns, w has ", h.w_VD.cols));
  if (h.target_N.size() != N) refuse(cat(N, " tokens, ", h.target_N.size(), " targets"));
  if (h.logits_CV.cols != V || h.logits_CV.rows < 1)
    refuse(cat("logits workspace is ", h.logits_CV.rows, " x ", h.logits_CV.cols, ", V is ", V));
  if (h.loss_N && h.loss_N.size() != N) refuse(cat(N, " tokens, ", h.loss_N.size(), " losses"));
  if (h.dw_VD && !h.dx_ND) refuse("dw without dx");
  const bool narrow = h.x_ND.dtype != Dtype::f32;
  if (h.dx_ND && narrow && (h.dlogits_CV.rows < h.logits_CV.rows || h.dlogits_CV.cols != V))
    refuse(cat("dlogits workspace is ", h.dlogits_CV.rows, " x ", h.dlogits_CV.cols));
}

float largest_logit(const float* x, std::int64_t V) {
  Floats most = splat(-INFINITY);
  std::int64_t v = 0;
  for (; v + kLanes <= V; v += kLanes) most = larger(load(x + v), most);
  float result = largest_of(most);
  for (; v < V; ++v) result = std::max(result, x[v]);
  return result;
}

// log sum_v e^{x_v}. Sixteen sums in fp32 over 64 terms each, those in fp64.
double log_sum_exp(const float* x, std::int64_t V) {
  constexpr std::int64_t kBlock = 64 * kLanes;
  const float most = largest_logit(x, V);
  double total = 0.0;
  for (std::int64_t first = 0; first < V; first += kBlock) {
    const std::int64_t end = std::min(V, first + kBlock);
    Floats sum{};
    std::int64_t v = first;
    for (; v + kLanes <= end; v += kLanes) sum += exp_of(load(x + v) - most);
    if (v < end) {
      const Floats tail = exp_of(load_some(x + v, int(end - v)) - most);
      for (int i = 0; i < int(end - v); ++i) total += double(tail[i]);
    }
    total += double(sum_of(sum));
  }
  return double(most) + std::log(total);
}

// d_v = grad_scale (e^{x_v - lse} - [v = target]); d may be x.
template <typename T>
void put_gradient(const float* x, std::int64_t V, float lse, std::int64_t target, float grad_scale, T* d) {
  const float at_target = grad_scale * (std::exp(x[target] - lse) - 1.f);
  for (std::int64_t v = 0; v < V; v += kLanes) {
    const int count = int(std::min<std::int64_t>(kLanes, V - v));
    store_some(d + v, exp_of(load_some(x + v, count) - lse) * grad_scale, count);
  }
  d[target] = T(at_target);
}

// Losses of a chunk of rows, and gradients where `dlogits` is not absent (it may be the logits).
template <typename T>
void chunk_loss(const CrossEntropyHead& h, std::int64_t first, std::int64_t rows, const View& dlogits,
                double* losses) {
  const std::int64_t V = h.w_VD.rows;
  const std::int32_t* const targets = h.target_N.as<const std::int32_t>() + first;
  const float* const logits = h.logits_CV.as<const float>();
  T* const gradients = dlogits ? dlogits.as<T>() : nullptr;
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t target = targets[r];
    const float* x = logits + r * h.logits_CV.stride;
    T* d = gradients == nullptr ? nullptr : gradients + r * dlogits.stride;
    losses[r] = 0.0;
    if (target >= 0) {
      const double lse = log_sum_exp(x, V);
      losses[r] = lse - double(x[target]);
      if (d != nullptr) put_gradient(x, V, float(lse), target, h.grad_scale, d);
    } else if (d != nullptr) {
      std::memset(static_cast<void*>(d), 0, sizeof(T) * std::size_t(V));
    }
  }
}

// True when a row of the chunk is supervised; refuses targets beyond the vocabulary.
bool any_supervised(const CrossEntropyHead& h, std::int64_t first, std::int64_t rows) {
  const std::int32_t* const targets = h.target_N.as<const std::int32_t>();
  bool any = false;
  for (std::int64_t n = first; n < first + rows; ++n) {
    if (targets[n] >= h.w_VD.rows)
      refuse(cat("target ", targets[n], " of token ", n, ", V is ", h.w_VD.rows));
    any = any || targets[n] >= 0;
  }
  return any;
}

void zero_rows(const View& v) {
  for (std::int64_t r = 0; r < v.rows; ++r)
    std::memset(static_cast<char*>(v.data) + r * v.stride * size_of(v.dtype), 0,
                std::size_t(v.cols * size_of(v.dtype)));
}

}  // namespace

void CpuKernels::cross_entropy_head(const CrossEntropyHead& h) {
  check(h);
  const std::int64_t N = h.x_ND.rows, C = h.logits_CV.rows;
  const bool backward = bool(h.dx_ND), narrow = h.x_ND.dtype != Dtype::f32;
  losses_.resize(std::size_t(std::max<std::int64_t>(C, std::int64_t(losses_.size()))));
  double sum = 0.0;
  for (std::int64_t first = 0; first < N; first += C) {
    const std::int64_t rows = std::min(C, N - first);
    const bool supervised = any_supervised(h, first, rows);
    if (!supervised && backward) zero_rows(h.dx_ND.slice(first, rows));
    std::fill_n(losses_.begin(), rows, 0.0);
    if (supervised) {
      const View x = h.x_ND.slice(first, rows), logits = h.logits_CV.slice(0, rows);
      linear({.x_NI = x, .w_OI = h.w_VD, .b_O = {}, .y_NO = logits});
      const View dlogits = !backward ? View{} : narrow ? h.dlogits_CV.slice(0, rows) : logits;
      with_type(h.x_ND.dtype, "cross_entropy_head",
                [&](auto type) { chunk_loss<decltype(type)>(h, first, rows, dlogits, losses_.data()); });
      if (backward)
        linear_backward({.x_NI = x,
                         .w_OI = h.w_VD,
                         .dy_NO = dlogits,
                         .dx_NI = h.dx_ND.slice(first, rows),
                         .dw_OI = h.dw_VD,
                         .db_O = {}});
    }
    for (std::int64_t r = 0; r < rows; ++r) sum += losses_[std::size_t(r)];
    if (h.loss_N)
      for (std::int64_t r = 0; r < rows; ++r)
        h.loss_N.as<float>()[first + r] = float(losses_[std::size_t(r)]);
  }
  if (h.loss_sum != nullptr) *h.loss_sum = sum;
}

}  // namespace zt::kernels
