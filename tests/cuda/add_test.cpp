// What a device adds to gradients (cuda/device/add.h).
#include <doctest/doctest.h>

#include <vector>

#include "cuda_emulator/emulator.h"
#include "device/cuda_device.h"

namespace zt::cuda_test {
namespace {

// In fp32, rounded once. What lies around the sums stays as it is.
template <typename T>
void check_add(cuda::CudaDevice& gpu, Dtype dtype, std::int64_t first, std::int64_t count) {
  CAPTURE(name(dtype));
  CAPTURE(first);
  CAPTURE(count);
  const std::int64_t all = first + count + 4;
  const auto total = std::size_t(all);
  std::vector<T> sum(total), after(total);
  std::vector<float> more(std::size_t(count) + 1);
  for (std::int64_t i = 0; i < all; ++i) sum[std::size_t(i)] = T(0.37f * float(i % 41) - 5);
  for (std::int64_t i = 0; i < count; ++i) more[std::size_t(i)] = 0.011f * float(i % 97) + 1;
  const device::Arena sums = gpu.claim(all * size_of(dtype), "sums"),
                      terms = gpu.claim(count * 4 + 4, "terms");
  gpu.to_device(sums.at(0), sum.data(), all * size_of(dtype));
  gpu.to_device(terms.at(0), more.data(), count * 4 + 4);
  gpu.add(dtype, sums.at(first * size_of(dtype)), terms.as<float>(), count);
  gpu.to_host(after.data(), sums.at(0), all * size_of(dtype));
  for (std::int64_t i = 0; i < all; ++i) {
    const bool inside = i >= first && i < first + count;
    const T before = sum[std::size_t(i)];
    const T right = inside ? T(float(before) + more[std::size_t(i - first)]) : before;
    REQUIRE(float(after[std::size_t(i)]) == float(right));
  }
}

TEST_CASE("a GPU adds gradients of either format at any address and of any number") {
  emulator::configure(1, emulator::Policy::random, emulator::Order::random);
  cuda::CudaDevice gpu(0);
  for (const std::int64_t count : {0, 1, 3, 4, 7, 1024, 5003})
    for (const std::int64_t first : {0, 1, 2, 4, 8}) {
      check_add<float>(gpu, Dtype::f32, first, count);
      check_add<bf16>(gpu, Dtype::bf16, first, count);
    }
  CHECK(emulator::to_string(emulator::take_findings()) == "");
}

}  // namespace
}  // namespace zt::cuda_test
