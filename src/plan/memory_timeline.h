// What lies in a step's arena, op by op.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "recipe/words.h"
#include "schedule/schedule.h"

namespace zt::plan {

// Who holds bytes of the arena. What a recompute op bore is counted apart, whatever it is.
enum class Occupant : std::uint8_t {
  gathered_weights,      // W
  whole_gradients,       // G
  block_inputs,          // X
  activations,           // S of forwards
  recomputed,            // X and S of recomputation
  activation_gradients,  // D
};
inline constexpr std::size_t kOccupants = 6;

// The ids of bills and JSON.
inline std::vector<recipe::Word<Occupant>> words(Occupant) {
  return {{Occupant::gathered_weights, "gathered_weights"},
          {Occupant::whole_gradients, "whole_gradients"},
          {Occupant::block_inputs, "block_inputs"},
          {Occupant::activations, "activations"},
          {Occupant::recomputed, "recomputed"},
          {Occupant::activation_gradients, "activation_gradients"}};
}

// While an op of the list runs: after its births, before its frees.
struct MemoryPoint {
  int op = 0;
  std::array<std::int64_t, kOccupants> bytes{};  // by Occupant, each slot rounded up to schedule::kAlignment
  std::int64_t of(Occupant who) const { return bytes[static_cast<std::size_t>(who)]; }
  std::int64_t live() const;  // at most the list's arena_bytes; the rest are gaps
};

// One point for each op. Beside the arena a rank holds the same bytes all the time: StepPlan::total() - StepPlan::arena.
std::vector<MemoryPoint> memory_timeline(const schedule::Schedule& list);
// The first op with the most bytes. The list has ops.
MemoryPoint busiest(const std::vector<MemoryPoint>& timeline);

}  // namespace zt::plan
