// How many blocks of the attention kernels a multiprocessor holds, from the registers that cuda/budgets.txt allows them and
// the shared memory they ask for. NVIDIA's own calculation, which needs no GPU.
#include <cuda_occupancy.h>
#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>

#include "base/text.h"
#include "kernels/attention_shapes.h"
#include "support/paths.h"

namespace zt::cuda_test {
namespace {

struct Budget {
  int registers = 0, stack = 0, spills = 0, shared = 0, threads = 0;
};

// {"sm_80 attention_forward<__half, 64, false>": its budget}
std::map<std::string, Budget> budgets() {
  std::map<std::string, Budget> all;
  std::istringstream file(test::read_file(test::source_dir() / "cuda" / "budgets.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string arch, kernel, word;
    Budget b;
    words >> arch >> b.registers >> b.stack >> b.spills >> b.shared >> b.threads;
    for (int counts = 0; counts < 6; ++counts) words >> word;
    std::getline(words >> std::ws, kernel);
    all[cat(arch, " ", kernel)] = b;
  }
  return all;
}

// Limits of a multiprocessor: CUDA C++ Programming Guide, "Technical specifications per compute capability".
cudaOccDeviceProp multiprocessor(const std::string& arch) {
  cudaOccDeviceProp p;
  p.computeMajor = arch == "sm_80" ? 8 : arch == "sm_90a" ? 9 : 10;
  p.computeMinor = 0;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = 2048;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerMultiprocessor = (arch == "sm_80" ? 164 : 228) << 10;
  p.sharedMemPerBlockOptin = (arch == "sm_80" ? 163 : 227) << 10;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.numSms = arch == "sm_80" ? 108 : arch == "sm_90a" ? 132 : 148;
  return p;
}

int blocks(const std::string& arch, const Budget& b, int dynamic_bytes) {
  const cudaOccDeviceProp device = multiprocessor(arch);
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = b.threads;
  kernel.numRegs = b.registers;
  kernel.sharedSizeBytes = std::size_t(b.shared);
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.maxDynamicSharedSizeBytes = std::size_t(dynamic_bytes);
  kernel.numBlockBarriers = 1;
  const cudaOccDeviceState state;
  cudaOccResult result{};
  REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, b.threads,
                                                  std::size_t(dynamic_bytes)) == CUDA_OCC_SUCCESS);
  return result.activeBlocksPerMultiprocessor;
}

template <int D>
void check_size(const std::map<std::string, Budget>& all, const std::string& arch, const std::string& type) {
  using kernels::BackwardTiles;
  const auto check = [&](const std::string& kernel, int dynamic_bytes, int wanted) {
    const std::string key = cat(arch, " ", kernel);
    INFO(key);
    REQUIRE(all.count(key) == 1);
    CHECK(all.at(key).spills == 0);
    CHECK(blocks(arch, all.at(key), dynamic_bytes) >= wanted);
  };
  for (const char* dropout : {"false", "true"}) {
    const std::string arguments = cat("<", type, ", ", D, ", ", dropout, ">");
    check("attention_forward" + arguments, kernels::ForwardTiles<D>::kBytes, 2);
    check("attention_backward_keys" + arguments, BackwardTiles<D>::kKeysBytes, 2);
    check("attention_backward_queries" + arguments, BackwardTiles<D>::kQueriesBytes, 2);
  }
}

template <int D>
void check_warpgroups(const std::map<std::string, Budget>& all, const std::string& type) {
  const auto check = [&](const std::string& kernel, int threads, int dynamic_bytes) {
    const std::string key = cat("sm_90a ", kernel, "<", type, ", ", D, ">");
    INFO(key);
    REQUIRE(all.count(key) == 1);
    CHECK(all.at(key).spills == 0);
    CHECK(all.at(key).threads == threads);
    CHECK(blocks("sm_90a", all.at(key), dynamic_bytes) >= 1);
  };
  using Forward = kernels::WarpgroupTiles<D>;
  using Keys = kernels::WarpgroupKeysTiles<D>;
  using Queries = kernels::WarpgroupQueriesTiles<D>;
  check("attention_forward_warpgroups", Forward::kThreads, Forward::kBytes);
  check("attention_backward_keys_warpgroups", Keys::kThreads, Keys::kBytes);
  check("attention_backward_queries_warpgroups", Queries::kThreads, Queries::kBytes);
}

TEST_CASE(
    "cuda attention: two blocks share a multiprocessor within the budgets of registers and shared memory") {
  const auto all = budgets();
  for (const char* arch : {"sm_80", "sm_90a", "sm_100"}) {
    for (const char* type : {"__nv_bfloat16", "__half"}) {
      check_size<64>(all, arch, type);
      check_size<80>(all, arch, type);
      check_size<96>(all, arch, type);
      check_size<128>(all, arch, type);
    }
  }
  for (const char* type : {"__nv_bfloat16", "__half"}) {
    check_warpgroups<64>(all, type);
    check_warpgroups<128>(all, type);
  }
}

}  // namespace
}  // namespace zt::cuda_test
