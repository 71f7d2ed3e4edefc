// One product on each tensor-core path, from global memory to global memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

enum class Format : int { bf16, f16, tf32 };

// d = a b for one 16x8 tile with k of 16 (8 for tf32), by mma.sync. a is [16][k] and b [8][k], 16-bit or f32.
// With `matrix_loads` the operands of 16 bits come by ldmatrix: b as [k][8], by its transposing form.
void run_mma(Format format, bool matrix_loads, float* d, const void* a, const void* b, cudaStream_t stream);

// d = a b for 64 x `n` with k of 16, bf16, by wgmma, `n` 64 or 128. In shared memory an operand lies with k
// innermost, or (transposed) with m or n innermost, in the swizzle of `swizzle` bytes (0, 32, 64, 128). a comes from
// registers if `a_registers`. a is [64][16] and b [n][16] in global memory in every case.
struct WgmmaCase {
  int n, swizzle;
  bool a_registers, a_transposed, b_transposed;
};
void run_wgmma(const WgmmaCase& c, float* d, const std::uint16_t* a, const std::uint16_t* b,
               cudaStream_t stream);

// y = x by cp.async of 16 bytes of which only `valid` are read; the rest is zeros. 32 x 16 bytes.
void run_zero_fill(int valid, std::uint32_t* y, const std::uint32_t* x, cudaStream_t stream);
