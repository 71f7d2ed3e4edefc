#include "measure/product_rate.h"

#include <algorithm>
#include <chrono>

#include "device/arena.h"

namespace zt::measure {

double measure_product_rate(kernels::Kernels& kernels, Dtype dtype) {
  constexpr std::int64_t n = 768;
  const device::Arena memory(3 * n * n * 4, "measuring the product rate");
  const auto matrix = [&](std::int64_t number) { return View(memory.at(number * n * n * 4), dtype, n, n); };
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    kernels.linear({matrix(0), matrix(1), {}, matrix(2)});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * n * n * n / seconds);
  }
  return best;
}

}  // namespace zt::measure
