#include <cmath>

#include "parity/attention_case.h"

namespace zt::parity {

kernels::AttentionShape AttentionCase::shape() const {
  return {H,
          K,
          d,
          0.7f / std::sqrt(float(d)),
          window,
          dropout,
          {.seed = 5, .purpose = Purpose::dropout, .a = 2, .b = 9},
          1000,
          {}};
}

std::string text(const AttentionCase& c) {
  return cat(name(c.dtype), " H ", c.H, " K ", c.K, " d ", c.d, " window ", c.window, " dropout ", c.dropout,
             " gap ", c.gap, " bounds ", fmt::format("{}", fmt::join(c.bounds, " ")));
}

AttentionBuffers::AttentionBuffers(const AttentionCase& c)
    : q(c.dtype, c.N(), c.H * c.d, c.gap),
      k(c.dtype, c.N(), c.K * c.d, c.gap),
      v(c.dtype, c.N(), c.K * c.d, c.gap),
      o(c.dtype, c.N(), c.H * c.d, c.gap),
      grad(c.dtype, c.N(), c.H * c.d, c.gap),
      dq(c.dtype, c.N(), c.H * c.d, c.gap),
      dk(c.dtype, c.N(), c.K * c.d, c.gap),
      dv(c.dtype, c.N(), c.K * c.d, c.gap),
      lse(Dtype::f32, c.H, c.N(), c.gap),
      delta(Dtype::f32, c.H, c.N()),
      case_(c) {
  q.fill_normal(1);
  k.fill_normal(2);
  v.fill_normal(3);
  grad.fill_normal(4);
}

void AttentionBuffers::forward(kernels::Kernels& kernels) {
  kernels.attention({q, k, v, o, lse, case_.bounds, case_.shape()});
}

void AttentionBuffers::backward(kernels::Kernels& kernels) {
  kernels.attention_backward({q, k, v, o, lse, grad, dq, dk, dv, delta, case_.bounds, case_.shape()});
}

reference::Attended AttentionBuffers::exact() const {
  return reference::attention(q.values(), k.values(), v.values(), case_.bounds, case_.shape());
}

double probability_steps(const AttentionCase& c, double score) {
  return 2 * (sum_steps(c.d) + 3) * (score + 1) + 8;
}

double operand_steps(Dtype dtype) { return dtype == Dtype::f32 ? 0 : unit_of(dtype) * 0x1p24; }

void check_attention_forward(kernels::Kernels& k, const AttentionCase& c) {
  INFO(text(c));
  AttentionBuffers b(c);
  const auto exact = b.exact();
  b.forward(k);
  const double steps = probability_steps(c, exact.score) + double(c.N());
  check_close("o", b.o, exact.o,
              {c.dtype, steps + operand_steps(c.dtype), largest(b.v.values()) / (1 - double(c.dropout)),
               "probabilities sum to 1"});
  check_close("lse", b.lse, exact.lse, {Dtype::f32, steps, 1, "the log of their sum"});
  const AttentionBuffers fresh(c);
  check_equal("q", b.q, fresh.q.values());
  check_equal("k", b.k, fresh.k.values());
  check_equal("v", b.v, fresh.v.values());
}

void check_attention_gradients(kernels::Kernels& k, const AttentionCase& c) {
  INFO(text(c));
  AttentionBuffers b(c);
  const auto forward = b.exact();
  b.o.assign(forward.o);
  b.lse.assign(forward.lse);
  const auto exact = reference::attention_backward(b.q.values(), b.k.values(), b.v.values(), b.o.values(),
                                                   b.lse.values(), b.grad.values(), c.bounds, c.shape());
  b.backward(k);
  const double steps =
      probability_steps(c, forward.score) + 2 * sum_steps(c.d) + double(c.N() * c.H) + operand_steps(c.dtype);
  const char* const why = "each term has p's and dp's error; terms are added in any order";
  check_close("dq", b.dq, exact.dq, {c.dtype, steps, largest(exact.dq_size), why});
  check_close("dk", b.dk, exact.dk, {c.dtype, steps, largest(exact.dk_size), why});
  check_close("dv", b.dv, exact.dv, {c.dtype, steps, largest(exact.dv_size), why});
}

}  // namespace zt::parity
