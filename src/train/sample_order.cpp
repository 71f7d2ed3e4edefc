#include "train/sample_order.h"

#include <algorithm>

namespace zt::train {

using checkpoint::SampleRange;

std::int64_t SampleOrder::number(std::int64_t place) const {
  std::int64_t number = place;
  for (const SampleRange& range : left_out_) {
    if (number < range.first) break;
    number += range.count;
  }
  return number;
}

std::int64_t SampleOrder::places_before(std::int64_t number) const {
  std::int64_t places = number;
  for (const SampleRange& range : left_out_)
    places -= std::clamp<std::int64_t>(number - range.first, 0, range.count);
  return places;
}

void SampleOrder::leave_out(std::int64_t place, std::int64_t count) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(number(place + i));
  for (const SampleRange& range : left_out_)
    for (std::int64_t i = 0; i < range.count; ++i) numbers.push_back(range.first + i);
  std::ranges::sort(numbers);
  left_out_.clear();
  for (const std::int64_t number : numbers) {
    if (!left_out_.empty() && left_out_.back().first + left_out_.back().count == number)
      ++left_out_.back().count;
    else
      left_out_.push_back({number, 1});
  }
}

}  // namespace zt::train
