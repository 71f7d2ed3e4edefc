// Kernels that compute each output element from the same place of their inputs, and how they are launched.
//
// An operation is a struct of DeviceRows with
//
//   template <int kVec> __device__ void apply(std::int64_t row, std::int64_t col, int count) const
//
// which works on elements [col, col + count) of a row, count <= kVec.
#pragma once

#include <algorithm>

#include "device/stream.h"
#include "kernels/vectors.cuh"

namespace zt::kernels {

constexpr int kElementwiseThreads = 256;

// Each thread takes kVec columns; a block is a rectangle as wide as the rows need and at most 256 threads.
template <int kVec, typename Op>
__global__ void __launch_bounds__(kElementwiseThreads)
    elementwise(const Op op, const std::int64_t rows, const std::int64_t cols) {
  const std::int64_t col = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kVec;
  if (col >= cols) return;
  const int count = int(min(std::int64_t{kVec}, cols - col));
#pragma unroll 1  // else the number of turns is divided out first, which costs more than most turns
  for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.y} * blockDim.y)
    op.template apply<kVec>(row, col, count);
}

template <int kVec, typename Op>
void launch_vectors(const char* kernel, const Op& op, std::int64_t rows, std::int64_t cols) {
  if (rows == 0 || cols == 0) return;
  const std::int64_t chunks = (cols + kVec - 1) / kVec;
  dim3 threads(1, kElementwiseThreads);
  while (threads.x < chunks && threads.x < kElementwiseThreads) {
    threads.x *= 2;
    threads.y /= 2;
  }
  const std::int64_t down = (rows + threads.y - 1) / threads.y;
  const dim3 blocks(unsigned((chunks + threads.x - 1) / threads.x),
                    unsigned(std::min<std::int64_t>(down, 65535)));
  elementwise<kVec><<<blocks, threads, 0, cuda::current_stream()>>>(op, rows, cols);
  cuda::check(cudaGetLastError(), kernel);
}

// By rows: `aligned` says whether chunks of kVec columns start on 16-byte boundaries.
template <int kVec, typename Op>
void launch_rows(const char* kernel, const Op& op, std::int64_t rows, std::int64_t cols, bool aligned) {
  if (aligned)
    launch_vectors<kVec>(kernel, op, rows, cols);
  else
    launch_vectors<1>(kernel, op, rows, cols);
}

// For operations that don't look at row and col: matrices that are all contiguous are one long row.
template <int kVec, typename Op>
void launch_elements(const char* kernel, const Op& op, std::initializer_list<View> views) {
  std::int64_t rows = views.begin()->rows, cols = views.begin()->cols;
  if (std::all_of(views.begin(), views.end(), [](const View& v) { return v.contiguous(); })) {
    cols *= rows;
    rows = 1;
  }
  bool aligned = true;
  for (View v : views) {
    v.rows = rows;
    aligned = aligned && all_aligned({v}, kVec);
  }
  launch_rows<kVec>(kernel, op, rows, cols, aligned);
}

}  // namespace zt::kernels
