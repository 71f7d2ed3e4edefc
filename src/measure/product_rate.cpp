#include "measure/product_rate.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace zt::measure {
namespace {

struct Measured {
  double rate = 0, seconds = 0;  // of the fastest
};

Measured best_of_five(kernels::Kernels& kernels, Dtype dtype, device::Device& device, std::int64_t n) {
  const device::Arena memory = device.claim(3 * n * n * 4, "measuring the product rate");
  const auto matrix = [&](std::int64_t number) { return View(memory.at(number * n * n * 4), dtype, n, n); };
  Measured best;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernels.linear({matrix(0), matrix(1), {}, matrix(2)});
    float one = 0;  // is there when the product is
    device.to_host(&one, memory.at(2 * n * n * 4), size_of(dtype));
    const double seconds = seconds_since(start), rate = 2 * double(n) * double(n) * double(n) / seconds;
    if (rate > best.rate) best = {rate, seconds};
  }
  return best;
}

}  // namespace

double measure_product_rate(kernels::Kernels& kernels, Dtype dtype, device::Device& device) {
  if (device.is_host()) return best_of_five(kernels, dtype, device, 768).rate;
  // The larger, the busier a GPU is, and the less the start of a kernel counts.
  constexpr double kLongEnough = 2e-3;
  double best = 0;
  for (std::int64_t n = 256; n <= 8192; n *= 2) {
    const Measured measured = best_of_five(kernels, dtype, device, n);
    best = std::max(best, measured.rate);
    if (measured.seconds > kLongEnough) break;
  }
  return best;
}

}  // namespace zt::measure
