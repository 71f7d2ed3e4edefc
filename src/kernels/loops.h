// How the CPU kernels walk over memory: typed rows, dispatch on the format, fixed blocks for threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "base/error.h"
#include "tensor/convert.h"
#include "tensor/view.h"

namespace zt::kernels {

// Row n of a typed matrix. Made outside parallel regions, because a wrong type throws.
template <typename T>
class Rows {
 public:
  explicit Rows(const View& view) : data_(view ? view.as<T>() : nullptr), stride_(view.stride) {}
  T* operator[](std::int64_t n) const { return data_ + n * stride_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  T* data_;
  std::int64_t stride_;
};

[[noreturn]] inline void fail_contract(const char* kernel, const std::string& what) {
  throw Error(Blame::bug, cat(kernel, ": ", what));
}

inline void require(bool holds, const char* kernel, const char* what) {
  if (!holds) [[unlikely]]
    fail_contract(kernel, what);
}

inline bool has_shape(const View& view, std::int64_t rows, std::int64_t cols) {
  return view && view.rows == rows && view.cols == cols;
}

inline bool is_vector(const View& view, std::int64_t n) {
  return view && view.size() == n && view.contiguous();
}

// Calls f with a value of the format's C++ type. Kernels take all three float formats and compute in fp32.
template <typename F>
void with_type(Dtype dtype, const char* kernel, F f) {
  switch (dtype) {
    case Dtype::f32: return f(float());
    case Dtype::bf16: return f(bf16());
    case Dtype::f16: return f(f16());
    case Dtype::i32: break;
  }
  fail_contract(kernel, cat("takes float32, bfloat16 or float16, not ", name(dtype)));
}

// Below this many elements a team of threads costs more than it saves.
inline constexpr std::int64_t kWorthThreads = 1 << 14;

// Covers rows x cols elements with pieces f(row, first column, count), in parallel. When every view is
// contiguous all of it is one long row.
template <typename F>
void for_pieces(std::initializer_list<View> views, F f) {
  constexpr std::int64_t kPiece = 4096;
  std::int64_t rows = views.begin()->rows, cols = views.begin()->cols;
  if (std::all_of(views.begin(), views.end(), [](const View& v) { return v.contiguous(); })) {
    cols *= rows;
    rows = 1;
  }
  const std::int64_t per_row = (cols + kPiece - 1) / kPiece, pieces = rows * per_row;
#pragma omp parallel for schedule(static) if (rows * cols > kWorthThreads)
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = i % per_row * kPiece;
    f(i / per_row, first, std::min(kPiece, cols - first));
  }
}

// Sums over rows are made of at most kParts partial sums, each over a fixed range of rows that depends on the
// number of rows only, and added in order: the result does not depend on the number of threads.
struct Parts {
  static constexpr std::int64_t kParts = 64, kLeast = 16;
  explicit Parts(std::int64_t rows_, std::int64_t least = kLeast)
      : rows(rows_), each(std::max(least, (rows_ + kParts - 1) / kParts)), count((rows_ + each - 1) / each) {}
  std::int64_t first(std::int64_t part) const { return part * each; }
  std::int64_t end(std::int64_t part) const { return std::min(rows, (part + 1) * each); }
  std::int64_t rows, each, count;
};

}  // namespace zt::kernels
