// Which piece of work happens before which, by what the program declared: streams, events and waits of the host.
//
// Every enqueued piece of work is an op with a vector clock: one component per stream of its device, component 0 for the
// host. Op a happens before op b if b's clock has reached a's place in a's stream. (Lamport 1978; Mattern 1989, "Virtual
// time and global states of distributed systems".) What ops of two devices do is never ordered: they share no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zt::emulator {

using Clock = std::vector<std::uint32_t>;

// a becomes the componentwise maximum; true if it changed.
bool merge(Clock* a, const Clock& b);

struct Op {
  std::uint32_t id = 0;  // from 1, of the whole process
  int device = 0;
  std::uint32_t component = 0;
  std::uint32_t sequence = 0;  // place in its stream
  Clock clock;
  std::string name;  // "gemm 64x32x64", "rms_norm_forward"
};

// Kept for ever, because memory remembers ops by number.
Op* record_op(int device, std::uint32_t component, std::uint32_t sequence, const Clock& clock,
              const std::string& name);
const Op& op_of(std::uint32_t id);

// Everything recorded so far on the device lies before everything recorded later: it is idle and the host knows it.
void forget_history(int device);

bool happens_before(std::uint32_t earlier, const Op& later);

// The op that this thread is running for the emulated device; none while host code runs.
const Op* current_op();
class RunningOp {
 public:
  explicit RunningOp(const Op* op);
  ~RunningOp();
  RunningOp(const RunningOp&) = delete;
  RunningOp& operator=(const RunningOp&) = delete;

 private:
  const Op* before_;
};

}  // namespace zt::emulator
