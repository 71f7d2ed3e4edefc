// A good state of a run in memory, to go back to.
#pragma once

#include <cstdint>
#include <optional>

#include "device/arena.h"
#include "shard/param_store.h"
#include "train/bad_steps.h"
#include "train/loss_scale.h"

namespace zt::train {

// What of a run's standing moves with its tensors.
struct Standing {
  std::int64_t step = 0, updates = 0;
  LossScale scale;
  BadSteps bad_steps;
};

// Each rank holds its own share; all hold and go back at the same step.
class HeldState {
 public:
  // Claims the memory now. `store` must outlive this. Throws Error(machine) when memory is short.
  explicit HeldState(shard::ParamStore& store)
      : store_(store), memory_(store.state_bytes(), "the copy that a run goes back to") {}

  void hold(const Standing& now) {
    store_.copy_state_to(memory_.at(0));
    standing_ = now;
  }
  // Puts the tensors back and says what else they belong to. Something must be held.
  const Standing& go_back() {
    store_.copy_state_from(memory_.at(0));
    return *standing_;
  }
  std::int64_t step() const { return standing_->step; }
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  shard::ParamStore& store_;
  device::Arena memory_;
  std::optional<Standing> standing_;
};

}  // namespace zt::train
