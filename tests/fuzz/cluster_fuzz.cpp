// Any bytes as a cluster file.
#include "hostile.h"
#include "plan/cluster.h"

using namespace zt;

namespace {

constexpr fuzz::Bound kBound{64 << 20, 4096};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  plan::Cluster cluster;
  const bool good = fuzz::survives(size, kBound, Blame::usage, [&] {
    cluster = plan::parse_cluster(text, "fuzz.yaml");
    FUZZ_CHECK(plan::parse_cluster(plan::cluster_text(cluster), "again.yaml") == cluster);
  });
  for (const int ranks : {1, 7, 1 << 20}) {
    if (!good) break;
    fuzz::survives(size, kBound, Blame::usage, [&] {
      FUZZ_CHECK(cluster.node_for(ranks).ranks >= 1);
      FUZZ_CHECK(cluster.memory_of_rank(ranks) >= 0);
    });
  }
  return 0;
}
