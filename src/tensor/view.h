// Non-owning views of matrices in device memory. All tensors of a step are matrices: tokens by features, or a
// weight.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"
#include "tensor/dtype.h"

namespace zt {

// A [rows, cols] matrix whose rows are `stride` elements apart (stride >= cols), elements of a row adjacent.
// A vector is one row. `data` null means "absent" where a contract allows it (a bias, say).
struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0, cols = 0, stride = 0;

  View() = default;
  View(void* data_, Dtype dtype_, std::int64_t rows_, std::int64_t cols_, std::int64_t stride_ = 0)
      : data(data_), dtype(dtype_), rows(rows_), cols(cols_), stride(stride_ == 0 ? cols_ : stride_) {}
  template <typename T>
  View(T* data_, std::int64_t rows_, std::int64_t cols_, std::int64_t stride_ = 0)
      : View(const_cast<std::remove_const_t<T>*>(data_), dtype_of<std::remove_const_t<T>>::value, rows_,
             cols_, stride_) {}

  explicit operator bool() const { return data != nullptr; }
  std::int64_t size() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }

  // The typed data; asking for another type than is stored is a bug.
  template <typename T>
  T* as() const {
    if (dtype != dtype_of<std::remove_const_t<T>>::value)
      throw Error(Blame::bug, cat("a ", name(dtype), " view was read as ",
                                  name(dtype_of<std::remove_const_t<T>>::value)));
    return static_cast<T*>(data);
  }
  // Columns [first, first + count) of every row, and rows [first, first + count).
  View columns(std::int64_t first, std::int64_t count) const {
    return {static_cast<char*>(data) + first * size_of(dtype), dtype, rows, count, stride};
  }
  View slice(std::int64_t first, std::int64_t count) const {
    return {static_cast<char*>(data) + first * stride * size_of(dtype), dtype, count, cols, stride};
  }
};

}  // namespace zt
