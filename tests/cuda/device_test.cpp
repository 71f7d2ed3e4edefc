// What a GPU promises as a device: the order between its lanes, beside what the planner's waits ask for.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cuda/settings.h"
#include "device/cuda_device.h"
#include "schedule/op.h"

namespace zt::cuda_test {
namespace {

constexpr std::int64_t kBytes = 1 << 16;

bool all_are(device::Device& device, const std::byte* at, std::byte value) {
  std::vector<std::byte> host(kBytes);
  device.to_host(host.data(), at, kBytes);
  return std::ranges::all_of(host, [&](std::byte b) { return b == value; });
}

TEST_CASE("a GPU's list comes after what lane 0 was given before, and its end after every lane") {
  under_each_setting("lanes", [](const Setting&) {
    cuda::CudaDevice device(0);
    const device::Arena arena = device.claim((1 + schedule::kLanes) * kBytes, "a test");
    const auto of_lane = [&](int lane) { return arena.at((1 + lane) * kBytes); };
    for (const std::uint8_t value : {7, 9}) {
      device.fill(arena.at(0), value, kBytes);
      device.begin(schedule::kLanes);
      for (int lane = 0; lane < schedule::kLanes; ++lane) {
        device.enter(lane);
        device.copy(of_lane(lane), arena.at(0), kBytes);
        device.mark(lane);
      }
      device.finish();
      for (int lane = 0; lane < schedule::kLanes; ++lane)
        CHECK(all_are(device, of_lane(lane), std::byte{value}));
    }
  });
}

}  // namespace
}  // namespace zt::cuda_test
