#include <cmath>

#include "parity/attention_case.h"

namespace zt::parity {
namespace {

using Case = AttentionCase;
using Buffers = AttentionBuffers;
using Bounds = std::vector<std::int32_t>;

std::vector<Case> cases() {
  const std::vector<Bounds> documents = {{0, 1},           {0, 3},   {0, 64},
                                         {0, 65},          {0, 130}, {0, 0, 1, 1, 17},
                                         {0, 5, 5, 6, 80}, {0, 300}, {0, 64, 128, 192}};
  std::vector<Case> all;
  for (const Dtype dtype : formats()) {
    for (const Bounds& b : documents)
      for (const int window : {0, 1, 7, 64, 100})
        all.push_back({dtype, 2, 1, 16, window, 0.f, b, window == 7 ? 6 : 0});
    for (const int d : {1, 5, 17, 64, 80, 96, 128, 130})
      all.push_back({dtype, 3, 3, d, 0, 0.f, {0, 9, 90}, d == 64 ? 64 : 0});
    all.push_back({dtype, 6, 2, 8, 0, 0.f, {0, 67, 99}, 3});
    all.push_back({dtype, 4, 1, 8, 10, 0.f, {0, 67, 99}, 0});
    all.push_back({dtype, 4, 2, 8, 0, 0.3f, {0, 30, 100}, 0});
    all.push_back({dtype, 2, 2, 20, 50, 0.5f, {0, 129}, 0});
  }
  return all;
}

}  // namespace

void check_attention(kernels::Kernels& k) {
  for (const Case& c : cases()) check_attention_forward(k, c);
}

void check_attention_backward(kernels::Kernels& k) {
  for (const Case& c : cases()) check_attention_gradients(k, c);
}

// The last row of a forward pass over the whole cache, without dropout.
void check_attention_decode(kernels::Kernels& k) {
  for (Case c : cases()) {
    c.dropout = 0.f;
    c.bounds = {0, c.bounds.back()};
    INFO(text(c));
    Buffers b(c);
    const auto exact = b.exact();
    Guarded q(c.dtype, 1, c.H * c.d), o(c.dtype, 1, c.H * c.d), cache_k(c.dtype, c.N() + 9, c.K * c.d, 2),
        cache_v(c.dtype, c.N() + 9, c.K * c.d, 2);
    for (int i = 0; i < c.H * c.d; ++i) q.set(0, i, b.q.get(c.N() - 1, i));
    for (std::int64_t n = 0; n < c.N(); ++n)
      for (int i = 0; i < c.K * c.d; ++i) {
        cache_k.set(n, i, b.k.get(n, i));
        cache_v.set(n, i, b.v.get(n, i));
      }
    k.attention_decode({q, cache_k, cache_v, o, c.N(), c.shape()});
    const Vec last(exact.o.end() - c.H * c.d, exact.o.end());
    check_close("o", o, last,
                {c.dtype, probability_steps(c, exact.score) + double(c.N()) + operand_steps(c.dtype),
                 largest(b.v.values()), "probabilities sum to 1"});
  }
}

namespace {

TEST_CASE("attention: the reference's gradients are the finite differences of its forward") {
  for (const float dropout : {0.f, 0.4f}) {
    for (const int window : {0, 3}) {
      CAPTURE(dropout);
      CAPTURE(window);
      const Case c{Dtype::f32, 4, 2, 3, window, dropout, {0, 5, 6, 6, 9}};
      Buffers b(c);
      const Vec q = b.q.values(), k = b.k.values(), v = b.v.values(), grad = b.grad.values();
      const auto at = reference::attention(q, k, v, c.bounds, c.shape());
      const auto exact = reference::attention_backward(q, k, v, at.o, at.lse, grad, c.bounds, c.shape());
      const auto loss = [&](const Vec& q_, const Vec& k_, const Vec& v_) {
        return dot(reference::attention(q_, k_, v_, c.bounds, c.shape()).o, grad);
      };
      const Bound near{Dtype::i32, 1, 10, "truncation and cancellation of central differences, about 1e-9"};
      CHECK(differs(finite_differences([&](const Vec& x) { return loss(x, k, v); }, q), exact.dq, near) ==
            "");
      CHECK(differs(finite_differences([&](const Vec& x) { return loss(q, x, v); }, k), exact.dk, near) ==
            "");
      CHECK(differs(finite_differences([&](const Vec& x) { return loss(q, k, x); }, v), exact.dv, near) ==
            "");
    }
  }
}

struct Results {
  Vec o, lse, dq, dk, dv;
  bool operator==(const Results&) const = default;
};

Results run(kernels::Kernels& k, Buffers& b) {
  b.forward(k);
  b.backward(k);
  return {b.o.values(), b.lse.values(), b.dq.values(), b.dk.values(), b.dv.values()};
}

TEST_CASE("attention: the bits depend neither on the number of threads nor on the run") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Case& c : cases()) {
      if (c.N() < 90) continue;
      INFO(text(c));
      Results one;
      for (const int threads : {1, 2, 2, 7}) {
        Buffers b(c);
        with_threads(threads, [&] {
          const Results now = run(*k, b);
          if (threads == 1) one = now;
          CHECK(now == one);
        });
      }
    }
  }
}

