#include "measure/rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace zt::measure {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> mean_over_ranks(comm::Communicator& ranks, const std::vector<double>& mine) {
  const std::size_t count = mine.size(), size = static_cast<std::size_t>(ranks.size());
  std::vector<double> all(count * size), mean(count, 0.0);
  ranks.exchange<double>(mine, all);
  for (std::size_t i = 0; i < all.size(); ++i) mean[i % count] += all[i] / static_cast<double>(size);
  return mean;
}

void play_rounds(comm::Communicator& ranks, const Pace& pace, const std::function<void()>& call,
                 const std::function<void()>& before_round, const std::function<void(double)>& after_round) {
  constexpr double kMostCalls = 1e5;
  call();
  ranks.barrier();
  const double before = now();
  call();
  const double once = mean_over_ranks(ranks, {now() - before}).front();
  const auto calls =
      static_cast<std::int64_t>(std::clamp(std::ceil(pace.seconds / std::max(once, 1e-9)), 1.0, kMostCalls));
  for (int round = 0; round < pace.rounds; ++round) {
    before_round();
    ranks.barrier();
    const double start = now();
    for (std::int64_t i = 0; i < calls; ++i) call();
    after_round((now() - start) / static_cast<double>(calls));
  }
}

double seconds_of(comm::Communicator& ranks, const Pace& pace, const std::function<void()>& call) {
  std::vector<double> rounds;
  play_rounds(ranks, pace, call, [] {}, [&](double seconds) { rounds.push_back(seconds); });
  return mean_over_ranks(ranks, {median(rounds)}).front();
}

}  // namespace zt::measure
