// What a run's data come to, for people.
#pragma once

#include <string>
#include <vector>

#include "data/open_data.h"

namespace zt::data {

// One line a source, of what was read, left out and why; then tokens, trained share, filling and mixture of all.
std::vector<std::string> summary_of(const DataSets& sets, const recipe::Data& settings);

// "43.2 % of 12,345 tokens are trained (train_on: all_answers)".
std::string trained_share(const DataSets& sets, const recipe::Data& settings);

}  // namespace zt::data
