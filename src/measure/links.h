// What collectives take, and how they and computation slow each other down.
#pragma once

#include "measure/calibrate.h"

namespace zt::measure {

struct Links {
  plan::Link gather, reduce;
};
// The line latency + moved / bandwidth that fits all measured sizes best by relative error; moved = (N-1)/N of the
// whole buffer, and latency that of N-1 messages. One rank: infinitely fast is 0. Collective.
Links measure_links(comm::Communicator& ranks, const Options& options);

// latency and bandwidth that fit seconds over bytes. Neither is below 0; a line that falls has no end of bandwidth,
// which is told as the best one seen.
plan::Link fit_link(const std::vector<double>& bytes, const std::vector<double>& seconds);

// Speeds of computing and of moving while the other goes on, as a share of alone: each rank multiplies on one thread and
// gathers on another, as lanes do. Collective.
struct Overlap {
  double compute = 1, comm = 1;
};
Overlap measure_overlap(comm::Communicator& ranks, const Options& options);

}  // namespace zt::measure
