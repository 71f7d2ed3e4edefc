// A linear layer as products of matrices, with its contract checked: what every backend's linear.cpp has in common.
#pragma once

#include "kernels/linear.h"
#include "kernels/loops.h"

namespace zt::kernels {

// c_MN = op(a) op(b) (+ bias_N) (+ c), row-major; op transposes where its flag is set: a is then stored [k, m], b [n, k].
// a, b and bias share one dtype.
struct Product {
  bool a_transposed = false, b_transposed = false;
  std::int64_t m = 0, n = 0, k = 0;
  View a, b, bias, c;
  bool add = false;
};

inline void require_shape(const char* kernel, const char* what, const View& v, std::int64_t rows,
                          std::int64_t cols) {
  if (v.rows != rows || v.cols != cols || (v.rows > 1 && v.stride < v.cols))
    fail_contract(kernel, cat(what, " is ", v.rows, " x ", v.cols, " with stride ", v.stride, ", needed ",
                              rows, " x ", cols));
}

inline void require_dtype(const char* kernel, const char* what, const View& v, Dtype dtype) {
  if (v.dtype != dtype) fail_contract(kernel, cat(what, " is ", name(v.dtype), ", needed ", name(dtype)));
}

inline void require_product_dtype(const char* kernel, const View& x) {
  if (x.dtype == Dtype::i32) fail_contract(kernel, cat("no products of ", name(x.dtype)));
}

// y_NO = or += x_NI w^T + b_O
inline Product product_of(const Linear& l) {
  const std::int64_t N = l.x_NI.rows, I = l.x_NI.cols, O = l.y_NO.cols;
  require_product_dtype("linear", l.x_NI);
  require_shape("linear", "y_NO", l.y_NO, N, O);
  require_shape("linear", l.w_is_IO ? "w_IO" : "w_OI", l.w_OI, l.w_is_IO ? I : O, l.w_is_IO ? O : I);
  require_dtype("linear", "w", l.w_OI, l.x_NI.dtype);
  if (l.y_NO.dtype != Dtype::f32) require_dtype("linear", "y_NO", l.y_NO, l.x_NI.dtype);
  if (l.b_O) {
    require_shape("linear", "b_O", l.b_O, 1, O);
    require_dtype("linear", "b_O", l.b_O, l.x_NI.dtype);
  }
  return {.b_transposed = !l.w_is_IO,
          .m = N,
          .n = O,
          .k = I,
          .a = l.x_NI,
          .b = l.w_OI,
          .bias = l.b_O,
          .c = l.y_NO,
          .add = l.accumulate};
}

// dx_NI = or += dy_NO w
inline Product input_gradient(const LinearGrad& l) {
  const char* const kernel = "linear_backward";
  const std::int64_t N = l.dy_NO.rows, O = l.dy_NO.cols, I = l.w_is_IO ? l.w_OI.rows : l.w_OI.cols;
  require_shape(kernel, l.w_is_IO ? "w_IO" : "w_OI", l.w_OI, l.w_is_IO ? I : O, l.w_is_IO ? O : I);
  require_dtype(kernel, "w", l.w_OI, l.dy_NO.dtype);
  require_shape(kernel, "dx_NI", l.dx_NI, N, I);
  if (l.dx_NI.dtype != Dtype::f32) require_dtype(kernel, "dx_NI", l.dx_NI, l.dy_NO.dtype);
  return {.b_transposed = l.w_is_IO,
          .m = N,
          .n = I,
          .k = O,
          .a = l.dy_NO,
          .b = l.w_OI,
          .bias = {},
          .c = l.dx_NI,
          .add = l.accumulate_dx};
}

// dw += dy^T x, or x^T dy where w is [I, O]
inline Product weight_gradient(const LinearGrad& l) {
  const char* const kernel = "linear_backward";
  const std::int64_t N = l.dy_NO.rows, O = l.dy_NO.cols, I = l.x_NI.cols;
  require_shape(kernel, "x_NI", l.x_NI, N, I);
  require_dtype(kernel, "x_NI", l.x_NI, l.dy_NO.dtype);
  require_dtype(kernel, "dw", l.dw_OI, Dtype::f32);
  require_shape(kernel, "dw", l.dw_OI, l.w_is_IO ? I : O, l.w_is_IO ? O : I);
  const View& left = l.w_is_IO ? l.x_NI : l.dy_NO;
  const View& right = l.w_is_IO ? l.dy_NO : l.x_NI;
  return {.a_transposed = true,
          .m = left.cols,
          .n = right.cols,
          .k = N,
          .a = left,
          .b = right,
          .bias = {},
          .c = l.dw_OI,
          .add = true};
}

inline void require_bias_gradient(const LinearGrad& l) {
  require_shape("linear_backward", "db_O", l.db_O, 1, l.dy_NO.cols);
  require_dtype("linear_backward", "db_O", l.db_O, Dtype::f32);
}

}  // namespace zt::kernels
