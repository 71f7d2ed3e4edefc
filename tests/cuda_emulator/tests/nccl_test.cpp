// The stand-in for NCCL among ranks that are threads: results, order, and what hangs.
#include <cuda_bf16.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "program.h"

namespace zt::emulator {
namespace {

struct Rank {
  int rank, ranks;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

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
};

void with_ranks(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ZT_DONE(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ZT_DONE(cudaSetDevice(r));
      Rank rank{r, ranks};
      ZT_DONE(ncclCommInitRank(&rank.comm, ranks, id, r));
      rank.stream = new_stream();
      body(rank);
      cudaDeviceSynchronize();
      if (rank.comm != nullptr) ncclCommDestroy(rank.comm);
    });
  for (std::thread& t : threads) t.join();
}

std::vector<float> numbers(int rank, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = float(100 * rank) + float(i);
  return all;
}

TEST_CASE("collectives give what their names say, on one to four ranks, in place too") {
  configure(3, Policy::random, Order::random);
  constexpr std::size_t kCount = 5;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    with_ranks(ranks, [](Rank& r) {
      const std::size_t total = kCount * std::size_t(r.ranks);
      float* mine = r.upload(numbers(r.rank, kCount));
      float* all = device_memory<float>(total);
      ZT_DONE(ncclAllGather(mine, all, kCount, ncclFloat32, r.comm, r.stream));
      const std::vector<float> gathered = r.download(all, total);
      for (std::size_t i = 0; i < total; ++i) CHECK_EQ(gathered[i], float(100 * (i / kCount) + i % kCount));
      // In place: every rank's part is its slice of the buffer.
      float* slice = all + kCount * std::size_t(r.rank);
      ZT_DONE(ncclReduceScatter(all, slice, kCount, ncclFloat32, ncclSum, r.comm, r.stream));
      const std::vector<float> reduced = r.download(slice, kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        CHECK_EQ(reduced[i], float(r.ranks) * float(100 * r.rank + int(i)));
      float* other = r.upload(numbers(r.rank, kCount));
      ZT_DONE(ncclAllReduce(other, other, kCount, ncclFloat32, ncclMax, r.comm, r.stream));
      CHECK_EQ(r.download(other, kCount), numbers(r.ranks - 1, kCount));
      ZT_DONE(ncclBroadcast(mine, other, kCount, ncclFloat32, r.ranks - 1, r.comm, r.stream));
      CHECK_EQ(r.download(other, kCount), numbers(r.ranks - 1, kCount));
    });
    check_none(take_findings());
  }
}

TEST_CASE("messages in a ring arrive when send and receive are one group") {
  configure(4, Policy::random, Order::random);
  with_ranks(3, [](Rank& r) {
    float* mine = r.upload(numbers(r.rank, 8));
    float* theirs = device_memory<float>(8);
    for (int round = 0; round < 3; ++round) {
      ZT_DONE(ncclGroupStart());
      ZT_DONE(ncclSend(mine, 8, ncclFloat32, (r.rank + 1) % 3, r.comm, r.stream));
      ZT_DONE(ncclRecv(theirs, 8, ncclFloat32, (r.rank + 2) % 3, r.comm, r.stream));
      ZT_DONE(ncclGroupEnd());
      CHECK_EQ(r.download(theirs, 8), numbers((r.rank + 2) % 3, 8));
    }
  });
  check_none(take_findings());
}

TEST_CASE("sums of bf16 are rounded at every addition") {
  configure(5, Policy::random, Order::random);
  with_ranks(3, [](Rank& r) {
    auto* p = device_memory<__nv_bfloat16>(1);
    const __nv_bfloat16 mine = __float2bfloat16_rn(r.rank == 0 ? 256.F : 1.F);
    ZT_DONE(cudaMemcpyAsync(p, &mine, 2, cudaMemcpyHostToDevice, r.stream));
    ZT_DONE(ncclAllReduce(p, p, 1, ncclBfloat16, ncclSum, r.comm, r.stream));
    __nv_bfloat16 sum;
    ZT_DONE(cudaMemcpyAsync(&sum, p, 2, cudaMemcpyDeviceToHost, r.stream));
    CHECK_EQ(__bfloat162float(sum), 256.F);  // 256 + 1 rounds to even, twice
  });
  check_none(take_findings());
}

// How a program may wait for a stream: in the call, or by asking until it is done.
cudaError_t wait_for(cudaStream_t stream, bool asks) {
  if (!asks) return cudaStreamSynchronize(stream);
  cudaError_t status = cudaErrorNotReady;
  while (status == cudaErrorNotReady) {
    status = cudaStreamQuery(stream);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return status;
}

TEST_CASE("a collective that one rank never makes is a deadlock that names stream and call") {
  for (const bool asks : {false, true}) {
    CAPTURE(asks);
    configure(6, Policy::random, Order::random);
    set_patience_ms(300);
    with_ranks(2, [&](Rank& r) {
      float* p = r.upload(numbers(r.rank, 16));
      if (r.rank == 0) ZT_DONE(ncclAllReduce(p, p, 16, ncclFloat32, ncclSum, r.comm, r.stream));
      CHECK_EQ(wait_for(r.stream, asks), r.rank == 0 ? cudaErrorLaunchTimeout : cudaSuccess);
    });
    set_patience_ms(60000);
    const std::vector<Finding> findings = take_findings();
    INFO(to_string(findings));
    const auto deadlock = std::find_if(findings.begin(), findings.end(),
                                       [](const Finding& f) { return f.kind == "stream deadlock"; });
    REQUIRE(deadlock != findings.end());
    CHECK(deadlock->text.find(asks ? "cudaStreamQuery of device 0" : "cudaStreamSynchronize of device 0") !=
          std::string::npos);
    CHECK(deadlock->text.find("all-reduce of 16 f32, call 1") != std::string::npos);
    CHECK(deadlock->text.find("stream ") != std::string::npos);
    configure(7, Policy::random, Order::random);  // drops what hangs
    with_ranks(2, [&](Rank& r) {
      float* p = r.upload(numbers(r.rank, 16));
      ZT_DONE(ncclAllReduce(p, p, 16, ncclFloat32, ncclSum, r.comm, r.stream));
      ZT_DONE(wait_for(r.stream, asks));
    });
    check_none(take_findings());
  }
}

TEST_CASE("a rank that computes for longer than the patience is no deadlock for its peers") {
  configure(8, Policy::eager, Order::random);
  set_patience_ms(200);
  with_ranks(2, [](Rank& r) {
    float* p = r.upload(numbers(r.rank, 4));
    if (r.rank == 1)
      ZT_DONE(cudaLaunchHostFunc(
          r.stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(700)); }, nullptr));
    ZT_DONE(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, r.comm, r.stream));
    ZT_DONE(cudaStreamSynchronize(r.stream));
  });
  set_patience_ms(60000);
  check_none(take_findings());
}

