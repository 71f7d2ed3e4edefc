// How near the matrix kernels of GPT-2 124M (micro-batch 4 x 1024) come to oneDNN's bare products on the same
// shapes, measured alternately in one run. Best of N; set OMP_NUM_THREADS. Any other load halves two-thread
// figures.
//
// FLOPs: 2 N I O a product; attention 4 T^2 d H / 2 forward (the causal half), 2.5 times that backward.
#include "kernels/kernels.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_math.h"

namespace zt {
namespace {

using kernels::Kernels;

constexpr std::int64_t kRows = 4, kTokens = 1024, kN = kRows * kTokens, kHeads = 12, kHeadSize = 64;
constexpr std::int64_t kD = kHeads * kHeadSize, kVocabulary = 50304, kChunk = 512;

// Wall time; with one thread the processor's time, which other load does not lengthen much.
double now() {
  timespec t{};
  clock_gettime(kernels::max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

double best_seconds(int times, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i <= times; ++i) {  // the first also makes primitives and touches memory
    const double start = now();
    work();
    if (i > 0) best = std::min(best, now() - start);
  }
  return best;
}

class Matrix {
 public:
  Matrix(Dtype dtype, std::int64_t rows, std::int64_t cols, float scale = 1.f)
      : dtype_(dtype), rows_(rows), cols_(cols), bytes_(std::size_t(rows * cols * size_of(dtype))) {
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const float x = scale * (uniform(std::uint32_t(i) * 2654435761u) * 2.f - 1.f);
      if (dtype == Dtype::f32) reinterpret_cast<float*>(bytes_.data())[i] = x;
      if (dtype == Dtype::bf16) reinterpret_cast<bf16*>(bytes_.data())[i] = bf16(x);
    }
  }
  operator View() const { return {const_cast<char*>(bytes_.data()), dtype_, rows_, cols_}; }
  View view() const { return *this; }

 private:
  Dtype dtype_;
  std::int64_t rows_, cols_;
  std::vector<char> bytes_;
};

// One bare product of a [m, k] (or its transpose) and b, as linear.cpp calls oneDNN, without its bias.
double bare_product(int times, Dtype dtype, Dtype out, char ta, char tb, std::int64_t m, std::int64_t n,
                    std::int64_t k) {
  const Matrix a(dtype, m, k), b(dtype, k, n), c(out, m, n);
  const std::int64_t lda = ta == 'T' ? m : k, ldb = tb == 'T' ? k : n;
  if (dtype == Dtype::f32)
    return best_seconds(times, [&] {
      dnnl_sgemm(ta, tb, m, n, k, 1.f, a.view().as<float>(), lda, b.view().as<float>(), ldb, 0.f,
                 c.view().as<float>(), n);
    });
  using namespace dnnl;
  engine e(engine::kind::cpu, 0);
  stream s(e);
  const auto describe = [](std::int64_t r, std::int64_t cols, std::int64_t ld, char t, Dtype d) {
    return memory::desc({r, cols}, d == Dtype::bf16 ? memory::data_type::bf16 : memory::data_type::f32,
                        t == 'T' ? memory::dims{1, ld} : memory::dims{ld, 1});
  };
  const matmul::primitive_desc desc(matmul::desc(describe(m, k, lda, ta, dtype),
                                                 describe(k, n, ldb, tb, dtype), describe(m, n, n, 'N', out)),
                                    e);
  const matmul product(desc);
  const memory src(desc.src_desc(), e, a.view().data), weights(desc.weights_desc(), e, b.view().data),
      dst(desc.dst_desc(), e, c.view().data);
  return best_seconds(times, [&] {
    product.execute(s, {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}});
    s.wait();
  });
}

struct Rate {
  double flops = 0, seconds = 0;
  double gflops() const { return flops / seconds * 1e-9; }
  void add(double more_flops, double more_seconds) {
    flops += more_flops;
    seconds += more_seconds;
  }
};

void print(const std::string& what, const Rate& rate, const Rate& bare) {
  fmt::print("{:<34}{:>10.1f} ms{:>9.1f} GFLOP/s{:>8.1f} % of bare products\n", what, rate.seconds * 1e3,
             rate.gflops(), 100 * rate.gflops() / bare.gflops());
}

struct Layer {
  const char* name;
  std::int64_t I, O;
};
constexpr Layer kLayers[] = {
    {"qkv", kD, 3 * kD}, {"attention out", kD, kD}, {"mlp up", kD, 4 * kD}, {"mlp down", 4 * kD, kD}};

void bench_linear(Kernels& k, Dtype dtype, int times, Rate* bare_all) {
  for (const Layer& l : kLayers) {
    const double flops = 2.0 * double(kN) * double(l.I) * double(l.O);
    const Matrix x(dtype, kN, l.I), w(dtype, l.I, l.O, 0.02f), b(dtype, 1, l.O), y(dtype, kN, l.O),
        dx(dtype, kN, l.I), dw(Dtype::f32, l.I, l.O), db(Dtype::f32, 1, l.O);
    const Rate bare_forward{flops, bare_product(times, dtype, dtype, 'N', 'N', kN, l.O, l.I)};
    const Rate forward{flops, best_seconds(times, [&] { k.linear({x, w, b, y, true, false}); })};
    const Rate bare_backward{2 * flops, bare_product(times, dtype, dtype, 'N', 'T', kN, l.I, l.O) +
                                            bare_product(times, dtype, Dtype::f32, 'T', 'N', l.I, l.O, kN)};
    const Rate backward{2 * flops,
                        best_seconds(times, [&] { k.linear_backward({x, w, y, dx, dw, db, true, false}); })};
    fmt::print("{:<34}bare products {:.1f} forward, {:.1f} backward GFLOP/s\n", l.name, bare_forward.gflops(),
               bare_backward.gflops());
    print(fmt::format("  {} forward (+ bias)", l.name), forward, bare_forward);
    print(fmt::format("  {} backward (dx, dw, db)", l.name), backward, bare_backward);
    bare_all->add(bare_forward.flops, bare_forward.seconds);
    bare_all->add(bare_backward.flops, bare_backward.seconds);
  }
}

void bench_attention(Kernels& k, Dtype dtype, int times, const Rate& bare) {
  const Matrix qkv(dtype, kN, 3 * kD), o(dtype, kN, kD), lse(Dtype::f32, kHeads, kN), grad(dtype, kN, kD),
      dqkv(dtype, kN, 3 * kD), delta(Dtype::f32, kHeads, kN);
  std::vector<std::int32_t> bounds;
  for (std::int64_t r = 0; r <= kRows; ++r) bounds.push_back(std::int32_t(r * kTokens));
  const kernels::AttentionShape shape{.heads = int(kHeads),
                                      .kv_heads = int(kHeads),
                                      .head_size = int(kHeadSize),
                                      .scale = 0.125f,
                                      .random = {}};
  const View all = qkv, dall = dqkv;
  const View q = all.columns(0, kD), key = all.columns(kD, kD), v = all.columns(2 * kD, kD);
  const double flops = double(kRows) * 4.0 * double(kTokens) * double(kTokens) * double(kD) / 2;
  print("attention forward",
        {flops, best_seconds(times, [&] { k.attention({q, key, v, o, lse, bounds, shape}); })}, bare);
  print("attention backward",
        {2.5 * flops, best_seconds(times,
                                   [&] {
                                     k.attention_backward({q, key, v, o, lse, grad, dall.columns(0, kD),
                                                           dall.columns(kD, kD), dall.columns(2 * kD, kD),
                                                           delta, bounds, shape});
                                   })},
        bare);
}

void bench_head(Kernels& k, Dtype dtype, int times) {
  const Matrix x(dtype, kN, kD), w(dtype, kVocabulary, kD, 0.02f), dx(dtype, kN, kD),
      dw(Dtype::f32, kVocabulary, kD), logits(Dtype::f32, kChunk, kVocabulary),
      dlogits(dtype, kChunk, kVocabulary);
  std::vector<std::int32_t> targets(static_cast<std::size_t>(kN));
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets[i] = std::int32_t(i * 12345 % std::size_t(kVocabulary));
  const double flops = 6.0 * double(kN) * double(kD) * double(kVocabulary);
  const double chunks = double(kN) / double(kChunk);
  const double bare = bare_product(times, dtype, Dtype::f32, 'N', 'T', kChunk, kVocabulary, kD) +
                      bare_product(times, dtype, dtype, 'N', 'N', kChunk, kD, kVocabulary) +
                      bare_product(times, dtype, Dtype::f32, 'T', 'N', kVocabulary, kD, kChunk);
  double loss = 0;
  const double seconds = best_seconds(times, [&] {
    k.cross_entropy_head({x, w, View(targets.data(), 1, kN), 1e-3f, dx, dw, View(), &loss, logits, dlogits});
  });
  const Rate bare_rate{flops, bare * chunks};
  fmt::print("{:<34}bare products {:.1f} GFLOP/s in chunks of {} tokens\n", "head", bare_rate.gflops(),
             kChunk);
  print("  head with loss, and backward", {flops, seconds}, bare_rate);
}

void bench(Dtype dtype, int times) {
  fmt::print("\n{}, {} x {} tokens\n", name(dtype), kRows, kTokens);
  const auto k = kernels::make_cpu_kernels();
  Rate bare;
  bench_linear(*k, dtype, times, &bare);
  fmt::print("{:<34}{:.1f} GFLOP/s\n", "all bare products of a block", bare.gflops());
  bench_attention(*k, dtype, times, bare);
  bench_head(*k, dtype, std::max(1, times / 3));
}

}  // namespace
}  // namespace zt

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::max(1, std::atoi(argv[1])) : 6;
  zt::bench(zt::Dtype::f32, times);
  zt::bench(zt::Dtype::bf16, times);
}
