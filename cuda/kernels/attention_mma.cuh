// Tiles of numbers in shared memory and their products on tensor cores, for sm_80 and later. Sources: PTX ISA, "Matrix
// fragments for mma.m16n8k16", "ldmatrix", "cp.async".
#pragma once

#include "kernels/attention_shapes.h"
#include "kernels/attention_softmax.cuh"

namespace zt::kernels {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return std::uint32_t(__cvta_generic_to_shared(p));
}

// 16 bytes from global to shared memory; zeros where not `real`.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(real ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// c (16 x 8, f32) += a (16 x 16) b (16 x 8).
template <typename T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1);
template <>
__device__ __forceinline__ void multiply_add<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                            std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_add<__half>(float (&c)[4], const std::uint32_t (&a)[4],
                                                     std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Calls f(row, column) for the 16-byte pieces [first, first + kWidth) of kRows rows, shared out among kSharers
// threads so that eight neighbours touch different banks: kWidth pieces of each of 8 / kWidth rows, kWidth apart.
template <int kRows, int kWidth, int kSharers, typename F>
__device__ __forceinline__ void for_some_pieces(int first, int thread, F f) {
  constexpr int kPieces = kRows * kWidth;
#pragma unroll
  for (int i = 0; i < kPieces; i += kSharers) {
    const int piece = i + thread, phase = piece / 8, lane = piece % 8;
    if (i + kSharers <= kPieces || piece < kPieces)
      f(phase / kWidth * 8 + phase % kWidth + lane / kWidth * kWidth, (first + lane % kWidth) * kPiece);
  }
}

// The same for all pieces of rows of D numbers.
template <int D, int kRows, int kSharers, typename F>
__device__ __forceinline__ void for_pieces(int thread, F f) {
#pragma unroll
  for (int first = 0; first < D / 64 * 8; first += 8) for_some_pieces<kRows, 8, kSharers>(first, thread, f);
  constexpr int kRest = D % 64 / kPiece;
  static_assert(kRest == 0 || kRest == 2 || kRest == 4);
  if constexpr (kRest > 0) for_some_pieces<kRows, kRest, kSharers>(D / 64 * 8, thread, f);
}

// Starts copying rows [first, first + kRows) of one head to a tile; zeros from row `rows` and column `columns` on.
template <typename T, int D, int kRows>
__device__ __forceinline__ void start_tile(T* tile, const T* head, std::int64_t stride, int first, int rows,
                                           int columns) {
  for_pieces<D, kRows, kThreads>(int(threadIdx.x), [&](int row, int column) {
    const bool real = first + row < rows && column < columns;
    copy_async(tile + row * kRow<D> + column, head + (real ? (first + row) * stride + column : 0), real);
  });
}

// Addresses of this thread's part of matrices in a tile.
//   left: rows [16 i, 16 i + 16) x columns [16 k, 16 k + 16) as the left operand of a product
//   right: the same numbers as the right operand that is transposed: rows are the product's columns
//   across: the same numbers as the right operand as it lies: rows are summed over
template <typename T, int D>
struct TileAddress {
  std::uint32_t left, right;

  __device__ __forceinline__ explicit TileAddress(const T* tile) {
    const int lane = int(threadIdx.x) % 32;
    left = shared_address(tile + lane % 16 * kRow<D> + lane / 16 * kPiece);
    right = shared_address(tile + (lane % 8 + lane / 16 * 8) * kRow<D> + lane / 8 % 2 * kPiece);
  }
  static __device__ __forceinline__ std::uint32_t offset(int i, int k) {
    return std::uint32_t((i * 16 * kRow<D> + k * 16) * int(sizeof(T)));
  }
  __device__ __forceinline__ void load_left(std::uint32_t (&r)[4], int i, int k) const {
    load_matrices(r, left + offset(i, k));
  }
  __device__ __forceinline__ void load_right(std::uint32_t (&r)[4], int i, int k) const {
    load_matrices(r, right + offset(i, k));
  }
  __device__ __forceinline__ void load_across(std::uint32_t (&r)[4], int i, int k) const {
    load_matrices_transposed(r, left + offset(i, k));
  }
};

// c = a b^T over D columns: rows [16 m0, 16 (m0 + kAtoms)) of tile a with all rows of tile b.
template <typename T, int D, int kAtoms, int kEights>
__device__ __forceinline__ void multiply_rows(float (&c)[kAtoms][kEights][4], const TileAddress<T, D>& a,
                                              int m0, const TileAddress<T, D>& b) {
  clear(c);
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    std::uint32_t left[kAtoms][4];
#pragma unroll
    for (int m = 0; m < kAtoms; ++m) a.load_left(left[m], m0 + m, k);
#pragma unroll
    for (int n = 0; n < kEights / 2; ++n) {
      std::uint32_t right[4];
      b.load_right(right, n, k);
#pragma unroll
      for (int m = 0; m < kAtoms; ++m) {
        multiply_add<T>(c[m][2 * n], left[m], right[0], right[1]);
        multiply_add<T>(c[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c (kAtoms x 16 rows, D columns) += p b, where p is rounded to T and summed over its columns, b's rows.
template <typename T, int D, int kAtoms, int kEights>
__device__ __forceinline__ void multiply_columns(float (&c)[kAtoms][D / 8][4],
                                                 const float (&p)[kAtoms][kEights][4],
                                                 const TileAddress<T, D>& b) {
#pragma unroll
  for (int k = 0; k < kEights / 2; ++k) {
    std::uint32_t left[kAtoms][4];
#pragma unroll
    for (int m = 0; m < kAtoms; ++m)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float(&from)[4] = p[m][2 * k + r / 2];
        left[m][r] = rounded_pair<T>(from[r % 2 * 2], from[r % 2 * 2 + 1]);
      }
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      std::uint32_t right[4];
      b.load_across(right, k, n);
#pragma unroll
      for (int m = 0; m < kAtoms; ++m) {
        multiply_add<T>(c[m][2 * n], left[m], right[0], right[1]);
        multiply_add<T>(c[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Rows of fragments, times factor(atom, half), to global memory by way of this warp's rows of a tile that no other
// warp uses any more. Rows from `rows` and columns from `columns` on are left out.
template <typename T, int D, int kAtoms, typename Factor>
__device__ __forceinline__ void store_rows(const float (&c)[kAtoms][D / 8][4], Factor factor, T* tile,
                                           T* head, std::int64_t stride, int first, int rows, int columns) {
  const int lane = int(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kAtoms; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      T* const row = tile + (m * 16 + half * 8 + lane / 4) * kRow<D> + lane % 4 * 2;
      const float f = factor(m, half);
#pragma unroll
      for (int n = 0; n < D / 8; ++n)
        *reinterpret_cast<std::uint32_t*>(row + n * 8) =
            rounded_pair<T>(c[m][n][half * 2] * f, c[m][n][half * 2 + 1] * f);
    }
  __syncwarp();
  for_pieces<D, 16 * kAtoms, 32>(lane, [&](int row, int column) {
    if (first + row < rows && column < columns)
      *reinterpret_cast<uint4*>(head + (first + row) * stride + column) =
          *reinterpret_cast<const uint4*>(tile + row * kRow<D> + column);
  });
}

}  // namespace zt::kernels
