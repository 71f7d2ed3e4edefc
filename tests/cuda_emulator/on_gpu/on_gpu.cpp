// emulator.h for a machine with a GPU: the same tests run against the real libraries, where nothing is watched, so there
// is never a finding, a count or a logged wait. compute-sanitizer looks instead.
#include "cuda_emulator/emulator.h"

namespace zt::emulator {

std::vector<Finding> take_findings() { return {}; }
std::string to_string(const std::vector<Finding>&) { return ""; }
void configure(std::uint64_t, Policy, Order, bool) {}
void set_device_memory(std::size_t) {}
void set_patience_ms(int) {}
Counters counters(const std::string&) { return {}; }
void reset_counters() {}
std::vector<Wait> waits(int) { return {}; }
void forget_wait(int, std::int64_t) {}

}  // namespace zt::emulator
