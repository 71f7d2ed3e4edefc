// A warp: its registers, which of its lanes stand where, and what it has in flight.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "checker.h"
#include "program.h"

namespace zt::emulator::ptx {

class Block;

// Lanes of a warp that stand at the same instruction.
struct Group {
  enum class State : std::uint8_t {
    ready,
    yielded,  // spins on an mbarrier; others first
    parked,   // at a warp-wide instruction, until the lanes it names have come
    waiting,  // at a barrier of the block
  };
  std::int32_t pc = 0;
  Mask lanes = 0;
  State state = State::ready;
};

// A cp.async that has not landed.
struct PendingCopy {
  std::uint32_t to = 0;    // shared offset
  std::uint64_t from = 0;  // global address
  std::uint32_t bytes = 0, filled = 0;
  std::uint32_t group = 0;
  const Inst* inst = nullptr;
};

struct Warp {
  std::uint8_t* base[2] = {nullptr, nullptr};  // own registers, constants
  Block* block = nullptr;
  int index = 0;
  Mask existing = 0;  // lanes within the block
  Mask live = 0;      // not returned yet

  // The group that runs. `others` holds the rest; `next_pc` is where the nearest of them stands ahead.
  std::int32_t pc = 0;
  Mask lanes = 0;
  std::int32_t next_pc = 0;
  std::vector<Group> others;
  bool stop = false;    // end this turn
  bool forced = false;  // a parked group goes on although lanes are missing

  std::array<std::vector<PendingCopy>, kLanes> copies;
  std::array<std::uint32_t, kLanes> copy_group{};
  std::array<std::uint32_t, kLanes> bulk_group{};
  std::uint64_t instructions = 0;
  std::uint32_t fenced_at = 0;                       // tick of the last fence.proxy.async
  std::array<std::uint32_t, kLanes> published_at{};  // tick of each lane's last fence.mbarrier_init
  std::uint32_t fences = 0;                          // memory fences so far
  bool atomics_since_fence = false;                  // then the next fence acquires
  std::vector<std::uint64_t> atomic_addresses;       // theirs

  void start(int index_in_block, Mask lanes_existing);
  // Takes up the group that is to run next, after merging those that met.
  void regroup();
  // Puts the running group away and takes up another.
  void leave(Group::State state);
  bool runnable() const {
    return lanes != 0 || has(Group::State::ready) || has(Group::State::yielded) || has(Group::State::parked);
  }
  bool has(Group::State state) const {
    for (const Group& g : others) {
      if (g.state == state) return true;
    }
    return false;
  }
  Mask waiting() const {
    Mask m = 0;
    for (const Group& g : others) m |= g.state == Group::State::waiting ? g.lanes : 0;
    return m;
  }
};

// The lanes of a register.
template <typename T>
inline T* lanes_of(const Warp& w, Ref r) {
  return static_cast<T*>(__builtin_assume_aligned(w.base[r & 1] + (r & ~1u), alignof(T)));
}
inline Mask& predicate(const Warp& w, Ref r) { return *lanes_of<Mask>(w, r); }

// At a warp-wide instruction: true when it may run for `present`; false when the group was put away to wait.
bool gather(Warp& w, const Inst& in, Mask present, Mask members);

// Calls f(lane) for every lane of the mask.
template <typename F>
inline void for_lanes(Mask mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(__builtin_ctz(mask));
}

}  // namespace zt::emulator::ptx
