#include "report/curve.h"

#include <algorithm>
#include <cmath>

namespace zt::report {
namespace {

void add_to(Bin* bin, const Bin& more) {
  if (more.count == 0) return;
  bin->min = bin->count == 0 ? more.min : std::min(bin->min, more.min);
  bin->max = bin->count == 0 ? more.max : std::max(bin->max, more.max);
  bin->steps += more.steps, bin->sum += more.sum, bin->count += more.count;
}

// Every two become one.
std::vector<Bin> halved(const std::vector<Bin>& bins) {
  std::vector<Bin> out((bins.size() + 1) / 2);
  for (std::size_t i = 0; i < bins.size(); ++i) add_to(&out[i / 2], bins[i]);
  return out;
}

}  // namespace

void Curve::add(std::int64_t step, double value) {
  if (step < 0) return;
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  if (count_ == 0) {
    first_ = step, last_step_ = step, last_ = min_ = max_ = value;
  }
  make_room(step);
  const std::int64_t at = std::max<std::int64_t>(0, step - first_) / width_;
  if (at >= static_cast<std::int64_t>(bins_.size())) bins_.resize(static_cast<std::size_t>(at) + 1);
  add_to(&bins_[static_cast<std::size_t>(at)], {double(step), value, value, value, 1});
  ++count_;
  min_ = std::min(min_, value), max_ = std::max(max_, value);
  if (step >= last_step_) last_step_ = step, last_ = value;
}

void Curve::make_room(std::int64_t step) {
  while ((step - first_) / width_ >= most_) {
    bins_ = halved(bins_);
    width_ *= 2;
  }
}

std::vector<Bin> Curve::bins() const { return bins(most_); }

std::vector<Bin> Curve::bins(int most) const {
  std::vector<Bin> out = bins_;
  while (static_cast<int>(out.size()) > most) out = halved(out);
  std::erase_if(out, [](const Bin& bin) { return bin.count == 0; });
  return out;
}

}  // namespace zt::report
