// fp32 products go through dnnl_sgemm, bf16 ones through oneDNN's matmul primitive. f16 ones (oneDNN 2 has none
// on a CPU), and bf16 ones where the processor has none, are made of tiles widened to fp32. See linear.h for the
// contract.
#include "kernels/linear.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>

#include "kernels/cpu_kernels.h"
#include "kernels/cpu_math.h"
#include "kernels/linear_products.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

// The rows of `from` in fp32, one behind the other.
template <typename T>
void widen_rows(const View& from, float* to) {
  const std::int64_t cols = from.cols;
  const T* const data = from.as<const T>();
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < from.rows; ++r) {
    const T* row = data + r * from.stride;
    for (std::int64_t i = 0; i < cols; i += kLanes)
      store_some(to + r * cols + i, load_some(row + i, int(std::min<std::int64_t>(kLanes, cols - i))),
                 int(std::min<std::int64_t>(kLanes, cols - i)));
  }
}

View widened(const View& from, float* to) {
  with_type(from.dtype, "linear", [&](auto type) { widen_rows<decltype(type)>(from, to); });
  return {to, from.rows, from.cols};
}

// Each row of c becomes bias, or gets bias added.
void put_bias(const View& c, const float* bias, bool add) {
  float* const data = c.as<float>();
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < c.rows; ++r) {
    float* row = data + r * c.stride;
    if (!add) {
      std::memcpy(row, bias, sizeof(float) * std::size_t(c.cols));
    } else {
      for (std::int64_t i = 0; i < c.cols; ++i) row[i] += bias[i];
    }
  }
}

void sgemm(const Product& p) {
  if (p.bias) put_bias(p.c, p.bias.as<const float>(), p.add);
  const float beta = p.add || p.bias ? 1.f : 0.f;
  const auto status = dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1.f,
                                 p.a.as<const float>(), std::max<std::int64_t>(1, p.a.stride),
                                 p.b.as<const float>(), std::max<std::int64_t>(1, p.b.stride), beta,
                                 p.c.as<float>(), std::max<std::int64_t>(1, p.c.stride));
  if (status != dnnl_success)
    fail_contract("linear", cat("dnnl_sgemm refused a ", p.m, " x ", p.n, " x ", p.k, " product, status ",
                                int(status)));
}

// y (+)= wide, rounded once.
template <typename T>
void round_rows(const float* wide, const View& y, bool add) {
  const std::int64_t cols = y.cols;
  T* const data = y.as<T>();
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t i = 0; i < cols; i += kLanes) {
      const int count = int(std::min<std::int64_t>(kLanes, cols - i));
      Floats sum = load_some(wide + r * cols + i, count);
      if (add) sum += load_some(data + r * y.stride + i, count);
      store_some(data + r * y.stride + i, sum, count);
    }
  }
}

// Tiles of products whose operands are widened: 9 MiB of scratch, whatever the product. A tile of a is widened
// once for each kTileN columns of c, which costs a few hundredths of the product itself.
constexpr std::int64_t kTileM = 512, kTileN = 512, kTileK = 2048;
constexpr std::size_t kTileFloats = kTileM * kTileK + kTileK * kTileN + kTileM * kTileN + kTileN;

// Rows [row, row + rows) and columns [col, col + cols) of op(x), as x stores them.
View tile(const View& x, bool transposed, std::int64_t row, std::int64_t rows, std::int64_t col,
          std::int64_t cols) {
  return transposed ? x.slice(col, cols).columns(row, rows) : x.slice(row, rows).columns(col, cols);
}

dnnl::memory::data_type dnnl_type(Dtype d) {
  return d == Dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t cols, std::int64_t stride, bool transposed,
                          Dtype dtype) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {dnnl::memory::dims{rows, cols}, dnnl_type(dtype), strides};
}

bool is_fast(const dnnl::matmul::primitive_desc& desc) {
  return bool(desc) && std::strncmp(desc.impl_info_str(), "ref", 3) != 0;
}