// Rows [first, first + count) of a matrix.
Vec rows_of(const Vec& x, std::int64_t cols, std::int64_t first, std::int64_t count) {
  return Vec(x.begin() + first * cols, x.begin() + (first + count) * cols);
}

TEST_CASE("attention: packed documents get the bits they get alone") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Dtype dtype : formats()) {
      for (const int window : {0, 20}) {
        const Case packed{dtype, 4, 2, 24, window, 0.f, {0, 70, 70, 71, 300, 333}};
        Buffers all(packed);
        const Results together = run(*k, all);
        for (std::size_t i = 1; i < packed.bounds.size(); ++i) {
          const std::int64_t first = packed.bounds[i - 1], count = packed.bounds[i] - first;
          if (count == 0) continue;
          INFO(name(dtype), " window ", window, " document ", i);
          Case single = packed;
          single.bounds = {0, std::int32_t(count)};
          Buffers b(single);
          b.q.assign(rows_of(all.q.values(), 96, first, count));
          b.k.assign(rows_of(all.k.values(), 48, first, count));
          b.v.assign(rows_of(all.v.values(), 48, first, count));
          b.grad.assign(rows_of(all.grad.values(), 96, first, count));
          const Results alone = run(*k, b);
          CHECK(alone.o == rows_of(together.o, 96, first, count));
          CHECK(alone.dq == rows_of(together.dq, 96, first, count));
          CHECK(alone.dk == rows_of(together.dk, 48, first, count));
          CHECK(alone.dv == rows_of(together.dv, 48, first, count));
        }
      }
    }
  }
}

TEST_CASE("attention: a document of one token returns its value, and its query and key get no gradient") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const Dtype dtype : formats()) {
      Buffers b({dtype, 2, 2, 16, 0, 0.f, {0, 0, 1, 1, 2, 3, 3}});
      run(*k, b);
      check_equal("o", b.o, b.v.values());
      check_equal("dv", b.dv, b.grad.values());
      // dp - delta is a difference of two sums of the same d products.
      const Bound zero{Dtype::i32, 40 * 16, 16 * 16, "rounding of two equal sums"};
      check_close("dq", b.dq, Vec(std::size_t(b.dq.size()), 0), zero);
      check_close("dk", b.dk, Vec(std::size_t(b.dk.size()), 0), zero);
    }
  }
}

TEST_CASE("attention: no tokens at all is not an error") {
  for (const Backend& backend : backends()) {
    Buffers b({Dtype::f32, 2, 1, 16, 0, 0.f, {0, 0}});
    run(*backend.make(), b);
  }
}

TEST_CASE("attention: huge scores stay finite and pick the largest") {
  // Key j scores 1000 j for every query: each sees itself best, so o = v exactly.
  for (const Backend& backend : backends()) {
    Buffers b({Dtype::f32, 1, 1, 1, 0, 0.f, {0, 100}});
    b.q.fill(1000 / 0.7);
    for (int j = 0; j < 100; ++j) b.k.set(j, 0, j);
    run(*backend.make(), b);
    check_equal("o", b.o, b.v.values());
    for (const double x : b.dq.values()) CHECK(std::isfinite(x));
    // And the other way round: everybody sees the first best.
    for (int j = 0; j < 100; ++j) b.k.set(j, 0, -j);
    run(*backend.make(), b);
    check_equal("o", b.o, Vec(100, b.v.get(0, 0)));
  }
}

TEST_CASE("attention: a NaN reaches the rows that see it and no other") {
  for (const Backend& backend : backends()) {
    Buffers b({Dtype::f32, 1, 1, 16, 0, 0.f, {0, 80, 160}});
    b.k.set(90, 3, NAN);
    b.forward(*backend.make());
    for (int n = 0; n < 160; ++n) CHECK(std::isnan(b.o.get(n, 0)) == (n >= 90));
  }
}

