#include "measure/product_rate.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace zt::measure {

double measure_product_rate(kernels::Kernels& kernels, Dtype dtype, device::Device& device) {
  // A GPU needs more of them at once to be busy.
  const std::int64_t n = device.is_host() ? 768 : 8192;
  const double products = double(n) * double(n) * double(n);
  const device::Arena memory = device.claim(3 * n * n * 4, "measuring the product rate");
  const auto matrix = [&](std::int64_t number) { return View(memory.at(number * n * n * 4), dtype, n, n); };
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernels.linear({matrix(0), matrix(1), {}, matrix(2)});
    float one = 0;  // is there when the product is
    device.to_host(&one, memory.at(2 * n * n * 4), size_of(dtype));
    best = std::max(best, 2 * products / seconds_since(start));
  }
  return best;
}

}  // namespace zt::measure
