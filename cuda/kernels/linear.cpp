// Matrix products by cuBLASLt. See linear.h for the contract.
//
// cuBLASLt's matrices are column-major: a row-major [rows, cols] matrix of stride s is, for it, [cols, rows] with
// leading dimension s. So c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T, with b as the left operand.
#include "kernels/linear.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "device/stream.h"
#include "kernels/bias.h"
#include "kernels/cuda_kernels.h"
#include "kernels/linear_products.h"
#include "kernels/loops.h"

namespace zt::kernels {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(Blame::machine, cat("cuBLASLt: ", what, ": ", cublasLtGetStatusString(status)));
}

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return CUDA_R_32F;
    case Dtype::bf16: return CUDA_R_16BF;
    case Dtype::f16: return CUDA_R_16F;
    case Dtype::i32: break;
  }
  fail_contract("linear", cat("no products of ", name(dtype)));
}

// The largest power of two up to 256 that divides the address.
std::uint32_t alignment(const View& v) {
  const auto address = reinterpret_cast<std::uintptr_t>(v.data);
  return std::uint32_t(std::min<std::uintptr_t>(256, address == 0 ? 256 : address & -address));
}

// A cuBLASLt object, destroyed with its owner.
template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  explicit Owned(Handle handle) : handle_(handle) {}
  ~Owned() {
    if (handle_ != nullptr) (void)kDestroy(handle_);
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_;
};
using Handle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Handle make_handle() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "create");
  return Handle(handle);
}

template <typename Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "set operation");
}
template <typename Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "set preference");
}

// Sums in fp32; products of fp32 numbers are fp32, not TF32.
Operation make_operation(const Product& p) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F), "make operation");
  Operation operation(raw);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.bias.dtype));
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p.bias.data));
  }
  return operation;
}

Layout make_layout(const View& v) {
  cublasLtMatrixLayout_t raw = nullptr;
  // One row may have any stride; a leading dimension must not be below the column's length.
  const std::int64_t leading = v.rows > 1 ? v.stride : v.cols;
  check(cublasLtMatrixLayoutCreate(&raw, type_of(v.dtype), std::uint64_t(v.cols), std::uint64_t(v.rows),
                                   leading),
        "make layout");
  return Layout(raw);
}

Preference make_preference(const Product& p, std::int64_t workspace_bytes) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "make preference");
  Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(workspace_bytes));
  // Partial sums of a product that is split along k stay in fp32, and none are added by atomics in an order of their own.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::min(alignment(p.c), alignment(p.bias)));
  return preference;
}

// What an algorithm is chosen by. Of the bias the library looks at the address alone, for its alignment.
using Key =
    std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
               Dtype, Dtype, bool, bool, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

Key key_of(const Product& p) {
  return {p.a_transposed, p.b_transposed,   p.m,       p.n,          p.k,   p.a.stride,     p.b.stride,
          p.c.stride,     p.a.dtype,        p.c.dtype, bool(p.bias), p.add, alignment(p.a), alignment(p.b),
          alignment(p.c), alignment(p.bias)};
}

}  // namespace

// The library's heuristic is asked once for each shape; its answer is kept, so that a shape has one algorithm and the
// same bits throughout a run.
struct CudaKernels::Products {
  struct Entry {
    Operation operation;
    Layout a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    std::mutex mutex;  // the operation names the bias
  };

  void multiply(Product p, const CudaScratch& scratch) {
    if (p.m == 0 || p.n == 0) return;
    if (p.k == 0) fail_contract("linear", "a product without terms");
    // The epilogue takes a bias of the output's format only.
    const View late_bias = p.bias && p.bias.dtype != p.c.dtype ? p.bias : View();
    if (late_bias) p.bias = View();
    Entry& entry = find(p, scratch.bytes);
    const std::lock_guard lock(entry.mutex);
    if (p.bias)
      set(entry.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p.bias.data));
    const float alpha = 1.f, beta = p.add ? 1.f : 0.f;
    check(cublasLtMatmul(handle, entry.operation, &alpha, p.b.data, entry.a, p.a.data, entry.b, &beta,
                         p.c.data, entry.c, p.c.data, entry.c, &entry.algorithm, scratch.data,
                         std::size_t(scratch.bytes), cuda::current_stream()),
          "matmul");
    if (late_bias) add_bias(late_bias, p.c);
  }

  Entry& find(const Product& p, std::int64_t workspace_bytes) {
    const std::lock_guard lock(mutex);
    const Key key = key_of(p);
    auto it = entries.find(key);
    if (it == entries.end()) it = entries.emplace(key, make(p, workspace_bytes)).first;
    return *it->second;
  }

  std::unique_ptr<Entry> make(const Product& p, std::int64_t workspace_bytes) {
    auto entry = std::unique_ptr<Entry>(
        new Entry{make_operation(p), make_layout(p.b), make_layout(p.a), make_layout(p.c), {}, {}});
    const Preference preference = make_preference(p, workspace_bytes);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, entry->operation, entry->a, entry->b, entry->c, entry->c, preference, 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw Error(Blame::bug, cat("cuBLASLt has no algorithm for a product of ", p.m, " x ", p.k, " and ",
                                  p.k, " x ", p.n, " numbers of ", name(p.a.dtype), " to ", name(p.c.dtype),
                                  ": ", cublasLtGetStatusString(status)));
    entry->algorithm = result.algo;
    return entry;
  }

  Handle handle = make_handle();
  std::mutex mutex;
  std::map<Key, std::unique_ptr<Entry>> entries;
};

std::shared_ptr<CudaKernels::Products> CudaKernels::make_products() { return std::make_shared<Products>(); }

void CudaKernels::linear(const Linear& l) { products_->multiply(product_of(l), scratch()); }

void CudaKernels::linear_backward(const LinearGrad& l) {
  require_product_dtype("linear_backward", l.dy_NO);
  if (l.dx_NI) products_->multiply(input_gradient(l), scratch());
  if (l.dw_OI && l.dy_NO.rows > 0) products_->multiply(weight_gradient(l), scratch());
  if (l.db_O) {
    require_bias_gradient(l);
    add_column_sums(l.dy_NO, l.db_O, scratch());
  }
}

}  // namespace zt::kernels
