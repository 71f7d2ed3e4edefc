// Vectors of sixteen floats and what the CPU kernels do with them. GCC's vector types compile for any
// processor: one AVX-512 register, two of AVX2, four of SSE.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__F16C__) || defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "tensor/dtype.h"

namespace zt::kernels {

inline int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
using Words = std::uint32_t __attribute__((vector_size(64)));
using Shorts = std::uint16_t __attribute__((vector_size(32)));

inline Floats splat(float x) { return Floats{} + x; }

inline Floats load(const float* p) {
  Floats x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
inline Floats load(const bf16* p) {
  Shorts half;
  std::memcpy(&half, p, sizeof half);
  const Words wide = __builtin_convertvector(half, Words) << 16;
  return std::bit_cast<Floats>(wide);
}

inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }
// Rounds to nearest even, as zt::bf16 does; NaN stays NaN.
inline void store(bf16* p, Floats x) {
  const Words u = std::bit_cast<Words>(x);
  const Words rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  const Words kept = (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : rounded;
  const Shorts half = __builtin_convertvector(kept, Shorts);
  std::memcpy(p, &half, sizeof half);
}

// Halves go through the processor's conversions where it has them.
inline Floats load(const f16* p) {
#ifdef __F16C__
  __m128i half[2];
  std::memcpy(half, p, sizeof half);
  const __m256 wide[2] = {_mm256_cvtph_ps(half[0]), _mm256_cvtph_ps(half[1])};
  return std::bit_cast<Floats>(wide);
#else
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = float(p[i]);
  return load(lanes);
#endif
}
inline void store(f16* p, Floats x) {
#ifdef __F16C__
  __m256 wide[2];
  std::memcpy(wide, &x, sizeof wide);
  for (int i = 0; i < 2; ++i) {
    const __m128i half = _mm256_cvtps_ph(wide[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    std::memcpy(p + i * kLanes / 2, &half, sizeof half);
  }
#else
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) p[i] = f16(lanes[i]);
#endif
}

// The first `count` lanes (0..16); the others are 0.
template <typename T>
Floats load_some(const T* p, int count) {
  if (count >= kLanes) return load(p);
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, sizeof(T) * std::size_t(count));
  return load(lanes);
}
template <typename T>
void store_some(T* p, Floats x, int count) {
  if (count >= kLanes) return store(p, x);
  T lanes[kLanes];
  store(lanes, x);
  std::memcpy(p, lanes, sizeof(T) * std::size_t(count));
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// Lanes l and l + kStep (kStep a power of two) of a and b next to each other: the first result has a's lane l
// where l has no kStep bit and b's lane l - kStep where it has, the second a's lane l + kStep and b's lane l.
template <int kStep>
void interleave(Floats a, Floats b, Floats* low, Floats* high) {
  Ints take_low, take_high;
  for (int l = 0; l < kLanes; ++l) {
    take_low[l] = (l & kStep) == 0 ? l : kLanes + l - kStep;
    take_high[l] = (l & kStep) == 0 ? l + kStep : kLanes + l;
  }
  *low = __builtin_shuffle(a, b, take_low);
  *high = __builtin_shuffle(a, b, take_high);
}

template <int kStep = 1>
void transpose(Floats* x) {
  for (int i = 0; i < kLanes; ++i)
    if ((i & kStep) == 0) interleave<kStep>(x[i], x[i + kStep], &x[i], &x[i + kStep]);
  if constexpr (kStep < kLanes / 2) transpose<kStep * 2>(x);
}

// Lane i of the result joins the sixteen lanes of x[i]. Destroys x.
template <int kStep = 1, typename Join>
Floats joined_lanes(Floats* x, Join join) {
  for (int i = 0; i < kLanes; i += 2 * kStep) {
    Floats low, high;
    interleave<kStep>(x[i], x[i + kStep], &low, &high);
    x[i] = join(low, high);
  }
  if constexpr (kStep < kLanes / 2) return joined_lanes<kStep * 2>(x, join);
  return x[0];
}
inline Floats sums_of(Floats* x) {
  return joined_lanes(x, [](Floats a, Floats b) { return a + b; });
}
inline Floats largest_of(Floats* x) {
  return joined_lanes(x, [](Floats a, Floats b) { return larger(a, b); });
}

inline float sum_of(Floats x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}
inline float largest_of(Floats x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

// e^x within 2 ulp on [-87.3, 88.3]; 0 below (results under 2^-126 are not made), infinity above, NaN of NaN.
// Source: Moshier's Cephes, expf.c: x = n ln 2 + r in two parts, a polynomial of degree 5 for (e^r - 1 - r) /
// r^2.
inline Floats exp_of(Floats x) {
  constexpr float kMagic = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const Floats shifted = x * 1.44269504f + kMagic;
  const Floats n = shifted - kMagic;
  const Floats r = x - n * 0.693359375f - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  // Unsigned: where x isn't finite or far outside, these bits mean nothing and are not used.
  const Words power = (std::bit_cast<Words>(shifted) - std::bit_cast<std::uint32_t>(kMagic) + 127) << 23;
  p *= std::bit_cast<Floats>(power);
  p = x < -87.3f ? Floats{} : p;
  return x > 88.3f ? splat(__builtin_inff()) : p;
}

// Memory aligned to cache lines that only grows; contents are lost when it does.
class Scratch {
 public:
  float* floats(std::size_t count) {
    if (count > count_) {
      memory_.reset(static_cast<float*>(std::aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64)));
      count_ = memory_ ? count : 0;
      if (!memory_) throw std::bad_alloc();
    }
    return memory_.get();
  }
  std::size_t bytes() const { return count_ * sizeof(float); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace zt::kernels
