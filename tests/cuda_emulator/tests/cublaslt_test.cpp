// The stand-in for cuBLASLt: right products in every form the backend uses, and what it refuses.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "program.h"
#include "stops.h"

namespace zt::emulator {
namespace {

// d_MN = op(a) op(b) + beta c, then bias_M and GELU; column-major, the leading dimensions larger than they need be.
struct Form {
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  bool a_transposed = false, b_transposed = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float beta = 0;
  int m = 5, n = 7, k = 9, gap = 3;
};

std::size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

double get(const std::vector<char>& v, cudaDataType_t type, std::size_t i) {
  if (type == CUDA_R_32F) return double(reinterpret_cast<const float*>(v.data())[i]);
  if (type == CUDA_R_16BF)
    return double(__bfloat162float(reinterpret_cast<const __nv_bfloat16*>(v.data())[i]));
  return double(__half2float(reinterpret_cast<const __half*>(v.data())[i]));
}

void put(std::vector<char>* v, cudaDataType_t type, std::size_t i, float x) {
  if (type == CUDA_R_32F)
    reinterpret_cast<float*>(v->data())[i] = x;
  else if (type == CUDA_R_16BF)
    reinterpret_cast<__nv_bfloat16*>(v->data())[i] = __float2bfloat16_rn(x);
  else
    reinterpret_cast<__half*>(v->data())[i] = __float2half_rn(x);
}

struct Matrix {
  Matrix(int rows_, int columns_, int gap, cudaDataType_t type_, unsigned seed)
      : rows(rows_),
        columns(columns_),
        leading(rows_ + gap),
        type(type_),
        host(std::size_t(leading) * columns_ * size_of(type_)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < std::size_t(leading) * columns; ++i) put(&host, type, i, normal(random));
    device = device_memory<char>(host.size());
    ZT_DONE(cublasLtMatrixLayoutCreate(&layout, type, std::uint64_t(rows), std::uint64_t(columns), leading));
  }
  ~Matrix() {
    cublasLtMatrixLayoutDestroy(layout);
    cudaFree(device);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  double at(int i, int j) const { return get(host, type, std::size_t(j) * leading + i); }
  void upload(cudaStream_t s) const {
    ZT_DONE(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, s));
  }

  int rows, columns, leading;
  cudaDataType_t type;
  std::vector<char> host;
  char* device = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
};

template <typename T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute, T value) {
  ZT_DONE(cublasLtMatmulDescSetAttribute(d, attribute, &value, sizeof value));
}

