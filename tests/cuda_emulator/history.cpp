#include "cuda_emulator/history.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>

namespace zt::emulator {
namespace {

struct History {
  std::mutex mutex;
  std::deque<Op> ops;
  // Ops of a device with smaller ids lie before all that come.
  std::array<std::atomic<std::uint32_t>, 16> begin{};
};

History& history() {
  static auto* only = new History;
  return *only;
}

thread_local const Op* running = nullptr;

}  // namespace

bool merge(Clock* a, const Clock& b) {
  bool changed = false;
  if (a->size() < b.size()) a->resize(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    if ((*a)[i] >= b[i]) continue;
    (*a)[i] = b[i];
    changed = true;
  }
  return changed;
}

Op* record_op(int device, std::uint32_t component, std::uint32_t sequence, const Clock& clock,
              const std::string& name) {
  History& h = history();
  const std::lock_guard lock(h.mutex);
  const auto id = static_cast<std::uint32_t>(h.ops.size() + 1);
  h.ops.push_back({id, device, component, sequence, clock, name});
  return &h.ops.back();
}

const Op& op_of(std::uint32_t id) {
  History& h = history();
  const std::lock_guard lock(h.mutex);
  return h.ops[id - 1];
}

void forget_history(int device) {
  History& h = history();
  const std::lock_guard lock(h.mutex);
  h.begin[device] = static_cast<std::uint32_t>(h.ops.size() + 1);
}

bool happens_before(std::uint32_t earlier, const Op& later) {
  if (earlier == later.id) return true;
  if (earlier < history().begin[later.device].load(std::memory_order_relaxed)) return true;
  const Op& e = op_of(earlier);
  return e.component < later.clock.size() && later.clock[e.component] >= e.sequence;
}

const Op* current_op() { return running; }

RunningOp::RunningOp(const Op* op) : before_(running) { running = op; }
RunningOp::~RunningOp() { running = before_; }

}  // namespace zt::emulator
