#include "comm/choice.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/host.h"
#include "base/text.h"
#include "device/stream.h"

namespace zt::cuda {
namespace {

// What ranks tell each other. Texts end in a zero.
struct Told {
  std::array<char, 64> host;
  std::array<char, 32> bus_id;
  int gpus = 0;
  int ordinal = -1;
};

std::vector<Told> everybodys(comm::Communicator& ranks, const Told& mine) {
  std::vector<Told> all(static_cast<std::size_t>(ranks.size()));
  ranks.exchange<Told>({&mine, 1}, all);
  return all;
}

int number_on_host(const std::vector<Told>& all, int rank) {
  const auto here = [&](const Told& other) { return other.host == all[static_cast<std::size_t>(rank)].host; };
  return static_cast<int>(std::count_if(all.begin(), all.begin() + rank, here));
}

void require_own_gpus(const std::vector<Told>& all) {
  for (std::size_t b = 0; b < all.size(); ++b) {
    if (all[b].gpus == 0)
      throw Error(Blame::machine, cat("rank ", b, " on ", all[b].host.data(), " has no GPU it may use"),
                  "start it where there is one (CUDA_VISIBLE_DEVICES hides them), or set run.device: cpu");
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

Choice choose_gpu(comm::Communicator& ranks) {
  Told mine{host_name_as<std::array<char, 64>>(), {}, 0, -1};
  if (cudaGetDeviceCount(&mine.gpus) != cudaSuccess) {
    cudaGetLastError();  // without a driver there are none
    mine.gpus = 0;
  }
  std::vector<Told> all = everybodys(ranks, mine);
  if (mine.gpus > 0) {
    mine.ordinal = number_on_host(all, ranks.rank()) % mine.gpus;
    check(cudaDeviceGetPCIBusId(mine.bus_id.data(), static_cast<int>(mine.bus_id.size()), mine.ordinal),
          "cannot ask the GPU where it is");
  }
  all = everybodys(ranks, mine);
  require_own_gpus(all);
  return {mine.ordinal, mine.bus_id.data()};
}

}  // namespace zt::cuda