struct Product {
  explicit Product(const Form& f_)
      : f(f_),
        a(f.a_transposed ? f.k : f.m, f.a_transposed ? f.m : f.k, f.gap, f.in, 1),
        b(f.b_transposed ? f.n : f.k, f.b_transposed ? f.k : f.n, f.gap, f.in, 2),
        d(f.m, f.n, f.gap, f.out, 3),
        bias(f.m, 1, 0, f.out, 4) {
    ZT_DONE(cublasLtCreate(&handle));
    ZT_DONE(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, f.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, f.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, f.epilogue);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.device));
    ZT_DONE(cublasLtMatmulPreferenceCreate(&preference));
    const std::uint64_t bytes = kWorkspace;
    ZT_DONE(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 8));
    for (const Matrix* m : {&a, &b, &d, &bias}) m->upload(stream);
    workspace = device_memory<char>(kWorkspace);
  }
  ~Product() {
    cudaDeviceSynchronize();
    cudaFree(workspace);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  cublasLtMatmulAlgo_t algorithm() {
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    ZT_DONE(cublasLtMatmulAlgoGetHeuristic(handle, operation, a.layout, b.layout, d.layout, d.layout,
                                           preference, 1, &result, &found));
    REQUIRE_EQ(found, 1);
    return result.algo;
  }

  cublasStatus_t multiply(const cublasLtMatmulAlgo_t& chosen, const char* left) {
    const float one = 1;
    return cublasLtMatmul(handle, operation, &one, left, a.layout, b.device, b.layout, &f.beta, d.device,
                          d.layout, d.device, d.layout, &chosen, workspace, kWorkspace, stream);
  }

  double right(int i, int j) const {
    double sum = f.beta * d.at(i, j);
    for (int q = 0; q < f.k; ++q)
      sum += (f.a_transposed ? a.at(q, i) : a.at(i, q)) * (f.b_transposed ? b.at(j, q) : b.at(q, j));
    if (f.epilogue == CUBLASLT_EPILOGUE_BIAS || f.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
      sum += bias.at(i, 0);
    if (f.epilogue == CUBLASLT_EPILOGUE_GELU || f.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
      sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
    return sum;
  }

  static constexpr std::size_t kWorkspace = 8192;
  Form f;
  cudaStream_t stream = new_stream();
  Matrix a, b, d, bias;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  char* workspace = nullptr;
};

TEST_CASE(
    "products are right in every type, transposition and epilogue, and touch no more than their matrices") {
  configure(1, Policy::random, Order::random);
  for (const auto& [in, out] : {std::pair{CUDA_R_32F, CUDA_R_32F},
                                {CUDA_R_16BF, CUDA_R_16BF},
                                {CUDA_R_16BF, CUDA_R_32F},
                                {CUDA_R_16F, CUDA_R_16F}}) {
    for (const int transposed : {0, 1, 2, 3}) {
      for (const cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                                CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
        for (const float beta : {0.F, 1.F}) {
          CAPTURE(int(in));
          CAPTURE(int(out));
          CAPTURE(transposed);
          CAPTURE(int(epilogue));
          CAPTURE(beta);
          Product p({in, out, transposed % 2 == 1, transposed / 2 == 1, epilogue, beta});
          ZT_DONE(p.multiply(p.algorithm(), p.a.device));
          std::vector<char> result(p.d.host.size());
          ZT_DONE(
              cudaMemcpyAsync(result.data(), p.d.device, result.size(), cudaMemcpyDeviceToHost, p.stream));
          const double tolerance = out == CUDA_R_32F ? 1e-5 : out == CUDA_R_16BF ? 1. / 256 : 1. / 2048;
          for (int j = 0; j < p.f.n; ++j)
            for (int i = 0; i < p.d.leading; ++i) {
              const double is = get(result, out, std::size_t(j) * p.d.leading + i);
              const double should = i < p.f.m ? p.right(i, j) : p.d.at(i, j);
              CHECK(std::abs(is - should) <= tolerance * (1 + std::abs(should)));
            }
        }
      }
    }
  }
  check_none(take_findings());
}

TEST_CASE("the whole workspace is overwritten") {
  configure(1, Policy::random, Order::random);
  Product p{Form{}};
  ZT_DONE(cudaMemsetAsync(p.workspace, 0, Product::kWorkspace, p.stream));
  ZT_DONE(p.multiply(p.algorithm(), p.a.device));
  std::vector<unsigned char> bytes(Product::kWorkspace);
  ZT_DONE(cudaMemcpyAsync(bytes.data(), p.workspace, bytes.size(), cudaMemcpyDeviceToHost, p.stream));
  for (const unsigned char byte : bytes) CHECK_EQ(byte, 0xff);
  check_none(take_findings());
}

TEST_CASE("an algorithm is refused for another problem, alignment or workspace than it was chosen for") {
  configure(1, Policy::random, Order::random);
  Product p{Form{}};
  cublasLtMatmulAlgo_t chosen = p.algorithm();
  SUBCASE("another problem") {
    Product other(Form{.n = 8});
    chosen = other.algorithm();
    CHECK_EQ(p.multiply(chosen, p.a.device), CUBLAS_STATUS_INVALID_VALUE);
  }
  SUBCASE("another alignment") { CHECK_EQ(p.multiply(chosen, p.a.device + 16), CUBLAS_STATUS_INVALID_VALUE); }
  SUBCASE("a bias of another alignment") {
    Product biased(Form{.epilogue = CUBLASLT_EPILOGUE_BIAS});
    chosen = biased.algorithm();
    set(biased.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(biased.bias.device + 4));
    CHECK_EQ(biased.multiply(chosen, biased.a.device), CUBLAS_STATUS_INVALID_VALUE);
  }
  SUBCASE("a workspace that starts anywhere") {
    p.workspace += 16;
    CHECK_EQ(p.multiply(chosen, p.a.device), CUBLAS_STATUS_INVALID_VALUE);
    p.workspace -= 16;
  }
  SUBCASE("no algorithm at all") { CHECK_EQ(p.multiply({}, p.a.device), CUBLAS_STATUS_INVALID_VALUE); }
  check_only(take_findings(), "cublasLt");
}

TEST_CASE("shapes that do not fit have no algorithm and are refused") {
  configure(1, Policy::random, Order::random);
  Product p{Form{}}, other(Form{.k = 10});
  cublasLtMatmulHeuristicResult_t result{};
  int found = 1;
  CHECK_EQ(cublasLtMatmulAlgoGetHeuristic(p.handle, p.operation, p.a.layout, other.b.layout, p.d.layout,
                                          p.d.layout, p.preference, 1, &result, &found),
           CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK_EQ(found, 0);
  const float one = 1;
  CHECK_EQ(cublasLtMatmul(p.handle, p.operation, &one, p.a.device, p.a.layout, other.b.device, other.b.layout,
                          &one, p.d.device, p.d.layout, p.d.device, p.d.layout, nullptr, p.workspace,
                          Product::kWorkspace, p.stream),
           CUBLAS_STATUS_INVALID_VALUE);
  check_only(take_findings(), "cublasLt");
}

TEST_CASE("what the stand-in does not know stops the program with file and line") {
  const auto unknown = [](const std::string& said, const std::string& what) {
    INFO(said);
    CHECK(said.find(what) != std::string::npos);
    CHECK(said.find("cublaslt_test.cpp:") != std::string::npos);
  };
  Product p{Form{}};
  const std::int32_t one = 1;
  unknown(stopped_with([&] {
            cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &one, sizeof one);
          }),
          "operation attribute");
  unknown(stopped_with([&] {
            const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DGELU;
            cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof epilogue);
          }),
          "epilogue");
  unknown(stopped_with([&] {
            cublasLtMatrixLayoutSetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &one, sizeof one);
          }),
          "layout attribute");
  unknown(stopped_with([] {
            cublasLtMatrixLayout_t layout = nullptr;
            cublasLtMatrixLayoutCreate(&layout, CUDA_R_8F_E4M3, 4, 4, 4);
          }),
          "matrix type");
  CHECK_EQ(stopped_with([] {}), "");
}

}  // namespace
}  // namespace zt::emulator