// Whether oneDNN has a fast bf16 product on this processor, asked once of an ordinary shape.
bool multiplies_bf16() {
  static const bool does = [] {
    const auto square = matrix(64, 64, 64, false, Dtype::bf16);
    return is_fast({dnnl::matmul::desc(square, square, square), dnnl::engine(dnnl::engine::kind::cpu, 0),
                    /*allow_empty=*/true});
  }();
  return does;
}

constexpr std::int64_t kColumnsAtOnce = 256, kRowsAtOnce = 64;

// db += column sums of dy, in partial sums of 64 rows: each column is summed by one thread in one order.
template <typename T>
void add_column_sums(const View& dy, float* db) {
  const T* const data = dy.as<const T>();
#pragma omp parallel for schedule(static)
  for (std::int64_t first = 0; first < dy.cols; first += kColumnsAtOnce) {
    const std::int64_t count = std::min(kColumnsAtOnce, dy.cols - first);
    float total[kColumnsAtOnce] = {};
    for (std::int64_t row = 0; row < dy.rows; row += kRowsAtOnce) {
      float part[kColumnsAtOnce] = {};
      for (std::int64_t r = row; r < std::min(dy.rows, row + kRowsAtOnce); ++r)
        for (std::int64_t i = 0; i < count; ++i) part[i] += float(data[r * dy.stride + first + i]);
      for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
    }
    for (std::int64_t i = 0; i < count; ++i) db[first + i] += total[i];
  }
}

}  // namespace

// Primitives are made when a shape is first seen. They remember the number of threads, so that is in the key.
struct CpuKernels::MatmulCache {
  struct Entry {
    bool native = false;  // false: this processor (or oneDNN on it) has no fast product of that kind
    dnnl::matmul primitive;
    dnnl::matmul::primitive_desc desc;
  };
  using Key = std::array<std::int64_t, 12>;
  static constexpr std::size_t kMostEntries = 1024;  // a run has a few dozen; odd callers must not grow it

  explicit MatmulCache(Dtype dtype) { widened_.floats(std::size_t(tile_bytes(dtype)) / sizeof(float)); }

  std::int64_t tile_bytes_held() const { return std::int64_t(widened_.bytes()); }

  void multiply(const Product& p) {
    if (p.m == 0 || p.n == 0 || (p.k == 0 && p.add)) return;
    if (p.k == 0) fail_contract("linear", "no input features");
    if (p.a.dtype == Dtype::f32) return sgemm(p);
    if (p.a.dtype == Dtype::f16) return multiply_widened(p);
    Entry& entry = find(p);
    if (entry.native) {
      execute(entry, p);
    } else {
      multiply_widened(p);
    }
  }

 private:
  Entry& find(const Product& p) {
    const Key key{p.a_transposed, p.b_transposed, p.m,          p.n,   p.k,          p.a.stride, p.b.stride,
                  p.c.stride,     int(p.c.dtype), bool(p.bias), p.add, max_threads()};
    if (const auto found = entries_.find(key); found != entries_.end()) return found->second;
    if (entries_.size() >= kMostEntries) entries_.clear();
    return entries_.emplace(key, make(p)).first->second;
  }

