// Attention on the emulated GPU, judged as on the CPU (parity/attention_case.h) against tests/reference, on
// shapes around the tiles of the tensor-core kernels; and what the emulator counts of them.
#include <cmath>

#include "cuda/settings.h"
#include "kernels/attention_path.h"
#include "parity/attention_case.h"

namespace zt::parity {
namespace {

using cuda_test::OnDevice;
using cuda_test::Placement;
using Case = AttentionCase;
using Buffers = AttentionBuffers;
using Bounds = std::vector<std::int32_t>;

// Lengths around tiles of 16, 32, 48, 64 and 128 tokens, one document and several, documents of one token.
const std::vector<Bounds>& documents() {
  static const std::vector<Bounds> all = {
      {0, 1}, {0, 15}, {0, 64}, {0, 65}, {0, 129}, {0, 200}, {0, 0, 1, 2, 66, 66, 130}, {0, 30, 70, 71, 190}};
  return all;
}

std::vector<Case> tensor_cases() {
  std::vector<Case> all;
  for (const Bounds& b : documents()) all.push_back({Dtype::bf16, 2, 1, 64, 0, 0.f, b, 0});
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const int window : {1, 7, 64, 100}) all.push_back({dtype, 1, 1, 64, window, 0.f, {0, 5, 150}, 8});
    for (const int d : {8, 64, 72, 80, 96, 120, 128})
      all.push_back({dtype, 3, 3, d, 0, 0.f, {0, 9, 90}, d == 80 ? 16 : 0});
    for (const int d : {64, 80, 96, 128}) {
      all.push_back({dtype, 4, 2, d, 40, 0.f, {0, 33, 150}, 0});
      all.push_back({dtype, 2, 1, d, 0, 0.3f, {0, 30, 100}, 0});
    }
  }
  return all;
}

std::vector<Case> plain_cases() {
  std::vector<Case> all;
  for (const Dtype dtype : formats()) {
    for (const int d : {1, 17, 66}) all.push_back({dtype, 2, 1, d, 0, 0.f, {0, 9, 43}, 1});
    all.push_back({dtype, 4, 2, 20, 10, 0.3f, {0, 30, 31, 50}, 3});
  }
  all.push_back({Dtype::bf16, 1, 1, 130, 0, 0.f, {0, 20}, 0});
  all.push_back({Dtype::f32, 1, 1, 256, 0, 0.f, {0, 20}, 0});
  return all;
}

// Until its end, calls take this path where they fit it.
struct Path {
  explicit Path(kernels::AttentionPath path) { kernels::set_attention_path(path); }
  ~Path() { kernels::set_attention_path(kernels::AttentionPath::best); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
};

TEST_CASE("cuda attention: tensor cores agree with the fp64 reference, forward") {
  const Path path(kernels::AttentionPath::any_gpu);
  cuda_test::under_each_setting("attention", [](const cuda_test::Setting&) {
    OnDevice k(Placement::aligned);
    for (const Case& c : tensor_cases()) check_attention_forward(k, c);
  });
}

TEST_CASE("cuda attention: tensor cores agree with the fp64 reference, gradients") {
  const Path path(kernels::AttentionPath::any_gpu);
  cuda_test::under_each_setting("attention_backward", [](const cuda_test::Setting&) {
    OnDevice k(Placement::aligned);
    for (const Case& c : tensor_cases()) check_attention_gradients(k, c);
  });
}

std::vector<Case> warpgroup_cases() {
  std::vector<Case> all;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const int d : {64, 128}) {
      for (const Bounds& b : {Bounds{0, 1}, Bounds{0, 127}, Bounds{0, 129}, Bounds{0, 0, 1, 2, 66, 66, 300}})
        all.push_back({dtype, 2, 1, d, 0, 0.f, b, 0});
      all.push_back({dtype, 2, 2, d, 100, 0.f, {0, 30, 500}, 8});
      all.push_back({dtype, 1, 1, d, 0, 0.f, {0, 520}, 0});  // five tiles of keys: every stage is used again
    }
  }
  return all;
}

