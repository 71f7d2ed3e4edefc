// Rows of unequal cost dealt out to ranks, so that none waits long for another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zt::train {

// Which of a step's samples stands in which slot: micro-batch m of rank r has slots (m x ranks + r) x rows to
// (m x ranks + r + 1) x rows. Samples of like cost come at the same time, since ranks meet in every micro-batch, and
// among those each goes to the rank with the least so far. Equal costs: sample i stands in slot i. costs.size() is a
// multiple of rows x ranks.
//
// Source: Graham 1969, "Bounds on multiprocessing timing anomalies" (longest processing time first).
std::vector<std::int64_t> deal(std::span<const double> costs, std::int64_t rows, int ranks);

// How long ranks wait: the time of the step (in each micro-batch that of the slowest rank) over what it would be if all
// costs were spread evenly. 1: no waiting.
double imbalance(std::span<const double> costs, std::span<const std::int64_t> slots, std::int64_t rows,
                 int ranks);

}  // namespace zt::train
