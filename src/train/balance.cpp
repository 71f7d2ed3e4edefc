#include "train/balance.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace zt::train {

std::vector<std::int64_t> deal(std::span<const double> costs, std::int64_t rows, int ranks) {
  std::vector<std::int64_t> samples(costs.size());
  std::iota(samples.begin(), samples.end(), 0);
  const auto cost = [&](std::int64_t sample) { return costs[static_cast<std::size_t>(sample)]; };
  if (ranks == 1 || costs.empty() || std::ranges::min(costs) == std::ranges::max(costs)) return samples;
  std::ranges::stable_sort(samples, std::greater(), cost);
  std::vector<std::int64_t> slots;
  std::vector<double> before(static_cast<std::size_t>(ranks));  // of each rank, in earlier micro-batches
  const auto together = static_cast<std::size_t>(rows * ranks);
  for (std::size_t first = 0; first < samples.size(); first += together) {
    std::vector<std::vector<std::int64_t>> of(static_cast<std::size_t>(ranks));
    std::vector<double> load(static_cast<std::size_t>(ranks));
    for (const std::int64_t sample : std::span(samples).subspan(first, together)) {
      std::size_t best = of.size();
      for (std::size_t r = 0; r < of.size(); ++r) {
        const bool room = static_cast<std::int64_t>(of[r].size()) < rows;
        if (room && (best == of.size() || std::tie(load[r], before[r]) < std::tie(load[best], before[best])))
          best = r;
      }
      of[best].push_back(sample);
      load[best] += cost(sample);
    }
    for (std::size_t r = 0; r < of.size(); ++r) {
      before[r] += load[r];
      std::ranges::sort(of[r]);
      slots.insert(slots.end(), of[r].begin(), of[r].end());
    }
  }
  return slots;
}

double imbalance(std::span<const double> costs, std::span<const std::int64_t> slots, std::int64_t rows,
                 int ranks) {
  double waited = 0, total = 0;
  for (std::size_t first = 0; first < slots.size();) {
    double slowest = 0;
    for (int r = 0; r < ranks; ++r) {
      double load = 0;
      for (std::int64_t i = 0; i < rows; ++i) load += costs[static_cast<std::size_t>(slots[first++])];
      slowest = std::max(slowest, load);
      total += load;
    }
    waited += slowest;
  }
  return total > 0 ? waited * ranks / total : 1;
}

}  // namespace zt::train