TEST_CASE("two communicators that ranks use in different order are reported although nothing hangs here") {
  for (const bool same : {true, false}) {
    configure(9, Policy::random, Order::random);
    ncclUniqueId second;
    ZT_DONE(ncclGetUniqueId(&second));
    with_ranks(2, [&](Rank& r) {
      ncclComm_t other = nullptr;
      ZT_DONE(ncclCommInitRank(&other, r.ranks, second, r.rank));
      const cudaStream_t stream = new_stream();
      float* p = r.upload(numbers(r.rank, 4));
      float* q = r.upload(numbers(r.rank, 4));
      ZT_DONE(cudaStreamSynchronize(r.stream));
      const auto first = [&] { ZT_DONE(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, r.comm, r.stream)); };
      const auto then = [&] { ZT_DONE(ncclAllReduce(q, q, 4, ncclFloat32, ncclSum, other, stream)); };
      if (same || r.rank == 0) {
        first();
        then();
      } else {
        then();
        first();
      }
      ZT_DONE(cudaDeviceSynchronize());
      ZT_DONE(ncclCommDestroy(other));
    });
    const std::vector<Finding> findings = take_findings();
    INFO(to_string(findings));
    CHECK_EQ(findings.empty(), same);
    if (!same) CHECK_EQ(findings.front().kind, "collective mismatch");
  }
}

TEST_CASE(
    "an abort ends a rank's own work: its peers wait on, and no error tells them why, until they abort too") {
  configure(10, Policy::lazy, Order::random);
  std::atomic<bool> aborted = false;
  with_ranks(2, [&](Rank& r) {
    float* p = r.upload(numbers(r.rank, 4));
    if (r.rank == 0) {
      ZT_DONE(ncclCommAbort(std::exchange(r.comm, nullptr)));
      aborted = true;
      return;
    }
    while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ZT_DONE(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, r.comm, r.stream));
    ncclResult_t error = ncclInternalError;
    ZT_DONE(ncclCommGetAsyncError(r.comm, &error));
    CHECK_EQ(error, ncclSuccess);
    CHECK_EQ(cudaStreamQuery(r.stream), cudaErrorNotReady);
    ZT_DONE(ncclCommAbort(std::exchange(r.comm, nullptr)));
    ZT_DONE(cudaStreamSynchronize(r.stream));
  });
  check_none(take_findings());
}

}  // namespace
}  // namespace zt::emulator