// Every case must have taken these kernels, and no other.
void check_launches(std::initializer_list<const char*> kernels, std::size_t cases) {
#ifndef ZEROTRAIN_ON_GPU
  for (const char* kernel : kernels) {
    INFO(std::string(kernel));
    CHECK(emulator::counters(kernel).launches == cases);
  }
#else
  static_cast<void>(kernels);
  static_cast<void>(cases);
#endif
}

TEST_CASE("cuda attention: products of warpgroups agree with the fp64 reference, forward") {
  cuda_test::under_each_setting("attention by warpgroups", [](const cuda_test::Setting&) {
    OnDevice k(Placement::aligned);
    emulator::reset_counters();
    for (const Case& c : warpgroup_cases()) check_attention_forward(k, c);
    check_launches({"attention_forward_warpgroups"}, warpgroup_cases().size());
  });
}

// Tiles of 64 queries and of 64 or 128 keys: documents that end inside, at and right after them, tiles between documents that
// nobody sees, windows narrower and wider than a tile, several heads a key, and walks of more tiles than there are stages.
std::vector<Case> warpgroup_gradient_cases() {
  std::vector<Case> all;
  for (const int d : {64, 128}) {
    all.push_back({Dtype::bf16, 2, 1, d, 0, 0.f, {0, 1}, 0});
    all.push_back({Dtype::bf16, 1, 1, d, 0, 0.f, {0, 63, 64, 129}, 8});
    all.push_back({Dtype::bf16, 2, 1, d, 0, 0.f, {0, 0, 1, 2, 66, 66, 200}, 0});
    all.push_back({Dtype::bf16, 1, 1, d, 3, 0.f, {0, 192}, 0});
    all.push_back({Dtype::f16, 4, 2, d, 100, 0.f, {0, 30, 150}, 8});
  }
  // More tiles of keys than stages for them, so that each is used again.
  all.push_back({Dtype::bf16, 1, 1, 64, 0, 0.f, {0, 400}, 0});
  all.push_back({Dtype::bf16, 1, 1, 128, 0, 0.f, {0, 260}, 0});
  return all;
}

TEST_CASE("cuda attention: products of warpgroups agree with the fp64 reference, gradients") {
  cuda_test::under_each_setting("attention_backward by warpgroups", [](const cuda_test::Setting&) {
    OnDevice k(Placement::aligned);
    emulator::reset_counters();
    for (const Case& c : warpgroup_gradient_cases()) check_attention_gradients(k, c);
    check_launches({"attention_backward_keys_warpgroups", "attention_backward_queries_warpgroups"},
                   warpgroup_gradient_cases().size());
  });
}

TEST_CASE("cuda attention: every format, size and address agrees with the fp64 reference") {
  cuda_test::under_each_setting("plain attention", [](const cuda_test::Setting&) {
    OnDevice k(Placement::as_given);
    for (const Case& c : plain_cases()) {
      check_attention_forward(k, c);
      check_attention_gradients(k, c);
    }
  });
}

TEST_CASE("cuda attention: no access to shared memory takes more passes than it must") {
  OnDevice k(Placement::aligned);
  emulator::reset_counters();
  for (const int d : {64, 80, 96, 128}) {
    for (const auto path : {kernels::AttentionPath::any_gpu, kernels::AttentionPath::best}) {
      const Path chosen(path);
      Buffers b({Dtype::bf16, 2, 1, d, 0, 0.f, {0, 90, 300}});
      b.forward(k);
      b.backward(k);
    }
  }
  for (const char* kernel : {"attention_forward", "attention_forward_warpgroups", "attention_backward_keys",
                             "attention_backward_queries", "attention_backward_keys_warpgroups",
                             "attention_backward_queries_warpgroups"}) {
    INFO(std::string(kernel));
    const emulator::Counters counted = emulator::counters(kernel);
    CHECK(counted.launches > 0);
    CHECK(counted.mma > 0);
    CHECK(counted.bank_extra == 0);
  }
  CHECK(emulator::to_string(emulator::take_findings()) == "");
}

