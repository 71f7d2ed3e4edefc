// One block while it runs: warps, shared memory, barriers, mbarriers, asynchronous copies, and the checks on
// every access. LaunchState is what the blocks of a launch share.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "checker.h"
#include "global_memory.h"
#include "program.h"
#include "warp.h"

namespace zt::emulator::ptx {

// SplitMix64: orders, by seed.
// Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", figure 16.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t n) { return std::uint32_t((next() >> 32) * n >> 32); }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  std::uint64_t state_;
};

struct LaunchState {
  const Program& program;
  const KernelInfo& info;
  const std::map<int, std::string>& files;
  GlobalMemory& memory;
  const Launch& launch;
  Chance chance;
  Counters counters;
  std::vector<std::uint8_t> constants;
  std::vector<std::byte> parameters;
  std::vector<std::uint8_t> registers;  // of all warps, one after another
  Shadow global_shadow;
  BlockOrder order;
  std::set<std::pair<const void*, std::string>> reported;
  bool abandoned = false;  // deadlock: the rest of the launch is not run

  std::string where(const Inst& inst) const;
};

// A barrier of the block while threads gather at it.
struct Barrier {
  struct Member {
    int warp;
    Mask lanes;
    const Inst* inst;
    bool waits;
  };
  std::vector<Member> members;
  std::uint32_t arrived = 0, expected = 0;
  bool whole_block = false;
  BlockClocks::Snapshot clock;  // of all that arrived, when not the whole block
};

// Source: PTX ISA 9.0, "mbarrier".
struct MBarrier {
  std::uint32_t count = 0, pending = 0;
  std::int64_t bytes = 0;   // of transactions still to come
  std::uint32_t phase = 0;  // how many are complete
  int warp = 0, lane = 0;   // of its init
  std::uint32_t made_at = 0;
  BlockClocks::Snapshot gathering, complete;
};

// cp.async.bulk between global and shared memory.
struct BulkCopy {
  std::uint64_t global = 0;
  std::uint32_t shared = 0, bytes = 0;
  bool to_shared = true;
  std::uint32_t readable = 0;  // bytes that exist on the global side
  struct Row {
    std::uint64_t global;
    std::uint32_t shared, bytes;  // offset in the target, before the swizzle
  };
  std::vector<Row> rows;       // of a copy by tensor map
  std::uint32_t swizzle = 0;   // bytes
  std::uint32_t mbarrier = 0;  // to_shared
  std::uint32_t time = 0;      // of the issue
  int warp = 0, lane = 0;
  std::uint32_t group = 0;  // from shared
  BlockClocks::Snapshot clock;
  const Inst* inst = nullptr;
};

// One wgmma instruction of one warp, not yet done.
struct PendingWgmma {
  const Inst* inst = nullptr;
  std::uint64_t a = 0, b = 0;  // descriptors; `a` unused when A is in registers
  bool accumulate = true;
  std::uint32_t group = 0;
  std::vector<std::uint32_t> accumulators;  // saved at issue by the first of a chain
};

struct Warpgroup {
  std::array<std::deque<PendingWgmma>, 4> pending;
  std::array<std::uint64_t, 4> done{};  // how many of each warp's were done
  std::array<std::uint32_t, 4> group{};
  std::array<bool, 4> fenced{};
  std::array<std::vector<std::uint8_t>, 4> at_fence;  // each warp's registers at its last fence
};

class Block {
 public:
  Block(LaunchState& launch, std::uint8_t* shared, std::uint32_t shared_bytes);

  // Runs block number `number` to its end.
  void run(std::uint32_t number);

  LaunchState& launch() { return l_; }
  bool checks() const { return l_.launch.check; }
  std::uint32_t number() const { return number_; }
  int warps() const { return int(warps_.size()); }
  Warp& warp(int i) { return warps_[i]; }
  BlockClocks& clocks() { return clocks_; }
  std::uint8_t* shared() { return shared_; }
  std::uint32_t shared_bytes() const { return shared_bytes_; }
  std::uint8_t* local(const Warp& w, int lane);

  void finding(const char* kind, const Warp& w, int lane, const Inst& inst, const std::string& text);

