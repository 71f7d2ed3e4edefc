#include "comm/choice.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "device/error_text.h"
#include "device/stream.h"

namespace zt::cuda {
namespace {

// What ranks tell each other. Texts end in a zero.
struct Told {
  std::array<char, 64> host;
  std::array<char, 32> bus_id;
  std::array<char, 128> why;  // there is none
  int gpus = 0;
  int ordinal = -1;
  int capability = 0;  // 90: compute capability 9.0
};

constexpr int kLeastCapability = 80;  // of the kernels' instructions (cp.async, bf16 on tensor cores)

std::vector<Told> everybodys(comm::Communicator& ranks, const Told& mine) {
  std::vector<Told> all(static_cast<std::size_t>(ranks.size()));
  ranks.exchange<Told>({&mine, 1}, all);
  return all;
}

int capability_of(int ordinal) {
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal),
        "cannot ask the GPU what it can");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal),
        "cannot ask the GPU what it can");
  return 10 * major + minor;
}

int number_on_host(const std::vector<Told>& all, int rank) {
  const auto here = [&](const Told& other) { return other.host == all[static_cast<std::size_t>(rank)].host; };
  return static_cast<int>(std::count_if(all.begin(), all.begin() + rank, here));
}

void require_own_gpus(const std::vector<Told>& all) {
  for (std::size_t b = 0; b < all.size(); ++b) {
    if (all[b].gpus == 0)
      throw Error(Blame::machine,
                  cat("rank ", b, " on ", all[b].host.data(), " has no GPU it may use: ", all[b].why.data()),
                  "start it where there is one (CUDA_VISIBLE_DEVICES hides them), or set run.device: cpu");
    if (all[b].capability < kLeastCapability)
      throw Error(Blame::machine,
                  cat("the GPU of rank ", b, " on ", all[b].host.data(), " has compute capability ",
                      all[b].capability / 10, ".", all[b].capability % 10, ", 8.0 is needed"),
                  "A100, H100, H200 and B200 have more; run.device: cpu trains on the processor");
    for (std::size_t a = 0; a < b; ++a)
      if (all[a].host == all[b].host && all[a].bus_id == all[b].bus_id)
        throw Error(
            Blame::usage,
            cat("ranks ", a, " and ", b, " on ", all[b].host.data(), " would share the GPU ",
                all[b].bus_id.data()),
            "start as many ranks on a node as it has GPUs, and let each see all of them or one of its own");
  }
}

}  // namespace

int usable_gpus(std::string* why_none) {
  int gpus = 0, able = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&gpus); status != cudaSuccess) {
    cudaGetLastError();  // forgotten: it is told
    *why_none = cat("CUDA says: ", text(status));
    return 0;
  }
  for (int ordinal = 0; ordinal < gpus; ++ordinal) able += capability_of(ordinal) >= kLeastCapability;
  if (able == 0) *why_none = cat("none of ", gpus, " GPUs has compute capability 8.0 or later");
  return able;
}

Choice choose_gpu(comm::Communicator& ranks) {
  Told mine{host_name_as<std::array<char, 64>>(), {}, {}, 0, -1, 0};
  if (const cudaError_t status = cudaGetDeviceCount(&mine.gpus); status != cudaSuccess) {
    cudaGetLastError();  // forgotten: it is told by all ranks
    text(status).copy(mine.why.data(), mine.why.size() - 1);
    mine.gpus = 0;
  }
  std::vector<Told> all = everybodys(ranks, mine);
  if (mine.gpus > 0) {
    mine.ordinal = number_on_host(all, ranks.rank()) % mine.gpus;
    check(cudaDeviceGetPCIBusId(mine.bus_id.data(), static_cast<int>(mine.bus_id.size()), mine.ordinal),
          "cannot ask the GPU where it is");
    mine.capability = capability_of(mine.ordinal);
  }
  all = everybodys(ranks, mine);
  require_own_gpus(all);
  return {mine.ordinal, mine.bus_id.data()};
}

}  // namespace zt::cuda
