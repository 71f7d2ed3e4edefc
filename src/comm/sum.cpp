#include "comm/sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tensor/convert.h"

namespace zt::comm {
namespace {

// Sums of this many elements stay in the first-level cache while all ranks are added.
constexpr std::int64_t kBlock = 2048;
using Sums = std::array<float, kBlock>;

// How a part's element i becomes an fp32 number as the wire would deliver it.
struct Whole {
  const float* x;
  float operator()(std::int64_t i) const { return x[i]; }
};
struct Rounded {
  const float* x;
  float operator()(std::int64_t i) const { return float(rounded_to<bf16>(x[i])); }
};
struct Half {
  const bf16* x;
  float operator()(std::int64_t i) const { return float(x[i]); }
};

template <typename Use>
void with_values(const Part& part, Dtype wire, std::int64_t first, const Use& use) {
  if (part.stored == Dtype::bf16) return use(Half{reinterpret_cast<const bf16*>(part.data) + first});
  const float* x = reinterpret_cast<const float*>(part.data) + first;
  return wire == Dtype::bf16 ? use(Rounded{x}) : use(Whole{x});
}

void store(const Sums& sums, Dtype dtype, std::byte* out, std::int64_t first, std::int64_t n) {
  if (dtype == Dtype::f32) {
    std::memcpy(reinterpret_cast<float*>(out) + first, sums.data(), std::size_t(n) * sizeof(float));
    return;
  }
  auto* y = reinterpret_cast<bf16*>(out) + first;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = rounded_to<bf16>(sums[std::size_t(i)]);
}

void sum_block(std::span<const Part> parts, Dtype wire, std::int64_t first, std::int64_t n, Sums& sums) {
  with_values(parts[0], wire, first, [&](auto x) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[std::size_t(i)] = x(i);
  });
  for (const Part& part : parts.subspan(1)) {
    with_values(part, wire, first, [&](auto x) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sums[std::size_t(i)] += x(i);
    });
  }
}

}  // namespace

void sum_in_rank_order(std::span<const Part> parts, Dtype wire, Dtype dtype, std::byte* out, std::int64_t n) {
  alignas(64) Sums sums;
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t block = std::min(kBlock, n - first);
    sum_block(parts, wire, first, block, sums);
    store(sums, dtype, out, first, block);
  }
}

void to_wire(const std::byte* from, Dtype dtype, Dtype wire, std::byte* to, std::int64_t n) {
  if (dtype == wire) {
    std::memcpy(to, from, std::size_t(n * size_of(wire)));
    return;
  }
  const float* x = reinterpret_cast<const float*>(from);
  auto* y = reinterpret_cast<bf16*>(to);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = rounded_to<bf16>(x[i]);
}

}  // namespace zt::comm
