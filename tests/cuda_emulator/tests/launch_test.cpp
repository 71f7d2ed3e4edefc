// Launches of what nvcc compiled: results, limits, order between streams, memory, counters.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launch_kernels.h"
#include "program.h"

namespace zt::emulator {
namespace {

struct Fixture {
  Fixture() { configure(1, Policy::random, Order::random); }
  ~Fixture() { (void)cudaDeviceSynchronize(); }

  float* upload(const std::vector<float>& values) const {
    auto* p = device_memory<float>(values.size());
    ZT_DONE(cudaMemcpyAsync(p, values.data(), values.size() * 4, cudaMemcpyHostToDevice, stream));
    return p;
  }
  std::vector<float> download(const float* p, std::size_t count) const {
    std::vector<float> values(count);
    ZT_DONE(cudaMemcpyAsync(values.data(), p, count * 4, cudaMemcpyDeviceToHost, stream));
    return values;
  }

  cudaStream_t stream = new_stream();
};

bool has(const std::vector<Finding>& findings, const std::string& kind) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.kind == kind; });
}

TEST_CASE_FIXTURE(Fixture, "a kernel computes, and its launches are counted by its bare name") {
  reset_counters();
  for (const int n : {1, 31, 128, 300}) {
    std::vector<float> x(static_cast<std::size_t>(n)), y(x.size(), 1);
    for (int i = 0; i < n; ++i) x[std::size_t(i)] = float(i);
    float* device_y = upload(y);
    launch_axpy(2, upload(x), device_y, n, 64, stream);
    ZT_DONE(cudaGetLastError());
    const std::vector<float> result = download(device_y, x.size());
    for (int i = 0; i < n; ++i) CHECK_EQ(result[std::size_t(i)], float(2 * i + 1));
  }
  CHECK_EQ(counters("axpy").launches, 4);
  CHECK(counters("axpy").warp_instructions > 4);
  CHECK(counters("axpy").sectors >= counters("axpy").sectors_least);
  CHECK(counters("axpy").sectors_least > 0);
  CHECK_EQ(counters("no_such_kernel").launches, 0);
  check_none(take_findings());
}

TEST_CASE_FIXTURE(Fixture, "a kernel is refused with more threads than its launch bounds") {
  float* x = upload(std::vector<float>(256, 1));
  launch_axpy(2, x, x, 256, 256, stream);
  CHECK_NE(cudaGetLastError(), cudaSuccess);
  const std::vector<Finding> findings = take_findings();
  check_only(findings, "launch");
  CHECK(findings.front().text.find("launch bounds say 128") != std::string::npos);
  CHECK(findings.front().where.find("launch_kernels.cu") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a kernel is refused with more dynamic shared memory than was asked for") {
  float* x = upload({1, 2, 3, 4});
  float* y = device_memory<float>(4);
  constexpr std::size_t kMuch = 64 << 10;
  launch_reverse(x, y, 4, kMuch, stream);
  CHECK_NE(cudaGetLastError(), cudaSuccess);
  check_only(take_findings(), "launch");
  ZT_DONE(cudaFuncSetAttribute(reverse_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, int(kMuch)));
  launch_reverse(x, y, 4, kMuch, stream);
  ZT_DONE(cudaGetLastError());
  CHECK_EQ(download(y, 4), std::vector<float>{4, 3, 2, 1});
  check_none(take_findings());
  CHECK_NE(cudaFuncSetAttribute(reverse_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
           cudaSuccess);
  check_only(take_findings(), "launch");
  CHECK_NE(cudaGetLastError(), cudaSuccess);
}

TEST_CASE_FIXTURE(Fixture, "a kernel with too little shared memory leaves it, which is reported") {
  float* x = upload({1, 2, 3, 4});
  launch_reverse(x, device_memory<float>(4), 4, 8, stream);
  ZT_DONE(cudaStreamSynchronize(stream));
  CHECK(has(take_findings(), "out of bounds"));
}

TEST_CASE_FIXTURE(Fixture, "a kernel that uses what another stream's kernel made must wait for it") {
  for (const bool waits : {true, false}) {
    for (int seed = 1; seed <= 10; ++seed) {
      configure(std::uint64_t(seed), Policy::random, Order::random);
      const cudaStream_t other = new_stream();
      float* x = upload(std::vector<float>(100, 1));
      float* y = upload(std::vector<float>(100, 0));
      float* z = upload(std::vector<float>(100, 0));
      const cudaEvent_t uploaded = new_event(), made = new_event();
      ZT_DONE(cudaEventRecord(uploaded, stream));
      ZT_DONE(cudaStreamWaitEvent(other, uploaded, 0));
      launch_axpy(3, x, y, 100, 32, stream);
      ZT_DONE(cudaEventRecord(made, stream));
      if (waits) ZT_DONE(cudaStreamWaitEvent(other, made, 0));
      launch_axpy(1, y, z, 100, 32, other);
      ZT_DONE(cudaDeviceSynchronize());
      const std::vector<Finding> findings = take_findings();
      INFO(to_string(findings));
      CHECK_EQ(has(findings, "stream race"), !waits);
      if (waits) CHECK(findings.empty());
      if (!waits) CHECK(findings.front().where.find("launch_kernels.cu:") != std::string::npos);
    }
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "kernels are reported that use memory that is not theirs, with the line of the kernel") {
  float* x = upload(std::vector<float>(8, 1));
  float* y = upload(std::vector<float>(8, 1));
  std::vector<float> host(8);
  std::string kind;
  SUBCASE("beyond the end") {
    launch_axpy(1, x, y, 9, 32, stream);
    kind = "out of bounds";
  }
  SUBCASE("never written") {
    launch_axpy(1, device_memory<float>(8), y, 8, 32, stream);
    kind = "uninitialised read";
  }
  SUBCASE("freed") {
    ZT_DONE(cudaStreamSynchronize(stream));
    ZT_DONE(cudaFree(x));
    launch_axpy(1, x, y, 8, 32, stream);
    kind = "use after free";
  }
  SUBCASE("the host's") {
    launch_axpy(1, host.data(), y, 8, 32, stream);
    kind = "bad address in kernel";
  }
  SUBCASE("another device's") {
    ZT_DONE(cudaSetDevice(1));
    auto* theirs = device_memory<float>(8);
    const cudaStream_t its = new_stream();
    ZT_DONE(cudaMemsetAsync(theirs, 0, 32, its));
    ZT_DONE(cudaStreamSynchronize(its));
    ZT_DONE(cudaSetDevice(0));
    launch_axpy(1, theirs, y, 8, 32, stream);
    kind = "wrong device";
  }
  ZT_DONE(cudaStreamSynchronize(stream));
  const std::vector<Finding> findings = take_findings();
  INFO(to_string(findings));
  REQUIRE(has(findings, kind));
  CHECK(findings.front().where.find("launch_kernels.cu:") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "pinned memory may be used by a kernel, in order with the host") {
  auto* pinned = pinned_memory<float>(8);
  std::fill_n(pinned, 8, 2.F);
  float* y = upload(std::vector<float>(8, 1));
  launch_axpy(1, pinned, y, 8, 32, stream);
  SUBCASE("written after the host waited") {
    ZT_DONE(cudaStreamSynchronize(stream));
    pinned[0] = 3;
    check_none(take_findings());
  }
  SUBCASE("written at once") {
    pinned[0] = 3;
    ZT_DONE(cudaStreamSynchronize(stream));
    CHECK(has(take_findings(), "stream race"));
  }
}

}  // namespace
}  // namespace zt::emulator
