#include "measure/links.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>

#include "device/arena.h"
#include "kernels/kernels.h"
#include "measure/rounds.h"

namespace zt::measure {
namespace {

std::vector<std::int64_t> sizes_of(bool quick) {
  if (quick) return {4 << 10, 64 << 10, 1 << 20};
  return {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
}

// Elements of a rank's slice of a buffer of `bytes`.
std::int64_t slice_of(std::int64_t bytes, const comm::Communicator& ranks) {
  return std::max<std::int64_t>(16, bytes / 4 / ranks.size() / 16 * 16);
}

// Seconds of a collective over slices of several sizes.
template <typename Collective>
plan::Link measure(comm::Communicator& ranks, const Options& options, const Collective& collective) {
  const Pace pace = options.quick ? Pace{0.005, 3} : Pace{};
  const std::vector<std::int64_t> sizes = sizes_of(options.quick);
  const device::Arena memory(2 * slice_of(sizes.back(), ranks) * ranks.size() * 4, "measuring messages");
  std::vector<double> moved, seconds;
  for (const std::int64_t bytes : sizes) {
    const std::int64_t slice = slice_of(bytes, ranks), whole = slice * ranks.size() * 4;
    // Two buffers in turn, as two blocks of a model.
    bool second = false;
    seconds.push_back(seconds_of(ranks, pace, [&] {
      collective(memory.at(second ? whole : 0), slice);
      second = !second;
    }));
    moved.push_back(static_cast<double>(whole - slice * 4));
  }
  plan::Link link = fit_link(moved, seconds);
  link.latency /= ranks.size() - 1;  // a plan counts that many messages
  return link;
}

}  // namespace

// Least squares of (latency + bytes / bandwidth - seconds) / seconds.
plan::Link fit_link(const std::vector<double>& bytes, const std::vector<double>& seconds) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0, best = 0, least = seconds.front();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double weight = 1 / (seconds[i] * seconds[i]), x = bytes[i], y = seconds[i];
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * y;
    wxy += weight * x * y;
    best = std::max(best, x / y);
    least = std::min(least, y);
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  if (!(slope > 0)) return {best, least};
  const double latency = (wy - slope * wx) / w;
  if (latency >= 0) return {1 / slope, latency};
  return {wxx / wxy, 0};  // the best line through the origin
}

Links measure_links(comm::Communicator& ranks, const Options& options) {
  if (ranks.size() == 1) return {};
  return {measure(ranks, options,
                  [&](std::byte* whole, std::int64_t slice) { ranks.all_gather(whole, slice * 4); }),
          measure(ranks, options, [&](std::byte* whole, std::int64_t slice) {
            ranks.reduce_scatter(whole, Dtype::f32, Dtype::f32, slice);
          })};
}

namespace {

// One rank's two lanes.
class TwoLanes {
 public:
  TwoLanes(comm::Communicator& ranks, const Options& options)
      : ranks_(ranks),
        seconds_(options.quick ? 0.02 : 0.4),
        slice_(slice_of(options.quick ? 256 << 10 : 8 << 20, ranks)),
        buffers_(2 * slice_ * ranks.size() * 4, "measuring messages"),
        matrices_(3 * kWidth * kWidth * 4, "measuring products"),
        kernels_(kernels::make_cpu_kernels()) {}

  Overlap measure();

 private:
  static constexpr std::int64_t kWidth = 512;

  void multiply() {
    const auto matrix = [&](std::int64_t i) {
      return View(matrices_.as<float>(i * kWidth * kWidth * 4), kWidth, kWidth);
    };
    kernels_->linear({matrix(0), matrix(1), {}, matrix(2)});
  }
  void gather(std::int64_t i) {
    ranks_.all_gather(buffers_.at(i % 2 * slice_ * ranks_.size() * 4), slice_ * 4);
  }

  comm::Communicator& ranks_;
  double seconds_;
  std::int64_t slice_;
  device::Arena buffers_, matrices_;
  std::unique_ptr<kernels::Kernels> kernels_;
};

Overlap TwoLanes::measure() {
  const Pace pace{seconds_, 3};
  std::int64_t turn = 0;
  const double product = seconds_of(ranks_, pace, [&] { multiply(); });
  const double alone = seconds_of(ranks_, pace, [&] { gather(turn++); });
  const auto gathers = static_cast<std::int64_t>(std::ceil(seconds_ / alone));
  std::vector<double> computing, moving;
  for (int round = 0; round < 3; ++round) {
    ranks_.barrier();
    std::atomic<bool> done{false};
    double moved = 0;
    std::exception_ptr failed;
    std::jthread lane([&] {
      const double start = now();
      try {
        for (std::int64_t i = 0; i < gathers; ++i) gather(i);
      } catch (...) {
        failed = std::current_exception();
      }
      moved = now() - start;
      done = true;
    });
    std::int64_t products = 0;
    const double start = now();
    while (!done) {
      multiply();
      ++products;
    }
    computing.push_back(static_cast<double>(products) * product / (now() - start));
    lane.join();
    if (failed) std::rethrow_exception(failed);
    moving.push_back(static_cast<double>(gathers) * alone / moved);
  }
  const std::vector<double> mean = mean_over_ranks(ranks_, {median(computing), median(moving)});
  return {std::clamp(mean[0], 0.01, 1.0), std::clamp(mean[1], 0.01, 1.0)};
}

}  // namespace

Overlap measure_overlap(comm::Communicator& ranks, const Options& options) {
  if (ranks.size() == 1) return {};
  return TwoLanes(ranks, options).measure();
}

}  // namespace zt::measure