TEST_CASE("attention: what an earlier call left behind never reaches a result") {
  for (const Backend& backend : backends()) {
    for (const Case& c : cases()) {
      if (c.N() > 130 || c.d > 64) continue;
      INFO(text(c));
      Buffers clean(c), poisoned(c);
      const Results expected = run(*backend.make(), clean);
      const auto used = backend.make();
      Case large = c;
      large.bounds = {0, 192};
      Buffers nans(large);
      for (Guarded* x : {&nans.q, &nans.k, &nans.v, &nans.grad}) x->fill(NAN);
      run(*used, nans);
      CHECK(run(*used, poisoned) == expected);
    }
  }
}

TEST_CASE("attention: decoding repeats the bits of the forward pass") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    for (const int window : {0, 100}) {
      const Case c{Dtype::f32, 4, 2, 32, window, 0.f, {0, 200}};
      Buffers b(c);
      b.forward(*k);
      Guarded o(Dtype::f32, 1, 128);
      for (const std::int64_t n : {0, 1, 63, 64, 199}) {
        k->attention_decode({b.q.view().slice(n, 1), b.k, b.v, o, n + 1, c.shape()});
        check_equal("o", o, rows_of(b.o.values(), 128, n, 1));
      }
    }
  }
}

TEST_CASE("attention: dropout repeats for rows at other places of the batch with the same global number") {
  for (const Backend& backend : backends()) {
    const auto k = backend.make();
    const Case both{Dtype::f32, 2, 1, 8, 0, 0.5f, {0, 40, 90}}, second{Dtype::f32, 2, 1, 8, 0, 0.5f, {0, 50}};
    Buffers all(both), part(second);
    all.forward(*k);
    part.q.assign(rows_of(all.q.values(), 16, 40, 50));
    part.k.assign(rows_of(all.k.values(), 8, 40, 50));
    part.v.assign(rows_of(all.v.values(), 8, 40, 50));
    kernels::AttentionShape shape = second.shape();
    shape.first_row += 40;
    k->attention({part.q, part.k, part.v, part.o, part.lse, second.bounds, shape});
    CHECK(part.o.values() == rows_of(all.o.values(), 16, 40, 50));
  }
}

TEST_CASE(
    "attention: documents in another order get the masks of their rows' numbers, forward and backward") {
  for (const Backend& backend : backends())
    for (const Dtype dtype : formats()) {
      const auto k = backend.make();
      const Case in_order{dtype, 2, 1, 8, 0, 0.5f, {0, 40, 130}},
          swapped{dtype, 2, 1, 8, 0, 0.5f, {0, 90, 130}};
      Buffers a(in_order), b(swapped);
      std::vector<std::int32_t> numbers;
      for (std::int32_t i = 0; i < 130; ++i) numbers.push_back(i < 90 ? 40 + i : i - 90);
      const auto swap_rows = [](const Vec& x, std::int64_t cols) {
        Vec y = rows_of(x, cols, 40, 90);
        const Vec rest = rows_of(x, cols, 0, 40);
        y.insert(y.end(), rest.begin(), rest.end());
        return y;
      };
      b.q.assign(swap_rows(a.q.values(), 16));
      b.k.assign(swap_rows(a.k.values(), 8));
      b.v.assign(swap_rows(a.v.values(), 8));
      b.grad.assign(swap_rows(a.grad.values(), 16));
      a.forward(*k);
      a.backward(*k);
      kernels::AttentionShape shape = swapped.shape();
      shape.row_N = View(numbers.data(), 1, 130);
      k->attention({b.q, b.k, b.v, b.o, b.lse, swapped.bounds, shape});
      k->attention_backward(
          {b.q, b.k, b.v, b.o, b.lse, b.grad, b.dq, b.dk, b.dv, b.delta, swapped.bounds, shape});
      CHECK(b.o.values() == swap_rows(a.o.values(), 16));
      CHECK(b.dq.values() == swap_rows(a.dq.values(), 16));
      CHECK(b.dk.values() == swap_rows(a.dk.values(), 8));
      CHECK(b.dv.values() == swap_rows(a.dv.values(), 8));
    }
}

TEST_CASE("attention: bounds that do not cover the tokens are refused") {
  for (const Backend& backend : backends()) {
    for (const Bounds& bounds : {Bounds{}, Bounds{0, 9}, Bounds{1, 10}, Bounds{0, 7, 5, 10}}) {
      Buffers b({Dtype::f32, 2, 1, 16, 0, 0.f, {0, 10}});
      CHECK_THROWS_WITH_AS(backend.make()->attention({b.q, b.k, b.v, b.o, b.lse, bounds, Case{}.shape()}),
                           "attention: bounds must rise from 0 to 10", Error);
    }
  }
}

}  // namespace
}  // namespace zt::parity
