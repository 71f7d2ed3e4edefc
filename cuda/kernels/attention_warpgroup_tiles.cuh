// Products of whole tiles by one warpgroup, and their results on the way to memory. Tiles as in attention_wgmma.cuh: panels of
// 64 columns, here told by the address of a row of the first panel (a multiple of eight) and the bytes from panel to panel.
#pragma once

#include "kernels/attention_shapes.h"
#include "kernels/attention_softmax.cuh"
#include "kernels/attention_wgmma.cuh"

namespace zt::kernels {

// The first multiple of 1024 bytes in a block's shared memory.
__device__ __forceinline__ unsigned char* first_panel(unsigned char* shared) {
  return shared + (1024 - shared_at(shared) % 1024) % 1024;
}

template <int kEights>
__device__ __forceinline__ float (&flat(float (&c)[1][kEights][4]))[kEights * 4] {
  return reinterpret_cast<float(&)[kEights * 4]>(c);
}
template <int kEights>
__device__ __forceinline__ void hold(float (&c)[1][kEights][4]) {
  hold(flat(c));
}

// Begins c = a b^T over D columns: 64 rows of a, eight times kEights rows of b. In flight until wait_for_products; nothing touches
// its registers and tiles meanwhile.
template <typename T, int D, int kEights>
__device__ __forceinline__ void start_rows(float (&c)[1][kEights][4], const unsigned char* a,
                                           int a_panel_bytes, const unsigned char* b, int b_panel_bytes) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const int panel = k / 4, piece = k % 4 * 2;  // two 16-byte pieces a product
    product_along<T>(flat(c), along_rows(a + panel * a_panel_bytes) + std::uint64_t(piece),
                     along_rows(b + panel * b_panel_bytes) + std::uint64_t(piece), k > 0);
  }
  commit_products();
}

// Begins c += p b, summed over the 16 kSteps rows of b. In flight likewise.
template <typename T, int kEights, int kSteps>
__device__ __forceinline__ void start_columns(float (&c)[1][kEights][4], const std::uint32_t (&p)[kSteps][4],
                                              const unsigned char* b, int panel_bytes) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    product_down<T>(flat(c), p[k], down_rows(b + k * 16 * kPanelRowBytes, panel_bytes));
  commit_products();
}

// Results of a product, rounded, are the left operand of the next as they stand.
template <typename T, int kSteps>
__device__ __forceinline__ void round_left(std::uint32_t (&p)[kSteps][4],
                                           const float (&c)[1][2 * kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float(&from)[4] = c[0][2 * k + r / 2];
      p[k][r] = rounded_pair<T>(from[r % 2 * 2], from[r % 2 * 2 + 1]);
    }
}

// The 16 rows of a warp, times factor(half), to memory by way of 16 rows of a tile that nobody else uses any more. Rows from
// `rows` on are left out.
template <typename T, int D, typename Factor>
__device__ __forceinline__ void store_panels(const float (&c)[1][D / 8][4], Factor factor,
                                             unsigned char* tile, int panel_bytes, T* to, std::int64_t stride,
                                             int rows) {
  const int lane = int(threadIdx.x) % 32;
  const auto piece = [&](int row, int column_piece) {
    return tile + column_piece / 8 * panel_bytes + row * kPanelRowBytes + (column_piece % 8 ^ row % 8) * 16;
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float f = factor(half);
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<std::uint32_t*>(piece(half * 8 + lane / 4, n) + lane % 4 * 4) =
          rounded_pair<T>(c[0][n][half * 2] * f, c[0][n][half * 2 + 1] * f);
  }
  __syncwarp();
#pragma unroll
  for (int p = 0; p < D / kPanelColumns; ++p)
#pragma unroll
    for (int r = lane / 8; r < 16; r += 4)
      if (r < rows)
        *reinterpret_cast<uint4*>(to + r * stride + p * kPanelColumns + lane % 8 * kPiece) =
            *reinterpret_cast<const uint4*>(piece(r, p * 8 + lane % 8));
}

// The first `kProducers` threads of the first warpgroup bring tiles, the other warpgroups multiply; registers go to those.
template <int kProducers, typename Pass>
__device__ __forceinline__ void play_roles(Pass& pass) {
  const int group = int(threadIdx.x) / 128;
  if (group == 0) {
    shrink_registers<24>();
    if (threadIdx.x < kProducers) pass.produce();
  } else {
    grow_registers<240>();
    pass.consume(group - 1);
  }
}

}  // namespace zt::kernels
