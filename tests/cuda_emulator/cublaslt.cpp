// Stand-in for libcublasLt: a plain product in fp32 with the same descriptors.
//
// It knows the attributes, types and epilogues that the backend uses and stops at any other, because nothing else says
// whether the real library takes them. It is as unkind as the real one may be: the whole workspace is overwritten, an
// algorithm works only for the problem and the alignment it was chosen for, and C is not read when beta is 0.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "cuda_emulator/cudart.h"
#include "cuda_emulator/findings.h"

using namespace zt::emulator;
using zt::cat;

namespace {

struct Operation {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = static_cast<cudaDataType_t>(-1);  // D's unless set
};

// Column-major.
struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;
};

struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::array<std::uint32_t, 4> alignment{256, 256, 256, 256};  // A, B, C, D
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;   // products here are never split
};

// What an algorithm remembers of what it was chosen for; it lives in cublasLtMatmulAlgo_t's opaque words.
struct Choice {
  std::uint64_t mark, problem, workspace_bytes;
  std::array<std::uint32_t, 4> alignment;
  std::uint32_t bias_alignment;  // of the bias that was named then
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t::data));
constexpr std::uint64_t kMark = 0x7a74676d6d000001U;

struct Problem {
  Operation operation;
  Layout a, b, c, d;
  std::uint64_t m() const { return operation.a == CUBLAS_OP_N ? a.rows : a.columns; }
  std::uint64_t k() const { return operation.a == CUBLAS_OP_N ? a.columns : a.rows; }
  std::uint64_t n() const { return operation.b == CUBLAS_OP_N ? b.columns : b.rows; }
  std::uint64_t k_of_b() const { return operation.b == CUBLAS_OP_N ? b.rows : b.columns; }
  bool with_bias() const {
    return operation.epilogue == CUBLASLT_EPILOGUE_BIAS || operation.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
  }
  cudaDataType_t bias_type() const {
    return static_cast<int>(operation.bias_type) == -1 ? d.type : operation.bias_type;
  }
};

template <typename T, typename Handle>
T& of(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

[[noreturn]] void unknown(const char* what, int value) {
  stop(cat("cublasLt ", what, " ", value, " is not known here"), CallStack::here().text());
}

template <typename T>
void take(T* to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T))
    stop(cat("a cublasLt attribute of ", sizeof(T), " bytes is given ", bytes), CallStack::here().text());
  std::memcpy(to, value, bytes);
}

bool known(cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F; }
std::size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

float load(const char* p, cudaDataType_t type, std::size_t i) {
  if (type == CUDA_R_32F) return reinterpret_cast<const float*>(p)[i];
  if (type == CUDA_R_16BF) return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(p)[i]);
  return __half2float(reinterpret_cast<const __half*>(p)[i]);
}

void store(char* p, cudaDataType_t type, std::size_t i, float value) {
  if (type == CUDA_R_32F)
    reinterpret_cast<float*>(p)[i] = value;
  else if (type == CUDA_R_16BF)
    reinterpret_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(value);
  else
    reinterpret_cast<__half*>(p)[i] = __float2half_rn(value);
}

// Empty if the library would take it.
std::string what_does_not_fit(const Problem& p) {
  const auto shape = [](const Layout& l) { return cat(l.rows, "x", l.columns); };
  if (p.k() != p.k_of_b() || p.d.rows != p.m() || p.d.columns != p.n() || p.c.rows != p.m() ||
      p.c.columns != p.n())
    return cat("shapes ", shape(p.a), p.operation.a == CUBLAS_OP_N ? "" : "^T", " times ", shape(p.b),
               p.operation.b == CUBLAS_OP_N ? "" : "^T", " plus ", shape(p.c), " to ", shape(p.d));
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d})
    if (l->leading < static_cast<std::int64_t>(l->rows))
      return cat("a leading dimension of ", l->leading, " below ", l->rows, " rows");
  for (const Layout* l : {&p.b, &p.c, &p.d})
    if (l->batch != p.a.batch) return "batches of different counts";
  if (p.a.type != p.b.type || p.c.type != p.d.type || (p.d.type != p.a.type && p.d.type != CUDA_R_32F))
    return cat("types ", p.a.type, " times ", p.b.type, " plus ", p.c.type, " to ", p.d.type);
  if (p.with_bias() && p.bias_type() != p.d.type) return "a bias of another type than the result";
  return "";
}

