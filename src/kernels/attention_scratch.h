// Memory of the attention kernels: kept between calls, grown when a larger shape is first seen.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention_tiles.h"
#include "kernels/cpu_kernels.h"

namespace zt::kernels {

struct CpuKernels::AttentionScratch {
  // Tokens of a document from `first` on, up to the next piece.
  struct Piece {
    Document document;
    std::int64_t first;
  };

  // Cuts documents into pieces of `size` tokens, in order; empty documents have none.
  const std::vector<Piece>& cut(std::span<const std::int32_t> bounds, std::int64_t size) {
    pieces_.clear();
    for (std::size_t b = 1; b < bounds.size(); ++b)
      for (std::int64_t first = bounds[b - 1]; first < bounds[b]; first += size)
        pieces_.push_back({{bounds[b - 1], bounds[b]}, first});
    return pieces_;
  }

  // Room for `floats` floats for each thread. Called outside parallel regions, because it may throw.
  void reserve(std::size_t floats) {
    if (threads_.size() < std::size_t(max_threads())) threads_.resize(std::size_t(max_threads()));
    for (Scratch& thread : threads_) thread.floats(floats);
  }
  float* mine() { return threads_[std::size_t(thread_number())].floats(0); }

 private:
  std::vector<Piece> pieces_;
  std::vector<Scratch> threads_;
};

void check_attention_shape(const char* kernel, const AttentionShape& s);
void check_attention_view(const char* kernel, const char* what, const View& x, std::int64_t rows,
                          std::int64_t cols);
// Bounds rise from 0 to the number of tokens.
void check_bounds(const char* kernel, std::span<const std::int32_t> bounds, std::int64_t tokens);

}  // namespace zt::kernels
