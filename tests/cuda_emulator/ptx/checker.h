// Happens-before inside one launch: who knows of whose accesses, and the last accesses to every byte.
//
// A thread's time is its warp's clock, which ticks at every synchronisation of the warp. A warp knows, for each
// thread of the block, up to which time that thread's accesses come before its own. Lanes of one warp are told
// apart until a __syncwarp or a barrier.
// Source: Flanagan & Freund 2009, "FastTrack: efficient and precise dynamic race detection" (last write and
// last reads as epochs); two reads are remembered.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace zt::emulator::ptx {

inline constexpr int kLanes = 32;
inline constexpr int kMaxWarps = 32;
// Threads 0..1023, then one agent for each warpgroup: the one that reads shared memory for wgmma.
inline constexpr int kAgents = 8;
inline constexpr std::uint32_t kFirstAgent = kLanes * kMaxWarps;

// An access: block, whether it is still in flight (an asynchronous copy that nobody waited for), thread, time,
// whether it was atomic. 0 = none.
class Epoch {
 public:
  Epoch() = default;
  Epoch(std::uint32_t block, bool in_flight, std::uint32_t thread, std::uint32_t time, bool atomic)
      : bits_(std::uint64_t{block + 1} << 43 | std::uint64_t{in_flight} << 42 | std::uint64_t{thread} << 31 |
              std::uint64_t{time & 0x3fffffff} << 1 | std::uint64_t{atomic}) {}
  bool none() const { return bits_ == 0; }
  std::uint32_t block() const { return std::uint32_t(bits_ >> 43) - 1; }
  bool in_flight() const { return bits_ >> 42 & 1; }
  std::uint32_t thread() const { return bits_ >> 31 & 0x7ff; }
  std::uint32_t time() const { return bits_ >> 1 & 0x3fffffff; }
  bool atomic() const { return bits_ & 1; }
  bool operator==(const Epoch&) const = default;

 private:
  std::uint64_t bits_ = 0;
};

// Clocks of the block that runs.
class BlockClocks {
 public:
  using Snapshot = std::vector<std::uint32_t>;  // by thread and agent: known up to this time

  void start(int warps);
  std::uint32_t now(int warp) const { return clock_[warp]; }

  // Is the access of `thread` at `time` before what `lane` of `warp` does now?
  bool ordered(std::uint32_t thread, std::uint32_t time, int warp, int lane) const {
    const int other = int(thread / kLanes);
    if (other == warp) {
      if (int(thread % kLanes) == lane || time <= warp_synced_[warp]) return true;
      return partial_[warp] != nullptr && time <= (*partial_[warp])[lane][thread % kLanes];
    }
    if (thread < kFirstAgent && time <= block_synced_[other]) return true;
    return !known_.empty() && time <= known(warp)[index(thread)];
  }

  void sync_lanes(int warp, Mask lanes, Mask live);  // __syncwarp
  void sync_block();                                 // __syncthreads of all
  // What `lanes` of the warp know and did, and a tick: what they do later is not part of it.
  Snapshot release(int warp, Mask lanes);
  void acquire(int warp, const Snapshot& from);
  static void join(Snapshot* into, const Snapshot& from);

  // A warpgroup's asynchronous reads are done: the warp learns of all of them up to now.
  std::uint32_t agent_time(int group) const { return agent_clock_[group]; }
  void tick_agent(int group) { ++agent_clock_[group]; }
  void learn_agent(int warp, int group);

 private:
  using Partial = std::array<std::array<std::uint32_t, kLanes>, kLanes>;
  std::uint32_t index(std::uint32_t thread) const {
    return thread < kFirstAgent ? thread : std::uint32_t(warps_ * kLanes) + thread - kFirstAgent;
  }
  std::uint32_t width() const { return std::uint32_t(warps_ * kLanes + kAgents); }
  const std::uint32_t* known(int warp) const { return &known_[std::size_t(warp) * width()]; }
  std::uint32_t* known(int warp) { return &known_[std::size_t(warp) * width()]; }
  void make_known();

  int warps_ = 0;
  std::array<std::uint32_t, kMaxWarps> clock_{}, warp_synced_{}, block_synced_{};
  std::array<std::uint32_t, kAgents> agent_clock_{};
  std::array<std::unique_ptr<Partial>, kMaxWarps> partial_;
  std::vector<std::uint32_t> known_;  // [warp][thread or agent]; made when first needed
};

// The last accesses to one granule of memory.
struct Cell {
  Epoch write, read0, read1;
};

// Cells of 4 KiB of memory. A granule is as large as the accesses seen, and is split when a smaller one comes.
class ShadowPage {
 public:
  static constexpr int kShift = 12;
  static constexpr std::uint32_t kBytes = 1u << kShift;

  // The cells of [offset, offset + bytes) of the page, which must lie in it.
  std::pair<Cell*, Cell*> cells(std::uint32_t offset, std::uint32_t bytes) {
    if (((offset | bytes) & ((1u << shift_) - 1)) != 0 || cells_.empty()) refine(offset | bytes);
    return {&cells_[offset >> shift_], &cells_[(offset + bytes) >> shift_]};
  }
  std::uint32_t granule() const { return 1u << shift_; }

 private:
  void refine(std::uint32_t alignment_bits);
  int shift_ = 4;
  std::vector<Cell> cells_;
};

// Pages by address, for one launch (global memory) or one block after another (shared memory).
class Shadow {
 public:
  ShadowPage& page(std::uint64_t address) {
    const std::uint64_t number = address >> ShadowPage::kShift;
    if (last_ == nullptr || number != last_number_) {
      last_ = &pages_[number];
      last_number_ = number;
    }
    return *last_;
  }
  void clear() {
    pages_.clear();
    last_ = nullptr;
  }

 private:
  std::unordered_map<std::uint64_t, ShadowPage> pages_;
  ShadowPage* last_ = nullptr;
  std::uint64_t last_number_ = 0;
};

// Order between blocks: a thread that fenced and then did an atomic releases what it knows at that address; one
// that did an atomic there and then fences acquires it, for its whole block.
class BlockOrder {
 public:
  void release(std::uint64_t address, std::uint32_t block, BlockClocks::Snapshot snapshot);
  void acquire(std::uint64_t address);
  void start_block() { acquired_.clear(); }
  bool ordered(const Epoch& e) const;
  void clear();

 private:
  using Known = std::unordered_map<std::uint32_t, BlockClocks::Snapshot>;  // by block
  std::unordered_map<std::uint64_t, Known> released_;
  Known acquired_;
};

}  // namespace zt::emulator::ptx
