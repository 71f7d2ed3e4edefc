#include "pipeline.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "program.h"

namespace zt::emulator {
namespace {

// L layers of D x D weights, N tokens.
constexpr int kL = 6, kD = 64, kN = 32;
constexpr std::size_t kWorkspace = 8192, kScratch = 4096;
constexpr double kNaN = 1e9;

using Number = __nv_bfloat16;

std::vector<Number> random_numbers(std::size_t count, unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<Number> all(count);
  for (Number& x : all) x = __float2bfloat16_rn(normal(random));
  return all;
}

std::vector<Number> weights_LDD() { return random_numbers(std::size_t{kL} * kD * kD, 42, 0.15F); }
std::vector<Number> input_ND() { return random_numbers(std::size_t{kN} * kD, 43, 1); }

// x_ND = x_ND W_DD of every layer, rounded after each.
std::vector<float> right_result() {
  const std::vector<Number> w = weights_LDD(), input = input_ND();
  std::vector<float> x(input.size()), y(input.size());
  std::transform(input.begin(), input.end(), x.begin(), [](Number v) { return __bfloat162float(v); });
  for (int l = 0; l < kL; ++l) {
    for (int n = 0; n < kN; ++n) {
      for (int i = 0; i < kD; ++i) {
        double sum = 0;
        for (int k = 0; k < kD; ++k)
          sum += double(__bfloat162float(w[(l * kD + k) * kD + i])) * x[n * kD + k];
        y[n * kD + i] = __bfloat162float(__float2bfloat16_rn(float(sum)));
      }
    }
    std::swap(x, y);
  }
  return x;
}

// Column-major for the library: y = W x with x and y of kN columns.
class Products {
 public:
  Products() {
    ZT_DONE(cublasLtCreate(&handle_));
    ZT_DONE(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    ZT_DONE(cublasLtMatrixLayoutCreate(&weights_, CUDA_R_16BF, kD, kD, kD));
    ZT_DONE(cublasLtMatrixLayoutCreate(&tokens_, CUDA_R_16BF, kD, kN, kD));
    cublasLtMatmulPreference_t preference = nullptr;
    ZT_DONE(cublasLtMatmulPreferenceCreate(&preference));
    const std::uint64_t bytes = kWorkspace;
    ZT_DONE(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 sizeof bytes));
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    ZT_DONE(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, weights_, tokens_, tokens_, tokens_,
                                           preference, 1, &result, &found));
    REQUIRE_EQ(found, 1);
    algorithm_ = result.algo;
    ZT_DONE(cublasLtMatmulPreferenceDestroy(preference));
  }
  ~Products() {
    cublasLtMatrixLayoutDestroy(tokens_);
    cublasLtMatrixLayoutDestroy(weights_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtDestroy(handle_);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void multiply(const Number* w, const Number* x, Number* y, void* workspace, cudaStream_t stream) {
    const float one = 1, zero = 0;
    ZT_DONE(cublasLtMatmul(handle_, operation_, &one, w, weights_, x, tokens_, &zero, y, tokens_, y, tokens_,
                           &algorithm_, workspace, kWorkspace, stream));
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr, tokens_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

class Pipeline {
 public:
  Pipeline(int rank, int ranks, const ncclUniqueId& id, Bug bug)
      : rank_(rank), bug_(bug), shard_(std::size_t{kD} * kD / ranks) {
    ZT_DONE(ncclCommInitRank(&comm_, ranks, id, rank));
    for (cudaEvent_t& e : ready_) e = new_event();
    for (cudaEvent_t& e : free_) e = new_event();
    load();
  }

  ~Pipeline() {
    cudaDeviceSynchronize();
    ncclCommDestroy(comm_);
    for (void* p :
         std::initializer_list<void*>{shards_, full_[0], full_[1], x_, y_, other_, workspace_, loss_})
      cudaFree(p);
    for (void* p : {pinned_in_, pinned_out_}) cudaFreeHost(p);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  std::vector<float> run() {
    gather(0);
    for (int l = 0; l < kL; ++l) {
      const bool swapped = l == 3 && bug_ == Bug::swapped_collectives && rank_ == 1;
      if (l == 3 && swapped) sum_loss();
      if (l + 1 < kL) gather(l + 1);
      if (l == 3 && !swapped) sum_loss();
      compute(l);
    }
    return result();
  }

 private:
  void load() {
    const std::vector<Number> w = weights_LDD(), input = input_ND();
    std::vector<Number> mine;
    for (int l = 0; l < kL; ++l) {
      const auto begin = w.begin() + std::ptrdiff_t(l) * kD * kD + std::ptrdiff_t(rank_ * shard_);
      mine.insert(mine.end(), begin, begin + std::ptrdiff_t(shard_));
    }
    ZT_DONE(cudaMemcpyAsync(shards_, mine.data(), mine.size() * 2, cudaMemcpyHostToDevice, gathering_));
    ZT_DONE(cudaMemsetAsync(loss_, 0, 64, gathering_));
    ZT_DONE(cudaMemsetAsync(other_, 0, kN * kD * 2, gathering_));
    std::memcpy(static_cast<void*>(pinned_in_), input.data(), kN * kD * 2);
    ZT_DONE(cudaMemcpyAsync(x_, pinned_in_, kN * kD * 2, cudaMemcpyHostToDevice, computing_));
    if (bug_ == Bug::pinned_refilled) std::memset(static_cast<void*>(pinned_in_), 0, kN * kD * 2);
  }

  void gather(int l) {
    if (l >= 2 && bug_ != Bug::gather_before_last_use)
      ZT_DONE(cudaStreamWaitEvent(gathering_, free_[l % 2], 0));
    const bool few = bug_ == Bug::short_count && rank_ == 1 && l == 3;
    ZT_DONE(ncclAllGather(shards_ + l * shard_, full_[l % 2], few ? shard_ / 2 : shard_, ncclBfloat16, comm_,
                          gathering_));
    ZT_DONE(cudaEventRecord(ready_[l % 2], gathering_));
  }

  void sum_loss() { ZT_DONE(ncclAllReduce(loss_, loss_, 16, ncclFloat32, ncclSum, comm_, gathering_)); }

  void compute(int l) {
    if (bug_ != Bug::compute_before_gather || l != 4)
      ZT_DONE(cudaStreamWaitEvent(computing_, ready_[l % 2], 0));
    void* scratch = nullptr;
    ZT_DONE(cudaMallocAsync(&scratch, kScratch, computing_));
    ZT_DONE(cudaMemsetAsync(scratch, 0, kScratch, computing_));
    products_.multiply(full_[l % 2], x_, y_, workspace_, computing_);
    std::swap(x_, y_);
    if (bug_ == Bug::shared_workspace && l == 2)
      products_.multiply(shards_, other_, other_ + std::size_t{kN} * kD, workspace_, gathering_);
    ZT_DONE(cudaMemsetAsync(scratch, 1, kScratch, computing_));
    ZT_DONE(cudaFreeAsync(scratch, bug_ == Bug::free_on_wrong_stream ? gathering_ : computing_));
    ZT_DONE(cudaEventRecord(free_[l % 2], computing_));
  }

  std::vector<float> result() {
    const cudaEvent_t done = new_event();
    ZT_DONE(cudaMemcpyAsync(pinned_out_, x_, kN * kD * 2, cudaMemcpyDeviceToHost, computing_));
    ZT_DONE(cudaEventRecord(done, computing_));
    if (bug_ != Bug::result_read_early) ZT_DONE(cudaEventSynchronize(done));
    std::vector<Number> read(std::size_t{kN} * kD);
    std::memcpy(static_cast<void*>(read.data()), pinned_out_, read.size() * 2);
    std::vector<float> all(read.size());
    std::transform(read.begin(), read.end(), all.begin(), [](Number v) { return __bfloat162float(v); });
    return all;
  }

  int rank_;
  Bug bug_;
  std::size_t shard_;  // numbers of a layer that this rank holds
  cudaStream_t computing_ = new_stream(), gathering_ = new_stream();
  ncclComm_t comm_ = nullptr;
  Products products_;
  std::array<cudaEvent_t, 2> ready_{}, free_{};
  Number* shards_ = device_memory<Number>(kL * shard_);
  std::array<Number*, 2> full_{device_memory<Number>(std::size_t{kD} * kD),
                               device_memory<Number>(std::size_t{kD} * kD)};
  Number* x_ = device_memory<Number>(std::size_t{kN} * kD);
  Number* y_ = device_memory<Number>(std::size_t{kN} * kD);
  Number* other_ = device_memory<Number>(std::size_t{2} * kN * kD);
  void* workspace_ = device_memory<char>(kWorkspace);
  float* loss_ = device_memory<float>(16);
  Number* pinned_in_ = pinned_memory<Number>(std::size_t{kN} * kD);
  Number* pinned_out_ = pinned_memory<Number>(std::size_t{kN} * kD);
};

}  // namespace

std::string name(Bug bug) {
  switch (bug) {
    case Bug::none: return "none";
    case Bug::compute_before_gather: return "a layer does not wait for its gather";
    case Bug::gather_before_last_use: return "a gather does not wait for its buffer's last use";
    case Bug::free_on_wrong_stream: return "memory is freed on the wrong stream";
    case Bug::pinned_refilled: return "a pinned buffer is refilled before its copy ran";
    case Bug::result_read_early: return "the result is read before its event";
    case Bug::shared_workspace: return "products on two streams share a workspace";
    case Bug::swapped_collectives: return "two ranks make collectives in different order";
    case Bug::short_count: return "one rank gathers fewer elements";
  }
  return "";
}

std::vector<std::string> kinds(Bug bug) {
  switch (bug) {
    case Bug::none: return {};
    case Bug::free_on_wrong_stream: return {"free before last use", "use after free"};
    case Bug::swapped_collectives:
    case Bug::short_count: return {"collective mismatch"};
    default: return {"stream race"};
  }
}

double run_pipeline(int rank, int ranks, const ncclUniqueId& id, Bug bug) {
  ZT_DONE(cudaSetDevice(rank));
  const std::vector<float> is = Pipeline(rank, ranks, id, bug).run();
  const std::vector<float> should = right_result();
  double most = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    const double difference = std::abs(double(is[i]) - should[i]);
    most = std::max(most, std::isnan(difference) ? kNaN : difference);
  }
  return most;
}

double run_pipeline_in_threads(int ranks, Bug bug) {
  ncclUniqueId id;
  ZT_DONE(ncclGetUniqueId(&id));
  std::vector<double> most(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { most[std::size_t(rank)] = run_pipeline(rank, ranks, id, bug); });
  for (std::thread& t : threads) t.join();
  return *std::max_element(most.begin(), most.end());
}

}  // namespace zt::emulator
