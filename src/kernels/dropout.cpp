#include "kernels/dropout.h"

#include "kernels/cpu_kernels.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

constexpr int kGroups = 16;          // counters worked on at once: one register of 32-bit words
constexpr int kBlock = 4 * kGroups;  // words they give

// words_i = word i % 4 of stream.words(group + i / 4). The arithmetic is RandomStream's (base/random.h),
// turned inside out so that the loop over counters is the inner one and vectorises; the parity test compares
// the two.
void fill_words(const RandomStream& stream, std::uint64_t group, std::uint32_t* words) {
  std::uint32_t c0[kGroups], c1[kGroups], c2[kGroups], c3[kGroups];
  for (int j = 0; j < kGroups; ++j) {
    c0[j] = std::uint32_t(group + std::uint64_t(j));
    c1[j] = std::uint32_t((group + std::uint64_t(j)) >> 32);
    c2[j] = stream.a;
    c3[j] = stream.b;
  }
  std::uint32_t k0 = std::uint32_t(stream.seed) ^ (std::uint32_t(stream.purpose) * 0x9E3779B9u);
  std::uint32_t k1 = std::uint32_t(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int j = 0; j < kGroups; ++j) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0[j];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2[j];
      c0[j] = std::uint32_t(p1 >> 32) ^ c1[j] ^ k0;
      c1[j] = std::uint32_t(p1);
      c2[j] = std::uint32_t(p0 >> 32) ^ c3[j] ^ k1;
      c3[j] = std::uint32_t(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int j = 0; j < kGroups; ++j) {
    words[4 * j] = c0[j];
    words[4 * j + 1] = c1[j];
    words[4 * j + 2] = c2[j];
    words[4 * j + 3] = c3[j];
  }
}

template <bool kAccumulate, typename T>
void dropout_row(const Dropout& a, std::int64_t number, const T* x_D, T* y_D, std::int64_t D) {
  const std::int64_t start = number * D;
  const float p = a.p, scale = 1.f / (1.f - a.p);
  std::uint32_t words[kBlock];
  for (std::int64_t block = start / 4 * 4; block < start + D; block += kBlock) {
    fill_words(a.random, std::uint64_t(block / 4), words);
    const std::int64_t first = std::max(block, start), end = std::min(block + kBlock, start + D);
    const std::uint32_t* const word = words + (first - block);
    const T* const x = x_D + (first - start);
    T* const y = y_D + (first - start);
#pragma omp simd
    for (std::int64_t i = 0; i < end - first; ++i) {
      const float kept = uniform(word[i]) >= p ? float(x[i]) * scale : 0.f;
      y[i] = rounded_to<T>(kAccumulate ? float(y[i]) + kept : kept);
    }
  }
}

template <bool kAccumulate, typename T>
void dropout_typed(const Dropout& a) {
  const std::int64_t N = a.x_ND.rows, D = a.x_ND.cols;
  const Rows<const T> x(a.x_ND);
  const Rows<T> y(a.y_ND);
  const std::int32_t* const numbers = a.row_N ? a.row_N.as<const std::int32_t>() : nullptr;
#pragma omp parallel for schedule(static) if (N * D > kWorthThreads)
  for (std::int64_t n = 0; n < N; ++n)
    dropout_row<kAccumulate>(a, a.first_row + (numbers == nullptr ? n : numbers[n]), x[n], y[n], D);
}

}  // namespace

void CpuKernels::dropout(const Dropout& a) {
  require(has_shape(a.y_ND, a.x_ND.rows, a.x_ND.cols), "dropout", "shapes of x and y differ");
  require(!a.row_N || a.row_N.size() == a.x_ND.rows, "dropout", "not every row has a number");
  with_type(a.x_ND.dtype, "dropout", [&](auto type) {
    using T = decltype(type);
    a.accumulate ? dropout_typed<true, T>(a) : dropout_typed<false, T>(a);
  });
}

}  // namespace zt::kernels
