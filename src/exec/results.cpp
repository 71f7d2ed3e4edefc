#include "exec/results.h"

#include <numeric>

namespace zt::exec {

Results::Results(const shard::ParamStore& store, std::int64_t micros)
    : device_(store.device()), micros_(micros), count_(micros) {
  for (int b = 0; b < store.blocks(); ++b) {
    first_square_.push_back(count_);
    if (store.training()) count_ += static_cast<std::int64_t>(store.owned_gradient(b).size());
  }
  first_square_.push_back(count_++);
  here_.resize(static_cast<std::size_t>(count_));
  if (!device_.is_host()) memory_ = device_.claim(count_ * 8, "a step's results");
  values_ = device_.is_host() ? here_.data() : memory_.as<double>();
}

void Results::clear() { device_.fill(values_, 0, count_ * 8); }

void Results::fetch_all() {
  if (!device_.is_host()) device_.to_host(here_.data(), values_, count_ * 8);
}

// In order, so that the bits don't depend on who waits for what.
void Results::fetch(std::vector<double>& sums) {
  fetch_all();
  const auto sum = [this](std::int64_t first, std::int64_t end) {
    return std::accumulate(here_.begin() + first, here_.begin() + end, 0.0);
  };
  sums.clear();
  sums.push_back(sum(0, micros_));
  for (std::size_t b = 0; b + 1 < first_square_.size(); ++b)
    sums.push_back(sum(first_square_[b], first_square_[b + 1]));
}

double Results::loss() {
  fetch_all();
  return std::accumulate(here_.begin(), here_.begin() + micros_, 0.0);
}

double Results::fetch_spare() {
  if (!device_.is_host()) device_.to_host(&here_.back(), spare(), 8);
  return here_.back();
}

}  // namespace zt::exec
