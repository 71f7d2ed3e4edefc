// The judge's tools: guarded buffers, plain fp64 references, stated bounds, finite differences, and the table
// that runs each kernel's checks on each backend.
//
// A row of the table is one function `void check_NAME(kernels::Kernels&)`, named after the method of Kernels
// it checks. It sweeps shapes and formats, lets the kernel compute on Guarded buffers, and compares with the
// fp64 loops of tests/reference/ computed on the *stored* (already rounded) inputs.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"
#include "tensor/view.h"

namespace zt::parity {

using Vec = std::vector<double>;  // a matrix, row after row

// A matrix with guard zones before it, behind it, and (with `gap` > 0) between its rows, so that its stride
// is cols + gap. Everything starts as one particular NaN: a kernel that reads outside its rows poisons its
// result, one that writes there damages the pattern, one that forgets an output leaves a NaN.
class Guarded {
 public:
  Guarded() = default;  // an absent view
  Guarded(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap = 0);

  View view() const;
  operator View() const { return view(); }
  std::int64_t size() const { return rows_ * cols_; }

  // Setting rounds to the format, so values() are what the kernel sees.
  double get(std::int64_t row, std::int64_t col) const;
  void set(std::int64_t row, std::int64_t col, double value);
  Vec values() const;
  Guarded& assign(const Vec& values);
  Guarded& fill(double value);
  Guarded& fill_normal(std::uint64_t seed, double scale = 1.0, double mean = 0.0);
  Guarded& fill_ids(std::uint64_t seed, std::int64_t limit);  // uniform integers in [0, limit)

  // "" while every guard element is intact, else which one is not.
  std::string damage() const;

 private:
  char* at(std::int64_t row, std::int64_t col) const;
  Dtype dtype_ = Dtype::f32;
  std::int64_t rows_ = 0, cols_ = 0, stride_ = 0;
  mutable std::vector<char> bytes_;
};

// How far a result may be from the exact value e:
//
//   unit(out) |e|  +  steps 2^-24 (|e| + size)
//
// The first term is the one rounding to the output's format (unit = 2^-24 f32, 2^-8 bf16, 2^-11 f16; below the
// format's normal numbers half their spacing, for f16 2^-25). The
// second is the error of the fp32 arithmetic: `steps` roundings, each relative to values of magnitude up to
// |e| + size. For a sum of K terms computed in any order, steps <= K and size = the sum of the |terms|;
// vectorised and chunked sums need far fewer. `why` says where the two numbers come from.
struct Bound {
  Dtype out;
  double steps;
  double size;
  const char* why;
};

double unit_of(Dtype dtype);

// Roundings a term meets in a vectorised sum of `terms` terms on the narrowest vectors, of 4 lanes.
inline double sum_steps(std::int64_t terms) { return 4 + double(terms) / 4; }

// "" when each value is within the bound, else the worst one: index, both values, distance in the output's
// ULP, the allowance and its reason. NaN agrees only with NaN, infinity only with itself.
std::string differs(const Vec& actual, const Vec& expected, const Bound& bound);

// CHECKs that the values are close and the guards intact.
void check_close(const char* name, const Guarded& actual, const Vec& expected, const Bound& bound);
// CHECKs that a buffer holds exactly these values and its guards are intact (inputs, exact kernels).
void check_equal(const char* name, const Guarded& actual, const Vec& expected);

// d f / d x_i by central differences; error about step^2 f''' / 6 + 1e-16 f / step.
Vec finite_differences(const std::function<double(const Vec&)>& f, const Vec& x, double step = 1e-5);

double dot(const Vec& a, const Vec& b);
double largest(const Vec& a);  // max |a_i|

// Lengths around the widths of vectors (4, 8, 16, 32) and of row chunks (64, 256).
const std::vector<std::int64_t>& ragged();
// What activations are stored in.
const std::vector<Dtype>& formats();

// Runs `work` with this many OpenMP threads, then restores the number. Without OpenMP it just runs.
void with_threads(int threads, const std::function<void()>& work);

struct Backend {
  const char* name;
  std::unique_ptr<kernels::Kernels> (*make)();
};
const std::vector<Backend>& backends();

// The rows, one for each method of Kernels; defined in tests/parity/*_test.cpp, listed in table_test.cpp.
void check_linear(kernels::Kernels&);
void check_linear_backward(kernels::Kernels&);
void check_rms_norm(kernels::Kernels&);
void check_rms_norm_backward(kernels::Kernels&);
void check_layer_norm(kernels::Kernels&);
void check_layer_norm_backward(kernels::Kernels&);
void check_rope(kernels::Kernels&);
void check_attention(kernels::Kernels&);
void check_attention_backward(kernels::Kernels&);
void check_attention_decode(kernels::Kernels&);
void check_gelu(kernels::Kernels&);
void check_gelu_backward(kernels::Kernels&);
void check_swiglu(kernels::Kernels&);
void check_swiglu_backward(kernels::Kernels&);
void check_embedding(kernels::Kernels&);
void check_embedding_backward(kernels::Kernels&);
void check_dropout(kernels::Kernels&);
void check_cross_entropy_head(kernels::Kernels&);
void check_adamw(kernels::Kernels&);
void check_sum_squares(kernels::Kernels&);
void check_cast(kernels::Kernels&);
void check_add(kernels::Kernels&);

}  // namespace zt::parity
