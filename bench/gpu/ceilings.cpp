// What the GPU can do at most, measured here: products and copies.
#include <algorithm>

#include "gpu.h"

namespace zt::bench {
namespace {

// The better of two layouts of one product, y = x w^T and y = x w, by cuBLASLt.
double product_rate(Gpu& gpu) {
  const std::int64_t n = gpu.size(8192, 64);
  const View x = gpu.normal(Dtype::bf16, n, n), w = gpu.normal(Dtype::bf16, n, n),
             y = gpu.zeros(Dtype::bf16, n, n);
  Timing best{1e30};
  for (const bool w_is_IO : {false, true}) {
    const Timing now = gpu.time([&] { gpu.kernels().linear({x, w, {}, y, w_is_IO}); });
    if (now.seconds < best.seconds) best = now;
  }
  gpu.clear();
  const double rate = 2.0 * double(n) * double(n) * double(n) / best.seconds;
  fmt::print(
      "matrix ceiling: cuBLASLt bf16 {0} x {0} x {0}, sums in fp32: {1:.1f} TFLOP/s (2 n^3 / time, spread "
      "{2:.1f} %)\n",
      n, tera(rate), 100 * best.spread);
  return rate;
}

double copy_rate(Gpu& gpu) {
  const std::int64_t bytes = gpu.size(std::int64_t{4} << 30, 1 << 12);
  const View from = gpu.zeros(Dtype::bf16, 1, bytes / 2), to = gpu.zeros(Dtype::bf16, 1, bytes / 2);
  const Timing time = gpu.time([&] { gpu.device().copy(to.data, from.data, bytes); });
  gpu.clear();
  const double rate = 2.0 * double(bytes) / time.seconds;
  fmt::print("copy ceiling:   {} bytes inside the GPU: {:.0f} GB/s (read and written, spread {:.1f} %)\n",
             bytes, rate / 1e9, 100 * time.spread);
  return rate;
}

}  // namespace

Ceilings measure_ceilings(Gpu& gpu) { return {product_rate(gpu), copy_rate(gpu)}; }

}  // namespace zt::bench
