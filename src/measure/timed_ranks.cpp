#include "measure/timed_ranks.h"

#include "measure/rounds.h"

namespace zt::measure {

template <typename Call>
static void time(MessageTimes& times, std::int64_t bytes, const Call& call) {
  const double start = now();
  call();
  Time& time = times[bytes];
  time.seconds += now() - start;
  ++time.calls;
}

void TimedRanks::do_all_gather(std::byte* whole, std::int64_t slice_bytes) {
  time(gathers, slice_bytes * (size() - 1), [&] { ranks_.all_gather(whole, slice_bytes); });
}

void TimedRanks::do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  time(reductions, slice_elements * zt::size_of(wire) * (size() - 1),
       [&] { ranks_.reduce_scatter(whole, dtype, wire, slice_elements); });
}

}  // namespace zt::measure
