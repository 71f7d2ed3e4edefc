// Attention by its formulas (kernels/attention.h), one query and one key at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/attention.h"
#include "reference/matrix.h"

namespace zt::reference {

// Calls f(i, j) for each key j that each query i sees.
template <typename F>
void for_pairs(std::span<const std::int32_t> bounds, int window, F f) {
  for (std::size_t b = 1; b < bounds.size(); ++b)
    for (std::int64_t i = bounds[b - 1]; i < bounds[b]; ++i)
      for (std::int64_t j = bounds[b - 1]; j <= i; ++j)
        if (window <= 0 || j > i - window) f(i, j);
}

// What dropout multiplies p_ij with.
inline double dropout_factor(const kernels::AttentionShape& s, std::int64_t i, std::int64_t j, int head) {
  if (s.dropout <= 0) return 1;
  const std::int64_t number = s.row_N ? s.row_N.as<const std::int32_t>()[i] : i;
  const std::uint64_t row = std::uint64_t(s.first_row + number), distance = std::uint64_t(i - j);
  const auto words =
      s.random.words((row * std::uint64_t(s.heads) + std::uint64_t(head)) * 16777216u + distance / 4);
  return double(words[distance % 4] >> 8) / 16777216.0 < double(s.dropout) ? 0 : 1 / (1 - double(s.dropout));
}

inline double head_dot(const Vec& a, std::int64_t a_cols, std::int64_t i, int a_head, const Vec& b,
                       std::int64_t b_cols, std::int64_t j, int b_head, int d, bool magnitudes = false) {
  double sum = 0;
  for (int c = 0; c < d; ++c) {
    const double term = at(a, a_cols, i, a_head * d + c) * at(b, b_cols, j, b_head * d + c);
    sum += magnitudes ? std::abs(term) : term;
  }
  return sum;
}

struct Attended {
  Vec o, lse;        // [N, H d], [H, N]
  double score = 0;  // the largest scale sum |q k|
};

inline Attended attention(const Vec& q, const Vec& k, const Vec& v, std::span<const std::int32_t> bounds,
                          const kernels::AttentionShape& s) {
  const int d = s.head_size, group = s.heads / s.kv_heads;
  const std::int64_t Q = s.heads * d, K = s.kv_heads * d, N = std::int64_t(q.size()) / Q;
  Attended out{zeros(N * Q), zeros(N * s.heads)};
  for (int h = 0; h < s.heads; ++h) {
    const int g = h / group;
    Vec sum = zeros(N), most(std::size_t(N), -INFINITY);
    const auto score = [&](auto i, auto j) { return double(s.scale) * head_dot(q, Q, i, h, k, K, j, g, d); };
    for_pairs(bounds, s.window, [&](auto i, auto j) {
      most[std::size_t(i)] = std::max(most[std::size_t(i)], score(i, j));
      out.score = std::max(out.score, double(s.scale) * head_dot(q, Q, i, h, k, K, j, g, d, true));
    });
    for_pairs(bounds, s.window,
              [&](auto i, auto j) { sum[std::size_t(i)] += std::exp(score(i, j) - most[std::size_t(i)]); });
    for_pairs(bounds, s.window, [&](auto i, auto j) {
      const double p =
          std::exp(score(i, j) - most[std::size_t(i)]) / sum[std::size_t(i)] * dropout_factor(s, i, j, h);
      for (int c = 0; c < d; ++c) at(out.o, Q, i, h * d + c) += p * at(v, K, j, g * d + c);
    });
    for (std::int64_t i = 0; i < N; ++i)
      at(out.lse, N, h, i) = most[std::size_t(i)] + std::log(sum[std::size_t(i)]);
  }
  return out;
}

struct AttentionGradients {
  Vec dq, dk, dv;
  Vec dq_size, dk_size, dv_size;  // sums of the magnitudes of the terms
};

// By the chain rule, with the given o and lse.
inline AttentionGradients attention_backward(const Vec& q, const Vec& k, const Vec& v, const Vec& o,
                                             const Vec& lse, const Vec& grad,
                                             std::span<const std::int32_t> bounds,
                                             const kernels::AttentionShape& s) {
  const int d = s.head_size, group = s.heads / s.kv_heads;
  const std::int64_t Q = s.heads * d, K = s.kv_heads * d, N = std::int64_t(q.size()) / Q;
  AttentionGradients out{zeros(N * Q), zeros(N * K), zeros(N * K), zeros(N * Q), zeros(N * K), zeros(N * K)};
  for (int h = 0; h < s.heads; ++h) {
    const int g = h / group;
    for_pairs(bounds, s.window, [&](auto i, auto j) {
      const double p = std::exp(double(s.scale) * head_dot(q, Q, i, h, k, K, j, g, d) - at(lse, N, h, i));
      const double f = dropout_factor(s, i, j, h);
      const double dp = f * head_dot(grad, Q, i, h, v, K, j, g, d),
                   delta = head_dot(grad, Q, i, h, o, Q, i, h, d);
      const double dp_size =
          f * head_dot(grad, Q, i, h, v, K, j, g, d, true) + head_dot(grad, Q, i, h, o, Q, i, h, d, true);
      const double ds = double(s.scale) * p * (dp - delta), ds_size = double(s.scale) * p * dp_size;
      for (int c = 0; c < d; ++c) {
        const double qc = at(q, Q, i, h * d + c), kc = at(k, K, j, g * d + c), oc = at(grad, Q, i, h * d + c);
        at(out.dq, Q, i, h * d + c) += ds * kc;
        at(out.dk, K, j, g * d + c) += ds * qc;
        at(out.dv, K, j, g * d + c) += f * p * oc;
        at(out.dq_size, Q, i, h * d + c) += ds_size * std::abs(kc);
        at(out.dk_size, K, j, g * d + c) += ds_size * std::abs(qc);
        at(out.dv_size, K, j, g * d + c) += f * p * std::abs(oc);
      }
    });
  }
  return out;
}

}  // namespace zt::reference