std::uint64_t hash_of(const Problem& p) {
  std::uint64_t hash = 1469598103934665603U;  // FNV-1a over words
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 1099511628211U; };
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d}) {
    add(l->type);
    add(l->rows);
    add(l->columns);
    add(static_cast<std::uint64_t>(l->leading));
    add(static_cast<std::uint64_t>(l->batch));
  }
  add(p.operation.a);
  add(p.operation.b);
  add(p.operation.epilogue);
  return hash;
}

bool touch_matrix(const char* p, const Layout& l, bool (*touch)(const void*, std::size_t)) {
  const std::size_t size = size_of(l.type);
  if (l.leading == static_cast<std::int64_t>(l.rows)) return touch(p, l.rows * l.columns * size);
  bool all = true;
  for (std::uint64_t j = 0; j < l.columns; ++j) all = touch(p + j * l.leading * size, l.rows * size) && all;
  return all;
}

// op(x) as columns of floats: [columns of op(x)][rows of op(x)].
std::vector<float> unpack(const char* p, const Layout& l, cublasOperation_t operation) {
  std::vector<float> columns(l.rows * l.columns);
  for (std::uint64_t j = 0; j < l.columns; ++j)
    for (std::uint64_t i = 0; i < l.rows; ++i)
      columns[operation == CUBLAS_OP_N ? j * l.rows + i : i * l.columns + j] =
          load(p, l.type, j * l.leading + i);
  return columns;
}

// The library's GELU is the tanh form.
float gelu(float x) { return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x))); }

struct Call {
  Problem p;
  float alpha, beta;
  const char *a, *b, *c;
  char* d;
};

void multiply(const Call& call, std::int64_t batch) {
  const Problem& p = call.p;
  const auto at = [&](auto* base, const Layout& l) {
    return base + batch * l.batch_stride * static_cast<std::int64_t>(size_of(l.type));
  };
  const char *a = at(call.a, p.a), *b = at(call.b, p.b), *c = at(call.c, p.c);
  char* d = at(call.d, p.d);
  const cublasLtEpilogue_t epilogue = p.operation.epilogue;
  const bool with_bias = p.with_bias();
  const bool with_gelu = epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
  const std::uint64_t m = p.m(), n = p.n(), k = p.k();
  bool exists = touch_matrix(a, p.a, op_reads) && touch_matrix(b, p.b, op_reads);
  if (call.beta != 0) exists = touch_matrix(c, p.c, op_reads) && exists;
  if (with_bias) exists = op_reads(p.operation.bias, m * size_of(p.bias_type())) && exists;
  exists = touch_matrix(d, p.d, op_writes) && exists;
  if (!exists) return;
  const std::vector<float> a_KM = unpack(a, p.a, p.operation.a), b_NK = unpack(b, p.b, p.operation.b);
  std::vector<float> sum_M(m);
  for (std::uint64_t j = 0; j < n; ++j) {
    std::fill(sum_M.begin(), sum_M.end(), 0.F);
    for (std::uint64_t q = 0; q < k; ++q) {
      const float factor = b_NK[j * k + q];
      const float* column = &a_KM[q * m];
      for (std::uint64_t i = 0; i < m; ++i) sum_M[i] += column[i] * factor;
    }
    for (std::uint64_t i = 0; i < m; ++i) {
      float y = call.alpha * sum_M[i];
      if (call.beta != 0) y += call.beta * load(c, p.c.type, j * p.c.leading + i);
      if (with_bias) y += load(static_cast<const char*>(p.operation.bias), p.bias_type(), i);
      store(d, p.d.type, j * p.d.leading + i, with_gelu ? gelu(y) : y);
    }
  }
}

// The heuristic doesn't read the bias, but depends "on its value to determine expected pointer alignment" (cublasLt.h).
std::uint32_t bias_alignment(const Problem& p) {
  const auto address = p.with_bias() ? reinterpret_cast<std::uintptr_t>(p.operation.bias) : 0;
  return std::uint32_t(std::min<std::uintptr_t>(16, address == 0 ? 16 : address & -address));
}

Choice choose(const Problem& p, const Preference& preference) {
  const std::uint64_t hash = hash_of(p);
  const std::uint64_t wish = hash % 2 == 0 ? 0 : 4096;
  return {kMark, hash, std::min(wish, preference.workspace_bytes), preference.alignment, bias_alignment(p)};
}

