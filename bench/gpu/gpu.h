// What the benchmarks of one GPU share: its memory, its clock, and the ceilings that everything is measured against.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "kernels/cuda_kernels.h"
#include "tensor/view.h"

namespace zt::bench {

// Rates that this GPU reached in this run.
struct Ceilings {
  double flops = 0;  // a second, of bf16 products
  double bytes = 0;  // a second, read and written, of copies
};

// Seconds of one call: the median of some rounds, and how far rounds lie apart, as a share of it.
struct Timing {
  double seconds = 0, spread = 0;
};
Timing timing_of(std::vector<double> rounds);

// One GPU, its kernels, and matrices in its memory. What is printed is written out line by line.
class Gpu {
 public:
  // `tiny`: shapes so small that an emulated GPU has them done in seconds. Its times mean nothing.
  explicit Gpu(bool tiny);

  bool tiny() const { return tiny_; }
  // The emulated one. Others give memory by whole pages, and their libraries take some.
  bool counts_exactly() const { return device_.name().starts_with("emulated"); }
  cuda::CudaDevice& device() { return device_; }
  kernels::CudaKernels& kernels() { return *kernels_; }
  // `real` on a GPU, `small` with --tiny.
  std::int64_t size(std::int64_t real, std::int64_t small) const { return tiny_ ? small : real; }

  // Matrices live until the next `clear()`.
  View zeros(Dtype dtype, std::int64_t rows, std::int64_t cols);
  // Normal numbers: products of zeros draw less power, and so run faster.
  View normal(Dtype dtype, std::int64_t rows, std::int64_t cols);
  // Element i is f(i).
  View whole_numbers(std::int64_t count, const std::function<std::int32_t(std::int64_t)>& f);
  void clear() { memory_.clear(); }

  // Of one call of `work`, between two events around as many calls as take about a fifth of a second, in five such rounds.
  // The first calls, which may choose algorithms and wake the GPU, are not counted.
  Timing time(const std::function<void()>& work);
  // Seconds between two events around one call of `work`.
  double seconds_once(const std::function<void()>& work);

 private:
  double round(int calls, const std::function<void()>& work);

  bool tiny_;
  cuda::CudaDevice device_;
  std::unique_ptr<kernels::CudaKernels> kernels_;
  std::vector<device::Arena> memory_;
};

// Bytes of the GPU that are taken, by everybody.
std::int64_t taken_bytes();
std::int64_t free_bytes();

// "12.3 TFLOP/s" and the like.
inline double tera(double rate) { return rate / 1e12; }

Ceilings measure_ceilings(Gpu& gpu);
void measure_kernels(Gpu& gpu, const Ceilings& ceilings);
void measure_attention(Gpu& gpu, const Ceilings& ceilings);
// `peak_flops`: a second, of bf16 products by the GPU's data sheet; 0: unknown. `only`: a model's name, or empty for all.
// Error(usage) where no model has that name.
void measure_steps(Gpu& gpu, const Ceilings& ceilings, double peak_flops, const std::string& only);
// What the steps will claim of a GPU's memory. Needs no GPU.
void print_plans(const std::string& only);

}  // namespace zt::bench
