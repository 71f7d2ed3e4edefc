// How something is timed while all ranks of a machine are busy with it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"

namespace zt::measure {

double now();  // seconds of a clock that never goes back
double median(std::vector<double> values);
// The mean over the ranks of each rank's numbers. Collective.
std::vector<double> mean_over_ranks(comm::Communicator& ranks, const std::vector<double>& mine);

struct Pace {
  double seconds =
      0.06;  // of a round: many time slices of the system's scheduler, should ranks have to share cores
  int rounds = 3;
};

// Calls `call` once to warm up and once to see how long it takes, then in rounds of as many calls as last
// `pace.seconds`; all ranks start a round at the same time and make the same number of calls. `before_round` is called
// first, `after_round` gets this rank's seconds a call. Collective.
void play_rounds(comm::Communicator& ranks, const Pace& pace, const std::function<void()>& call,
                 const std::function<void()>& before_round, const std::function<void(double)>& after_round);

// Seconds of one call: the median over rounds, then the mean over ranks. Collective.
double seconds_of(comm::Communicator& ranks, const Pace& pace, const std::function<void()>& call);

}  // namespace zt::measure