cublasStatus_t refuse(const std::string& what) {
  report("cublasLt", what, CallStack::here().text());
  return CUBLAS_STATUS_INVALID_VALUE;
}

// What the program promised when it asked for the algorithm must hold now.
std::string broken_promise(const Choice& choice, const Call& call, const void* workspace, std::size_t bytes) {
  if (choice.mark != kMark) return "an algorithm that no heuristic gave";
  if (choice.problem != hash_of(call.p)) return "an algorithm that was chosen for another problem";
  if (bytes < choice.workspace_bytes || (workspace == nullptr && choice.workspace_bytes != 0))
    return cat("a workspace of ", bytes, " bytes, the algorithm was chosen with ", choice.workspace_bytes);
  const std::array<const void*, 4> operands{call.a, call.b, call.c, call.d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<std::uintptr_t>(operands[i]) % choice.alignment[i] != 0)
      return cat("operand ", "ABCD"[i], " at ", operands[i],
                 ", the algorithm was chosen for an alignment of ", choice.alignment[i], " bytes");
  if (bias_alignment(call.p) < choice.bias_alignment)
    return cat("a bias at ", call.p.operation.bias, ", the algorithm was chosen for one aligned to ",
               choice.bias_alignment, " bytes");
  return "";
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)
    unknown("compute type", compute);
  if (scale != CUDA_R_32F) unknown("scale type", scale);
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete &of<Operation>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  Operation& o = of<Operation>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: take(&o.a, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: take(&o.b, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE: take(&o.epilogue, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: take(&o.bias, value, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: take(&o.bias_type, value, bytes); break;
    default: unknown("operation attribute", attribute);
  }
  for (const cublasOperation_t one : {o.a, o.b})
    if (one != CUBLAS_OP_N && one != CUBLAS_OP_T) unknown("operation", one);
  switch (o.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS: return CUBLAS_STATUS_SUCCESS;
    default: unknown("epilogue", o.epilogue);
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  if (!known(type)) unknown("matrix type", type);
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete &of<Layout>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  Layout& l = of<Layout>(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: take(&l.batch, value, bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: take(&l.batch_stride, value, bytes); break;
    default: unknown("layout attribute", attribute);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete &of<Preference>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  Preference& p = of<Preference>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: take(&p.workspace_bytes, value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: take(&p.alignment[0], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: take(&p.alignment[1], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: take(&p.alignment[2], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: take(&p.alignment[3], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: take(&p.reductions, value, bytes); break;
    default: unknown("preference attribute", attribute);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const Problem p{of<Operation>(operation), of<Layout>(a), of<Layout>(b), of<Layout>(c), of<Layout>(d)};
  *found = 0;
  if (!what_does_not_fit(p).empty() || wanted < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Choice choice = choose(p, of<Preference>(preference));
  results[0] = {};
  std::memcpy(results[0].algo.data, &choice, sizeof choice);
  results[0].workspaceSize = choice.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t handle) {
  const Call call{{of<Operation>(operation), of<Layout>(a_layout), of<Layout>(b_layout), of<Layout>(c_layout),
                   of<Layout>(d_layout)},
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  static_cast<const char*>(a),
                  static_cast<const char*>(b),
                  static_cast<const char*>(c),
                  static_cast<char*>(d)};
  if (const std::string wrong = what_does_not_fit(call.p); !wrong.empty())
    return refuse("a product cannot be: " + wrong);
  Choice choice = choose(call.p, {workspace_bytes, {16, 16, 16, 16}});
  if (algorithm != nullptr) std::memcpy(&choice, algorithm->data, sizeof choice);
  if (const std::string broken = broken_promise(choice, call, workspace, workspace_bytes); !broken.empty())
    return refuse("a product is asked for with " + broken);
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return refuse("a workspace is not aligned to 256 bytes");
  Stream* stream = stream_of(handle);
  const std::string name = cat("product ", call.p.m(), "x", call.p.n(), "x", call.p.k());
  stream->device->enqueue(stream, name, [=] {
    for (std::int32_t i = 0; i < call.p.a.batch; ++i) multiply(call, i);
    if (workspace != nullptr && op_writes(workspace, workspace_bytes))
      std::memset(workspace, 0xff, workspace_bytes);
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}
}
