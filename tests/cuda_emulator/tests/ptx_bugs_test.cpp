#include "ptx_bugs.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cuda_emulator/tests/program.h"

namespace zt::emulator {
namespace {

const std::map<std::string, std::string>& expected_kinds() {
  static const std::map<std::string, std::string> kKinds{
      {"missing barrier before use", "shared race"},
      {"missing barrier before reuse", "shared race"},
      {"missing barrier in a block reduction", "shared race"},
      {"plain add between blocks", "global race"},
      {"missing tail guard", "out of bounds"},
      {"barrier in divergent code", "divergent barrier"},
      {"two different barriers", "divergent barrier"},
      {"shuffle mask names absent lanes", "warp collective"},
      {"exchange without syncwarp", "shared race"},
      {"host pointer", "bad address in kernel"},
      {"uninitialised read", "uninitialised read"},
      {"copy read before its wait", "cp.async"},
      {"two blocks write one word", "global race"},
      {"misaligned vector", "misaligned"},
      {"dynamic shared memory too small", "out of bounds"},
      {"ring without its empty wait", "cp.async"},
      {"ring of barriers nobody published", "mbarrier"},
      {"ring of barriers another thread published", "mbarrier"},
      {"wgmma waited for too late", "wgmma"},
      {"missing proxy fence", "proxy fence"},
      {"wgmma registers written after the fence", "wgmma"},
  };
  return kKinds;
}

std::vector<Finding> findings_of(int i, bool bug, std::uint64_t seed) {
  configure(seed, Policy::random, Order::random);
  const cudaStream_t stream = new_stream();
  const std::string name = ptx_bug_name(i);
  // The smallest memory for which the right kernel is right.
  auto* x = device_memory<float>(512);
  auto* y = device_memory<float>(name == "missing tail guard" ? 100 : 512);
  std::vector<float> host(512, 1.f);
  if (!(bug && name == "uninitialised read"))
    ZT_DONE(cudaMemcpyAsync(x, host.data(), 512 * sizeof(float), cudaMemcpyHostToDevice, stream));
  ZT_DONE(cudaMemsetAsync(y, 0, 100 * sizeof(float), stream));
  run_ptx_bug(i, bug, y, bug && name == "host pointer" ? host.data() : x, stream);
  ZT_DONE(cudaStreamSynchronize(stream));
  ZT_DONE(cudaFree(x));
  ZT_DONE(cudaFree(y));
  ZT_DONE(cudaStreamDestroy(stream));
  return take_findings();
}

}  // namespace

TEST_CASE("each of twenty-one mistakes in a kernel is reported by name and line, whatever the order") {
  REQUIRE_EQ(ptx_bug_count(), 21);
  for (int i = 0; i < ptx_bug_count(); ++i) {
    CAPTURE(ptx_bug_name(i));
    const std::string kind = expected_kinds().at(ptx_bug_name(i));
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(seed);
      const std::vector<Finding> found = findings_of(i, true, seed);
      INFO(to_string(found));
      CHECK(std::any_of(found.begin(), found.end(), [&](const Finding& f) {
        return f.kind == kind && f.where.find("ptx_bugs.cu:") != std::string::npos;
      }));
    }
  }
}

TEST_CASE("the kernels without their mistakes are silent over 25 seeds") {
  for (int i = 0; i < ptx_bug_count(); ++i) {
    CAPTURE(ptx_bug_name(i));
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      CAPTURE(seed);
      check_none(findings_of(i, false, seed));
    }
  }
}

}  // namespace zt::emulator
