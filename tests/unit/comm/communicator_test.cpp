#include "comm/communicator.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "comm/sum.h"
#include "comm/threads.h"
#include "support/collectives.h"
#include "support/slow_link.h"

using namespace zt;
using namespace zt::test;

TEST_CASE("solo: every collective is right, sends nothing, and splits into itself") {
  const auto comm = comm::solo();
  for (std::int64_t n : {0, 1, 5, 3000}) {
    CHECK(wrong_in_all_gather(*comm, n, 1) == "");
    CHECK(wrong_in_reduce_scatter(*comm, Dtype::f32, Dtype::bf16, n, 2) == "");
    CHECK(wrong_in_all_reduce(*comm, Dtype::bf16, Dtype::bf16, n, 3) == "");
    CHECK(wrong_in_broadcast(*comm, n, 0, 4) == "");
    CHECK(wrong_in_exchange(*comm, n, 5) == "");
  }
  comm->barrier();
  CHECK(comm->traffic() == comm::Traffic{});
  CHECK(comm->split(3)->size() == 1);
  CHECK(comm->transport() == "solo");
  CHECK(comm->buffer_bytes() == 0);
}

TEST_CASE("communicator: arguments that make no sense are refused with their numbers") {
  const auto comm = comm::solo();
  std::array<float, 4> data{};
  const auto problem = [](auto work) {
    try {
      work();
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::bug);
      return e.problem();
    }
    return std::string("no error");
  };
  CHECK(problem([&] { comm->all_gather(data.data(), -4); }) ==
        "all_gather: slices of -4 elements on 1 ranks");
  CHECK(problem([&] { comm->all_gather(nullptr, 4); }) == "all_gather: no memory for 4 bytes");
  CHECK(problem([&] {
          comm->reduce_scatter(data.data(), Dtype::f32, Dtype::f32,
                               std::numeric_limits<std::int64_t>::max() / 2);
        }) == "reduce_scatter: slices of 4611686018427387903 elements on 1 ranks");
  CHECK(problem([&] { comm->reduce_scatter(data.data(), Dtype::bf16, Dtype::f32, 1); }) ==
        "reduce_scatter: cannot add bfloat16 values that travel as float32");
  CHECK(problem([&] { comm->all_reduce(data.data(), Dtype::i32, Dtype::i32, 1); }) ==
        "all_reduce: cannot add int32 values that travel as int32");
  CHECK(problem([&] { comm->broadcast(data.data(), 4, 1); }) == "broadcast: root 1 among 1 ranks");
  CHECK(problem([&] { comm->broadcast(data.data(), -1, 0); }) == "broadcast: a size of -1 bytes");
  std::array<std::byte, 3> all{};
  CHECK(problem([&] {
          comm->exchange(std::span<const std::byte>(all.data(), 2), std::span<std::byte>(all));
        }) == "exchange: 3 bytes for 1 messages of 2");
}

TEST_CASE("sum: bf16 rounding is to nearest even, and infinities and NaNs survive") {
  // Around 1, bf16 steps by 2^-7: halves go to the even neighbour.
  const std::array<float, 6> x = {
      1.00390625f, 1.01171875f, 3.39e38f, std::numeric_limits<float>::infinity(), std::nanf(""), -0.f};
  std::array<std::uint16_t, 6> y{};
  comm::to_wire(reinterpret_cast<const std::byte*>(x.data()), Dtype::f32, Dtype::bf16,
                reinterpret_cast<std::byte*>(y.data()), 6);
  CHECK(y[0] == 0x3f80);
  CHECK(y[1] == 0x3f82);
  CHECK(y[2] == 0x7f7f);
  CHECK(y[3] == 0x7f80);
  CHECK((y[4] & 0x7fff) > 0x7f80);
  CHECK(y[5] == 0x8000);
}

TEST_CASE("sum: the order is that of the ranks, where another order has other bits") {
  // In fp32 2^24 + 1 + 1 is 2^24 from the left and 2^24 + 2 from the right.
  const float big = 0x1p24f, one = 1.f;
  const auto part = [](const float& x) {
    return comm::Part{reinterpret_cast<const std::byte*>(&x), Dtype::f32};
  };
  float sum = 0;
  const std::array<comm::Part, 3> falling = {part(big), part(one), part(one)};
  comm::sum_in_rank_order(falling, Dtype::f32, Dtype::f32, reinterpret_cast<std::byte*>(&sum), 1);
  CHECK(sum == 0x1p24f);
  const std::array<comm::Part, 3> rising = {part(one), part(one), part(big)};
  comm::sum_in_rank_order(rising, Dtype::f32, Dtype::f32, reinterpret_cast<std::byte*>(&sum), 1);
  CHECK(sum == 0x1p24f + 2);
}

TEST_CASE("slow link: a collective takes the latency and its bytes, and results and traffic stay the same") {
  comm::run_threads(2, 60, [](comm::Communicator& inner) {
    SlowLink link(inner, {.latency_seconds = 2e-3, .bytes_per_second = 1e6});
    const auto start = std::chrono::steady_clock::now();
    CHECK(wrong_in_all_gather(link, 8000, 51) == "");  // 8 kB to one other rank: 8 ms
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(took.count() >= 10e-3);
    CHECK(link.wire_seconds() == doctest::Approx(10e-3));
    CHECK(link.traffic() == comm::Traffic{.all_gather = 8000});
    const auto half = link.split(link.rank());
    CHECK(half->size() == 1);
  });
}
