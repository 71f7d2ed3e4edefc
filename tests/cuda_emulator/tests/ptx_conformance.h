// Kernels of one instruction group each. Every thread reads its 16 words of `in` and writes 16 of `out`; a block has
// 32 threads unless said otherwise. What they must give is computed on the host by ptx_conformance_test.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

inline constexpr int kWords = 16;

// clang-format off
#define ZT_CONFORMANCE_KERNELS(X) \
  X(integers) \
  X(wide_integers) \
  X(bits) \
  X(floats) \
  X(doubles) \
  X(halves) \
  X(half_pairs) \
  X(conversions) \
  X(comparisons) \
  X(functions) \
  X(memory) \
  X(atomics) \
  X(warps) \
  X(named_barriers) \
  X(branches) \
  X(fences)
// clang-format on

#define ZT_DECLARE(name) \
  void run_##name(std::uint32_t* out, const std::uint32_t* in, int blocks, cudaStream_t stream);
ZT_CONFORMANCE_KERNELS(ZT_DECLARE)
#undef ZT_DECLARE