TEST_CASE("cuda attention: decoding gives the last row of a forward pass") {
  cuda_test::under_each_setting("attention_decode", [](const cuda_test::Setting& setting) {
    OnDevice k(setting.placement);
    for (const Dtype dtype : formats()) {
      for (const int window : {0, 5, 100}) {
        for (const int N : {1, 2, 70}) {
          const Case c{dtype, 4, 2, 24, window, 0.f, {0, N}, 3};
          INFO(text(c));
          Buffers b(c);
          const auto exact = b.exact();
          Guarded o(dtype, 1, 96);
          k.attention_decode({b.q.view().slice(N - 1, 1), b.k, b.v, o, N, c.shape()});
          check_close("o", o, Vec(exact.o.end() - 96, exact.o.end()),
                      {dtype, probability_steps(c, exact.score) + N, largest(b.v.values()),
                       "probabilities sum to 1"});
        }
      }
    }
  });
}

TEST_CASE("cuda attention: the same call gives the same bits") {
  for (const auto path : {kernels::AttentionPath::any_gpu, kernels::AttentionPath::best}) {
    const Path chosen(path);
    OnDevice k(Placement::aligned);
    for (const Dtype dtype : formats()) {
      const float dropout = path == kernels::AttentionPath::best ? 0.f : 0.2f;
      const Case c{dtype, 2, 1, 64, 0, dropout, dtype == Dtype::f32 ? Bounds{0, 40} : Bounds{0, 50, 150}};
      Buffers one(c), two(c);
      for (Buffers* b : {&one, &two}) {
        b->forward(k);
        b->backward(k);
      }
      CHECK(one.o.values() == two.o.values());
      CHECK(one.dq.values() == two.dq.values());
      CHECK(one.dk.values() == two.dk.values());
      CHECK(one.dv.values() == two.dv.values());
    }
  }
}

TEST_CASE(
    "cuda attention: a document of one token returns its value, and its value gets all of its gradient") {
  for (const Placement placement : {Placement::as_given, Placement::aligned}) {
    for (const Dtype dtype : formats()) {
      OnDevice k(placement);
      Buffers b({dtype, 2, 2, 64, 0, 0.f, {0, 0, 1, 1, 2, 3, 3}});
      b.forward(k);
      check_equal("o", b.o, b.v.values());
      b.backward(k);
      check_equal("dv", b.dv, b.grad.values());
    }
  }
}

TEST_CASE("cuda attention: huge scores stay finite and pick the largest") {
  for (const Placement placement : {Placement::as_given, Placement::aligned}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      // Key j scores 875 j for every query: each sees itself best, so o = v exactly.
      OnDevice k(placement);
      Buffers b({dtype, 1, 1, 64, 0, 0.f, {0, 100}});
      b.q.fill(0);
      b.k.fill(0);
      for (int j = 0; j < 100; ++j) {
        b.q.set(j, 0, 1e4);
        b.k.set(j, 0, j);
      }
      b.forward(k);
      check_equal("o", b.o, b.v.values());
      b.backward(k);
      for (const double x : b.dq.values()) CHECK(std::isfinite(x));
    }
  }
}

TEST_CASE("cuda attention: a NaN reaches the rows that see it and no other") {
  for (const Placement placement : {Placement::as_given, Placement::aligned}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      OnDevice k(placement);
      Buffers b({dtype, 1, 1, 64, 0, 0.f, {0, 80, 160}});
      b.k.set(90, 3, NAN);
      b.forward(k);
      for (int n = 0; n < 160; ++n) CHECK(std::isnan(b.o.get(n, 0)) == (n >= 90));
    }
  }
}

TEST_CASE("cuda attention: no tokens at all is not an error, and more than 256 columns a head are refused") {
  OnDevice k(Placement::aligned);
  Buffers none({Dtype::f32, 2, 1, 16, 0, 0.f, {0, 0}});
  none.forward(k);
  none.backward(k);
  Buffers wide({Dtype::f32, 1, 1, 257, 0, 0.f, {0, 2}});
  CHECK_THROWS_WITH_AS(wide.forward(k), "attention: 1 heads, 1 kv heads of size 257, at most 256", Error);
}

}  // namespace
}  // namespace zt::parity
