#include "data/mixture.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace zt::data {

std::vector<std::int64_t> shares_of(const std::vector<double>& weights) {
  constexpr double kScale = 1e6;
  bool exact = true;
  double sum = 0;
  for (const double weight : weights) {
    sum += weight;
    exact = exact && weight < 1e6 && std::abs(weight * kScale - std::round(weight * kScale)) < 1e-6 &&
            weight * kScale > 0.5;
  }
  std::vector<std::int64_t> shares;
  std::int64_t divisor = 0;
  for (const double weight : weights) {
    const double scaled = exact ? weight * kScale : weight / sum * 0x1p30;
    shares.push_back(std::max<std::int64_t>(1, std::llround(scaled)));
    divisor = std::gcd(divisor, shares.back());
  }
  for (std::int64_t& share : shares) share /= divisor;
  return shares;
}

Mixture::Mixture(std::vector<std::int64_t> shares) : shares_(std::move(shares)) {
  for (const std::int64_t share : shares_) {
    if (share <= 0) throw Error(Blame::bug, "a source without a share was mixed in");
    sum_ += share;
  }
  here_.counts.assign(shares_.size(), 0);
  known_.push_back(here_);
}

// The source that must come now lest it fall behind its due: the one whose time runs out first among those due.
std::size_t Mixture::next(const Place& place) const {
  using Wide = __int128;
  const Wide slack = std::max<Wide>(1, 2 * static_cast<Wide>(shares_.size()) - 2);
  const Wide n = place.n + 1;
  std::size_t best = shares_.size();
  Wide best_left = 0;
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    const Wide due = slack * (n * shares_[s] - Wide{place.counts[s]} * sum_);
    if (due < sum_) continue;
    const Wide left = slack * sum_ - sum_ - due;  // over shares_[s]: draws until it is too late
    if (best == shares_.size() || left * shares_[best] < best_left * shares_[s]) {
      best = s;
      best_left = left;
    }
  }
  return best;
}

void Mixture::step(Place& place) const {
  ++place.counts[next(place)];
  ++place.n;
}

Draw Mixture::at(std::int64_t n) const {
  if (n < here_.n)
    here_ = known_[static_cast<std::size_t>(
        std::min<std::int64_t>(n / kStride, static_cast<std::int64_t>(known_.size()) - 1))];
  while (here_.n < n) {
    step(here_);
    if (here_.n == static_cast<std::int64_t>(known_.size()) * kStride) known_.push_back(here_);
  }
  const std::size_t source = next(here_);
  return {source, here_.counts[source]};
}

}  // namespace zt::data