  Entry make(const Product& p) {
    Entry entry;
    const auto a = matrix(p.m, p.k, p.a.stride, p.a_transposed, p.a.dtype);
    const auto b = matrix(p.k, p.n, p.b.stride, p.b_transposed, p.b.dtype);
    const auto c = matrix(p.m, p.n, p.c.stride, false, p.c.dtype);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.f);
      attr.set_post_ops(sum);
    }
    const auto bias = matrix(1, p.n, p.n, false, Dtype::bf16);
    const auto op = p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    entry.desc = dnnl::matmul::primitive_desc(op, attr, engine_, /*allow_empty=*/true);
    entry.native = is_fast(entry.desc);
    if (!entry.native) return entry;
    entry.primitive = dnnl::matmul(entry.desc);
    scratchpad_.floats((entry.desc.scratchpad_desc().get_size() + 3) / 4);
    return entry;
  }

  void execute(Entry& entry, const Product& p) {
    std::unordered_map<int, dnnl::memory> args{
        {DNNL_ARG_SRC, {entry.desc.src_desc(), engine_, p.a.data}},
        {DNNL_ARG_WEIGHTS, {entry.desc.weights_desc(), engine_, p.b.data}},
        {DNNL_ARG_DST, {entry.desc.dst_desc(), engine_, p.c.data}},
        {DNNL_ARG_SCRATCHPAD, {entry.desc.scratchpad_desc(), engine_, scratchpad_.floats(0)}}};
    if (p.bias) args.insert({DNNL_ARG_BIAS, {entry.desc.bias_desc(), engine_, p.bias.data}});
    entry.primitive.execute(stream_, args);
    stream_.wait();
  }

  void multiply_widened(const Product& p) {
    for (std::int64_t n = 0; n < p.n; n += kTileN)
      for (std::int64_t m = 0; m < p.m; m += kTileM)
        multiply_tile(p, m, std::min(kTileM, p.m - m), n, std::min(kTileN, p.n - n));
  }

  // Rows [m, m + rows) and columns [n, n + cols) of c, the sum over k in fp32 and rounded once at its end.
  void multiply_tile(const Product& p, std::int64_t m, std::int64_t rows, std::int64_t n, std::int64_t cols) {
    float* const a = widened_.floats(kTileFloats);
    float *const b = a + kTileM * kTileK, *const sums = b + kTileK * kTileN,
                 *const bias = sums + kTileM * kTileN;
    const View c = tile(p.c, false, m, rows, n, cols);
    const bool narrow = c.dtype != Dtype::f32;
    Product part{.a_transposed = p.a_transposed, .b_transposed = p.b_transposed, .m = rows, .n = cols};
    part.c = narrow ? View(sums, rows, cols) : c;
    part.add = p.add && !narrow;
    if (p.bias) part.bias = widened(p.bias.columns(n, cols), bias);
    for (std::int64_t k = 0; k < p.k; k += kTileK) {
      part.k = std::min(kTileK, p.k - k);
      part.a = widened(tile(p.a, p.a_transposed, m, rows, k, part.k), a);
      part.b = widened(tile(p.b, p.b_transposed, k, part.k, n, cols), b);
      sgemm(part);
      part.add = true;
      part.bias = {};
    }
    if (narrow) with_type(c.dtype, "linear", [&](auto type) { round_rows<decltype(type)>(sums, c, p.add); });
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, Entry> entries_;
  Scratch scratchpad_, widened_;
};

std::shared_ptr<CpuKernels::MatmulCache> CpuKernels::make_matmul_cache(Dtype dtype) {
  return std::make_shared<MatmulCache>(dtype);
}

std::int64_t CpuKernels::held_bytes() const { return matmuls_->tile_bytes_held(); }

std::int64_t tile_bytes(Dtype dtype) {
  const bool widened = dtype == Dtype::f16 || (dtype == Dtype::bf16 && !multiplies_bf16());
  return widened ? std::int64_t(kTileFloats * sizeof(float)) : 0;
}

void CpuKernels::linear(const Linear& l) { matmuls_->multiply(product_of(l)); }

void CpuKernels::linear_backward(const LinearGrad& l) {
  require_product_dtype("linear_backward", l.dy_NO);
  if (l.dx_NI) matmuls_->multiply(input_gradient(l));
  if (l.dw_OI) matmuls_->multiply(weight_gradient(l));
  if (l.db_O) {
    require_bias_gradient(l);
    with_type(l.dy_NO.dtype, "linear_backward",
              [&](auto type) { add_column_sums<decltype(type)>(l.dy_NO, l.db_O.as<float>()); });
  }
}

}  // namespace zt::kernels