  // Which of the lanes may go on with their access. Checks bounds, alignment, initialisation and order, and
  // remembers the access. `address` is an address (global) or an offset (shared) by lane.
  Mask allow_global(Warp& w, const Inst& inst, const std::uint64_t* address, Mask mask, std::uint32_t bytes,
                    AccessKind kind, bool strong = false);
  Mask allow_shared(Warp& w, const Inst& inst, const std::uint64_t* address, Mask mask, std::uint32_t bytes,
                    AccessKind kind, std::uint32_t align = 0);
  // The same for a range of one asynchronous operation.
  bool range_in_shared(Warp& w, int lane, const Inst& inst, std::uint64_t offset, std::uint32_t bytes);
  void async_write(Warp& w, int lane, const Inst& inst, std::uint32_t offset, std::uint32_t bytes);
  void async_landed(Warp& w, int lane, std::uint32_t offset, std::uint32_t bytes, std::uint32_t time);
  void async_read(Warp& w, const Inst& inst, std::uint32_t offset, std::uint32_t bytes, std::uint32_t agent);
  void async_read_done(std::uint32_t offset, std::uint32_t bytes, std::uint32_t agent, std::uint32_t time);
  std::uint64_t allow_global_range(Warp& w, int lane, const Inst& inst, std::uint64_t address,
                                   std::uint32_t bytes, AccessKind kind);
  void mark_written(const Warp& w, std::uint32_t offset, std::uint32_t bytes);
  void require_proxy_fence(Warp& w, const Inst& inst, std::uint32_t offset, std::uint32_t bytes);
  void proxy_fence(Warp& w) { w.fenced_at = ++tick_; }
  void require_published(Warp& w, int lane, const Inst& inst, std::uint32_t mbarrier);
  void publish_mbarriers(Warp& w, Mask lanes);
  std::uint32_t tick() const { return tick_; }

  // Counts passes of shared memory and sectors of global memory.
  void count_banks(const std::uint64_t* offset, Mask mask, std::uint32_t bytes);
  void count_sectors(const std::uint64_t* address, Mask mask, std::uint32_t bytes);

  // The running group of `w` arrives at a barrier; `threads` 0 means the whole block.
  void arrive(Warp& w, const Inst& inst, std::uint32_t barrier, std::uint32_t threads, bool waits, Mask mask);
  void event() { idle_rounds_ = 0; }

  std::map<std::uint32_t, MBarrier>& mbarriers() { return mbarriers_; }
  static void complete_phase_if_due(MBarrier* m);
  std::vector<BulkCopy>& bulk_copies() { return bulks_; }
  void land(std::size_t bulk);
  Warpgroup& warpgroup(int warp) { return warpgroups_[warp / 4]; }

 private:
  void fill_special_registers(std::uint32_t number);
  void take_turn(Warp& w, std::uint32_t instructions);
  bool all_done() const;
  void resolve_stuck();
  void open(std::uint32_t number, Barrier* barrier);
  void check_same_barrier(const Barrier& barrier);
  std::uint32_t returned() const;
  bool ordered(const Epoch& e, int warp, int lane, bool atomic) const;
  bool record(Cell* c, Warp& w, int lane, const Inst& inst, AccessKind kind, bool strong, bool is_shared,
              std::uint64_t address);
  void report_race(const Epoch& other, const char* what, Warp& w, int lane, const Inst& inst, bool is_shared,
                   std::uint64_t address);

  LaunchState& l_;
  std::uint8_t* shared_;
  std::uint32_t shared_bytes_;
  std::uint32_t number_ = 0;
  std::vector<Warp> warps_;
  std::vector<std::uint8_t> local_;
  BlockClocks clocks_;
  Shadow shared_shadow_;
  std::vector<std::uint32_t> written_at_;  // by 16 bytes: warp of the last ordinary write, and its tick
  std::uint32_t tick_ = 1;
  std::map<std::uint32_t, Barrier> barriers_;
  std::map<std::uint32_t, MBarrier> mbarriers_;
  std::vector<BulkCopy> bulks_;
  std::vector<Warpgroup> warpgroups_;
  std::uint64_t idle_rounds_ = 0;
};

}  // namespace zt::emulator::ptx
