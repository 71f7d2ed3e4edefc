// What the emulated GPU refuses although a GPU would go on: each is reported, and the right way beside it is silent.
#include <doctest/doctest.h>

#include <cstring>

#include "program.h"

namespace zt::emulator {
namespace {

constexpr std::size_t kBytes = 256;

struct Fixture {
  Fixture() { configure(1, Policy::random, Order::random); }
  ~Fixture() { (void)cudaDeviceSynchronize(); }
};

TEST_CASE_FIXTURE(Fixture, "work on the legacy default stream is reported, on a stream of one's own not") {
  auto* p = device_memory<char>(kBytes);
  const cudaStream_t stream = new_stream();
  ZT_DONE(cudaMemsetAsync(p, 0, kBytes, stream));
  ZT_DONE(cudaStreamSynchronize(stream));
  check_none(take_findings());
  ZT_DONE(cudaMemsetAsync(p, 0, kBytes, nullptr));
  check_only(take_findings(), "default stream");
  ZT_DONE(cudaMemset(p, 0, kBytes));
  check_only(take_findings(), "default stream");
}

TEST_CASE_FIXTURE(Fixture, "a stream that waits for the default stream is reported where it is made") {
  cudaStream_t stream = nullptr;
  ZT_DONE(cudaStreamCreate(&stream));
  const std::vector<Finding> findings = take_findings();
  check_only(findings, "blocking stream");
  CHECK(findings.front().where.find("strictness_test.cpp:") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "waiting for an event that was never recorded is reported") {
  const cudaStream_t stream = new_stream();
  const cudaEvent_t event = new_event();
  SUBCASE("by a stream") { ZT_DONE(cudaStreamWaitEvent(stream, event, 0)); }
  SUBCASE("by the host") { ZT_DONE(cudaEventSynchronize(event)); }
  check_only(take_findings(), "event");
  ZT_DONE(cudaEventRecord(event, stream));
  ZT_DONE(cudaStreamWaitEvent(stream, event, 0));
  ZT_DONE(cudaEventSynchronize(event));
  check_none(take_findings());
}

TEST_CASE_FIXTURE(Fixture, "the host that waits for a stream waits for what the stream waits for") {
  const cudaStream_t stream = new_stream(), other = new_stream();
  const cudaEvent_t event = new_event();
  auto* p = device_memory<char>(kBytes);
  for (const Policy policy : {Policy::random, Policy::lazy, Policy::eager})
    for (const bool asking : {false, true}) {
      configure(1, policy, Order::random);
      ZT_DONE(cudaMemsetAsync(p, 0, kBytes, other));
      ZT_DONE(cudaEventRecord(event, other));
      ZT_DONE(cudaStreamWaitEvent(stream, event, 0));
      if (!asking) ZT_DONE(cudaStreamSynchronize(stream));
      while (asking && cudaStreamQuery(stream) == cudaErrorNotReady) (void)cudaGetLastError();
      CHECK_EQ(int(cudaStreamQuery(other)), int(cudaSuccess));
      (void)cudaGetLastError();
      check_none(take_findings());
    }
}

TEST_CASE_FIXTURE(Fixture, "an event is no earlier than what its stream waited for") {
  const cudaStream_t stream = new_stream(), other = new_stream();
  cudaEvent_t begin = nullptr, awaited = nullptr, after = nullptr;
  for (cudaEvent_t* event : {&begin, &awaited, &after}) ZT_DONE(cudaEventCreate(event));
  auto* p = device_memory<char>(kBytes);
  for (const Policy policy : {Policy::random, Policy::lazy, Policy::eager}) {
    configure(1, policy, Order::random);
    ZT_DONE(cudaEventRecord(begin, stream));
    ZT_DONE(cudaMemsetAsync(p, 0, kBytes, other));
    ZT_DONE(cudaEventRecord(awaited, other));
    ZT_DONE(cudaStreamWaitEvent(stream, awaited, 0));
    ZT_DONE(cudaEventRecord(after, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    float until_awaited = 0, until_after = 0;
    ZT_DONE(cudaEventElapsedTime(&until_awaited, begin, awaited));
    ZT_DONE(cudaEventElapsedTime(&until_after, begin, after));
    CHECK(until_awaited > 0);
    CHECK(until_after >= until_awaited);
  }
}

TEST_CASE_FIXTURE(Fixture, "an event is reported when it is used after its end") {
  const cudaEvent_t event = new_event();
  ZT_DONE(cudaEventDestroy(event));
  ZT_DONE(cudaEventRecord(event, new_stream()));
  check_only(take_findings(), "event");
}

TEST_CASE_FIXTURE(Fixture, "memory that is freed before the host waited for its last use is reported") {
  const cudaStream_t stream = new_stream();
  auto* p = device_memory<char>(kBytes);
  ZT_DONE(cudaMemsetAsync(p, 0, kBytes, stream));
  SUBCASE("not waited") {
    ZT_DONE(cudaFree(p));
    check_only(take_findings(), "free before last use");
  }
  SUBCASE("waited for another stream") {
    ZT_DONE(cudaStreamSynchronize(new_stream()));
    ZT_DONE(cudaFree(p));
    check_only(take_findings(), "free before last use");
  }
  SUBCASE("waited") {
    ZT_DONE(cudaStreamSynchronize(stream));
    ZT_DONE(cudaFree(p));
    check_none(take_findings());
  }
  SUBCASE("freed in the same stream") {
    ZT_DONE(cudaFreeAsync(p, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    check_none(take_findings());
  }
  SUBCASE("freed in another stream") {
    ZT_DONE(cudaFreeAsync(p, new_stream()));
    ZT_DONE(cudaDeviceSynchronize());
    // Whichever of the two ran first.
    const std::vector<Finding> findings = take_findings();
    REQUIRE_EQ(findings.size(), 1);
    const std::string kind = findings.front().kind;
    CHECK((kind == "free before last use" || kind == "use after free"));
  }
}

TEST_CASE_FIXTURE(Fixture, "memory is reported when it is freed twice, or used afterwards") {
  const cudaStream_t stream = new_stream();
  auto* p = device_memory<char>(kBytes);
  ZT_DONE(cudaFree(p));
  check_none(take_findings());
  SUBCASE("freed twice") {
    ZT_DONE(cudaFree(p));
    check_only(take_findings(), "bad free");
  }
  SUBCASE("not from its start") {
    ZT_DONE(cudaFree(device_memory<char>(kBytes) + 16));
    check_only(take_findings(), "bad free");
  }
  SUBCASE("used") {
    ZT_DONE(cudaMemsetAsync(p, 0, kBytes, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    check_only(take_findings(), "use after free");
  }
}

TEST_CASE_FIXTURE(Fixture, "a copy whose declared direction is not the real one is reported and refused") {
  const cudaStream_t stream = new_stream();
  auto* p = device_memory<char>(kBytes);
  char host[kBytes] = {};
  CHECK_EQ(cudaMemcpyAsync(p, host, kBytes, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidMemcpyDirection);
  check_only(take_findings(), "memcpy kind");
  CHECK_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
  CHECK_EQ(cudaGetLastError(), cudaSuccess);
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDefault})
    ZT_DONE(cudaMemcpyAsync(p, host, kBytes, kind, stream));
  check_none(take_findings());
}

TEST_CASE_FIXTURE(Fixture, "a destroyed stream may finish its work and is reported when it is used again") {
  const cudaStream_t stream = new_stream();
  auto* p = device_memory<char>(kBytes);
  ZT_DONE(cudaMemsetAsync(p, 0, kBytes, stream));
  ZT_DONE(cudaStreamDestroy(stream));
  ZT_DONE(cudaDeviceSynchronize());
  check_none(take_findings());
  SUBCASE("for work") { ZT_DONE(cudaMemsetAsync(p, 0, kBytes, stream)); }
  SUBCASE("for a wait of the host") { ZT_DONE(cudaStreamSynchronize(stream)); }
  SUBCASE("for an event") { ZT_DONE(cudaEventRecord(new_event(), stream)); }
  SUBCASE("to be destroyed") { ZT_DONE(cudaStreamDestroy(stream)); }
  check_only(take_findings(), "destroyed stream");
}

TEST_CASE_FIXTURE(Fixture, "the host may touch pinned memory but not the device's") {
  auto* pinned = pinned_memory<int>(16);
  auto* device = device_memory<int>(16);
  pinned[3] = 7;
  CHECK_EQ(pinned[3], 7);
  check_none(take_findings());
  SUBCASE("read") { CHECK_NE(device[3], 7); }
  SUBCASE("written") { device[3] = 7; }
  SUBCASE("written as a block") { std::memset(device, 0, 64); }
  SUBCASE("read as a block") { std::memcpy(pinned, device, 64); }
  check_only(take_findings(), "host touches device memory");
}

TEST_CASE_FIXTURE(Fixture, "copies are reported that read what nobody wrote or leave their allocation") {
  const cudaStream_t stream = new_stream();
  auto* from = device_memory<char>(kBytes);
  auto* to = device_memory<char>(kBytes);
  SUBCASE("uninitialised") {
    ZT_DONE(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    check_only(take_findings(), "uninitialised read");
  }
  SUBCASE("too long") {
    ZT_DONE(cudaMemsetAsync(from, 0, kBytes + 1, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    check_only(take_findings(), "out of bounds");
  }
  SUBCASE("only rows that were written") {
    ZT_DONE(cudaMemset2DAsync(from, 64, 0, 32, 4, stream));
    ZT_DONE(cudaMemcpy2DAsync(to, 64, from, 64, 32, 4, cudaMemcpyDeviceToDevice, stream));
    ZT_DONE(cudaStreamSynchronize(stream));
    check_none(take_findings());
  }
}

TEST_CASE_FIXTURE(Fixture, "one place of a range that nobody wrote is found, whatever surrounds it") {
  const cudaStream_t stream = new_stream();
  auto* to = device_memory<char>(kBytes);
  for (std::size_t at = 0; at < kBytes; at += 2) {
    CAPTURE(at);
    auto* from = device_memory<char>(kBytes);
    if (at > 0) ZT_DONE(cudaMemsetAsync(from, 0, at, stream));
    if (at + 2 < kBytes) ZT_DONE(cudaMemsetAsync(from + at + 2, 0, kBytes - at - 2, stream));
    ZT_DONE(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    ZT_DONE(cudaDeviceSynchronize());
    const std::vector<Finding> findings = take_findings();
    check_only(findings, "uninitialised read");
    CHECK(findings.front().text.find("byte " + std::to_string(at) + " of") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "one place of a range that another stream writes is found, whatever surrounds it") {
  const cudaStream_t stream = new_stream(), other = new_stream();
  auto* from = device_memory<char>(kBytes);
  auto* to = device_memory<char>(kBytes);
  for (std::size_t at = 0; at < kBytes; at += 2) {
    CAPTURE(at);
    ZT_DONE(cudaMemsetAsync(from, 0, kBytes, stream));
    ZT_DONE(cudaDeviceSynchronize());
    ZT_DONE(cudaMemsetAsync(from + at, 1, 2, other));
    ZT_DONE(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    ZT_DONE(cudaDeviceSynchronize());
    check_only(take_findings(), "stream race");
  }
}

TEST_CASE_FIXTURE(Fixture, "two streams may read the same, and a writer must wait for both") {
  const cudaStream_t a = new_stream(), b = new_stream(), writer = new_stream();
  auto* from = device_memory<char>(kBytes);
  auto* to = device_memory<char>(2 * kBytes);
  for (const int waits_for : {0, 1, 2, 3}) {
    CAPTURE(waits_for);
    ZT_DONE(cudaMemsetAsync(from, 0, kBytes, writer));
    ZT_DONE(cudaDeviceSynchronize());
    ZT_DONE(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, a));
    ZT_DONE(cudaMemcpyAsync(to + kBytes, from, kBytes, cudaMemcpyDeviceToDevice, b));
    for (const int one : {1, 2}) {
      if ((waits_for & one) == 0) continue;
      const cudaEvent_t read = new_event();
      ZT_DONE(cudaEventRecord(read, one == 1 ? a : b));
      ZT_DONE(cudaStreamWaitEvent(writer, read, 0));
    }
    ZT_DONE(cudaMemsetAsync(from, 1, kBytes, writer));
    ZT_DONE(cudaDeviceSynchronize());
    const std::vector<Finding> findings = take_findings();
    INFO(to_string(findings));
    CHECK_EQ(findings.empty(), waits_for == 3);
    if (!findings.empty()) CHECK_EQ(findings.front().kind, "stream race");
  }
}

TEST_CASE_FIXTURE(Fixture, "a device hands out no more than its memory, and the rest again after a free") {
  set_device_memory(kBytes);
  void* p = nullptr;
  void* q = nullptr;
  std::size_t free = 0, total = 0;
  const cudaError_t first = cudaMalloc(&p, kBytes + 1);
  set_device_memory(std::size_t{16} << 30);
  CHECK_EQ(first, cudaErrorMemoryAllocation);
  CHECK_EQ(p, nullptr);
  ZT_DONE(cudaMemGetInfo(&free, &total));
  ZT_DONE(cudaMalloc(&q, kBytes));
  std::size_t less = 0;
  ZT_DONE(cudaMemGetInfo(&less, &total));
  CHECK_EQ(free - less, kBytes);
  ZT_DONE(cudaFree(q));
  ZT_DONE(cudaMemGetInfo(&less, &total));
  CHECK_EQ(free, less);
  CHECK_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

}  // namespace
}  // namespace zt::emulator
