#include "block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/text.h"

namespace zt::emulator::ptx {

namespace {

constexpr std::uint32_t kFirstTurn = 24;    // shortest longest turn
constexpr std::uint32_t kIdleRounds = 256;  // nothing but polling for so long is a deadlock
constexpr std::uint64_t kInstructionsOfAWarp = 400'000'000;

}  // namespace

Block::Block(LaunchState& launch, std::uint8_t* shared, std::uint32_t shared_bytes)
    : l_(launch), shared_(shared), shared_bytes_(shared_bytes), written_at_(shared_bytes / 16 + 1) {
  const std::uint64_t threads = launch.launch.block.count();
  warps_.resize((threads + kLanes - 1) / kLanes);
  warpgroups_.resize((warps_.size() + 3) / 4);
  local_.resize(std::size_t(launch.program.local_bytes) * warps_.size() * kLanes);
  launch.registers.assign(std::size_t(launch.program.register_bytes) * warps_.size() + 64, 0xff);
  const auto start = reinterpret_cast<std::uintptr_t>(launch.registers.data());
  std::uint8_t* registers = launch.registers.data() + (64 - start % 64) % 64;
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    warps_[w].base[0] = registers + w * launch.program.register_bytes;
    warps_[w].base[1] = launch.constants.data();
    warps_[w].block = this;
  }
}

std::uint8_t* Block::local(const Warp& w, int lane) {
  return local_.data() + std::size_t(w.index * kLanes + lane) * l_.program.local_bytes;
}

void Block::fill_special_registers(std::uint32_t number) {
  const Dim grid = l_.launch.grid, dim = l_.launch.block;
  for (const auto& [special, ref] : l_.program.specials) {
    for (Warp& w : warps_) {
      std::uint32_t* lanes = lanes_of<std::uint32_t>(w, ref);
      for (std::uint32_t l = 0; l < kLanes; ++l) {
        const std::uint32_t t = std::uint32_t(w.index) * kLanes + l;
        switch (special) {
          case Special::tid_x: lanes[l] = t % dim.x; break;
          case Special::tid_y: lanes[l] = t / dim.x % dim.y; break;
          case Special::tid_z: lanes[l] = t / dim.x / dim.y; break;
          case Special::ntid_x: lanes[l] = dim.x; break;
          case Special::ntid_y: lanes[l] = dim.y; break;
          case Special::ntid_z: lanes[l] = dim.z; break;
          case Special::ctaid_x: lanes[l] = number % grid.x; break;
          case Special::ctaid_y: lanes[l] = number / grid.x % grid.y; break;
          case Special::ctaid_z: lanes[l] = number / grid.x / grid.y; break;
          case Special::nctaid_x: lanes[l] = grid.x; break;
          case Special::nctaid_y: lanes[l] = grid.y; break;
          case Special::nctaid_z: lanes[l] = grid.z; break;
          case Special::laneid: lanes[l] = l; break;
          case Special::warpid: lanes[l] = std::uint32_t(w.index); break;
          case Special::nwarpid: lanes[l] = std::uint32_t(warps_.size()); break;
          case Special::lanemask_eq: lanes[l] = 1u << l; break;
          case Special::lanemask_le: lanes[l] = (2u << l) - 1; break;
          case Special::lanemask_lt: lanes[l] = (1u << l) - 1; break;
          case Special::lanemask_ge: lanes[l] = ~((1u << l) - 1); break;
          case Special::lanemask_gt: lanes[l] = ~((2u << l) - 1); break;
          case Special::dynamic_smem_size: lanes[l] = l_.launch.dynamic_shared_bytes; break;
          case Special::zero: lanes[l] = 0; break;
          case Special::clock:
          case Special::clock64:  // read by an instruction of its own
          case Special::carry: break;
        }
      }
    }
  }
}

void Block::run(std::uint32_t number) {
  number_ = number;
  const std::uint64_t threads = l_.launch.block.count();
  std::memset(shared_, 0xff, shared_bytes_);
  std::fill(local_.begin(), local_.end(), 0xff);
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    const std::uint64_t rest = threads - w * kLanes;
    warps_[w].start(int(w), rest >= kLanes ? kAllLanes : (1u << rest) - 1);
  }
  fill_special_registers(number);
  clocks_.start(warps());
  std::fill(written_at_.begin(), written_at_.end(), 0u);
  tick_ = 1;
  barriers_.clear();
  mbarriers_.clear();
  bulks_.clear();
  warpgroups_.assign(warpgroups_.size(), {});
  idle_rounds_ = 0;
  l_.order.start_block();

  std::vector<int> turns(warps_.size());
  std::iota(turns.begin(), turns.end(), 0);
  if (l_.launch.order == Order::reverse) std::reverse(turns.begin(), turns.end());
  const bool random = l_.launch.order == Order::random;
  while (!all_done() && !l_.abandoned) {
    if (random) {
      for (std::size_t i = turns.size(); i > 1; --i)
        std::swap(turns[i - 1], turns[l_.chance.below(std::uint32_t(i))]);
    }
    ++idle_rounds_;
    for (const int w : turns) {
      // Long turns now and then let one warp run far ahead of the others.
      const std::uint32_t longest = random ? kFirstTurn << l_.chance.below(10) : ~0u;
      take_turn(warps_[w], random ? 1 + l_.chance.below(longest) : longest);
    }
    if (idle_rounds_ > 1) resolve_stuck();
  }
  for (Warp& w : warps_) {
    l_.counters.warp_instructions += w.instructions;
    w.instructions = 0;
  }
}

void Block::take_turn(Warp& w, std::uint32_t instructions) {
  if (w.lanes == 0) {
    bool any = false;
    for (Group& g : w.others) {
      if (g.state == Group::State::yielded) g.state = Group::State::ready;
      any |= g.state != Group::State::waiting;
    }
    if (!any) return;
    w.regroup();
  }
  w.stop = false;
  const Inst* code = l_.program.code.data();
  std::uint32_t left = instructions, helpers = 0;
  while (w.lanes != 0 && left != 0) {
    const Inst& inst = code[w.pc++];
    Mask mask = w.lanes;
    if (inst.guard != kNoRef) {
      const Mask guard = predicate(w, inst.guard);
      mask &= inst.guard_negated ? ~guard : guard;
    }
    --left;
    helpers += inst.helper;
    if (mask != 0) inst.run(w, inst, mask);
    if (w.pc >= w.next_pc && w.lanes != 0) w.regroup();
    if (w.stop) break;
  }
  const std::uint32_t done = instructions - left;
  w.instructions += done - helpers;
  if (done > 16) event();
  if (w.instructions > kInstructionsOfAWarp && !l_.abandoned) {
    finding("kernel deadlock", w, 0, code[w.pc], "the block does not come to an end");
    l_.abandoned = true;
  }
}

bool Block::all_done() const {
  return std::all_of(warps_.begin(), warps_.end(), [](const Warp& w) { return w.live == 0; });
}

std::uint32_t Block::returned() const {
  std::uint32_t n = 0;
  for (const Warp& w : warps_) n += std::uint32_t(std::popcount(w.existing & ~w.live));
  return n;
}

// A round in which no warp did anything but poll or wait: the latest moment for a bulk copy to land, or the end.
void Block::resolve_stuck() {
  if (!bulks_.empty()) {
    const std::size_t pick =
        l_.launch.order == Order::random ? l_.chance.below(std::uint32_t(bulks_.size())) : 0;
    land(pick);
    event();
    return;
  }
  bool polls = false;
  for (const Warp& w : warps_) polls |= w.runnable();
  if (polls && idle_rounds_ < kIdleRounds) return;
  if (!polls) {
    for (auto& [number, barrier] : barriers_) {
      if (barrier.members.empty()) continue;
      const Barrier::Member& m = barrier.members.front();
      const std::uint32_t gone = returned();
      finding("divergent barrier", warps_[m.warp], std::countr_zero(m.lanes), *m.inst,
              gone != 0 ? cat("barrier after ", gone, " threads left the kernel")
                        : cat("only ", barrier.arrived, " of ", barrier.expected, " threads come to barrier ",
                              number));
      if (barrier.whole_block && gone != 0) {
        open(number, &barrier);
        event();
        return;
      }
    }
  }
  for (Warp& w : warps_) {
    if (w.live == 0) continue;
    Group at{w.pc, w.lanes, Group::State::ready};
    if (!w.others.empty()) at = w.others.front();
    finding("kernel deadlock", w, std::countr_zero(w.live), l_.program.code[std::max(0, at.pc - 1)],
            polls ? "every running warp waits for an mbarrier" : "no thread can go on");
    break;
  }
  l_.abandoned = true;
}

void Block::arrive(Warp& w, const Inst& inst, std::uint32_t number, std::uint32_t threads, bool waits,
                   Mask mask) {
  Barrier& barrier = barriers_[number];
  const std::uint32_t all = std::uint32_t(l_.launch.block.count());
  const bool whole = threads == 0;
  if (barrier.members.empty()) {
    barrier.expected = threads == 0 ? all : std::min(threads, std::uint32_t(warps_.size()) * kLanes);
    barrier.whole_block = whole;
  }
  barrier.members.push_back({w.index, mask, &inst, waits});
  // A warp that the block does not fill counts as a whole one where a number of threads is given.
  const bool partial_warp = threads != 0 && mask == w.existing;
  barrier.arrived += partial_warp ? kLanes : std::uint32_t(std::popcount(mask));
  if (!barrier.whole_block || !waits) {
    barrier.whole_block = false;
    BlockClocks::join(&barrier.clock, clocks_.release(w.index, mask));
  }
  if (waits) {
    w.lanes &= ~mask;
    w.others.push_back({w.pc, mask, Group::State::waiting});
    w.regroup();
    w.stop = true;
  }
  event();
  if (barrier.arrived >= barrier.expected) open(number, &barrier);
}

void Block::check_same_barrier(const Barrier& barrier) {
  const Inst* first = barrier.members.front().inst;
  for (const Barrier::Member& m : barrier.members) {
    if (m.inst == first || !m.waits) continue;
    finding("divergent barrier", warps_[m.warp], std::countr_zero(m.lanes), *m.inst,
            cat("threads of one block wait at different barriers, the other is at ", l_.where(*first)));
    return;
  }
}

// Lets the waiting threads go on, each knowing what all did before.
void Block::open(std::uint32_t, Barrier* barrier) {
  if (barrier->whole_block) check_same_barrier(*barrier);
  // bar.red: the predicates of all, into everyone's register.
  std::uint32_t count = 0, threads = 0;
  for (const Barrier::Member& m : barrier->members) {
    if (m.inst->c == kNoRef) continue;
    const Mask p = predicate(warps_[m.warp], m.inst->c);
    count += std::uint32_t(std::popcount((m.inst->flags & 8 ? ~p : p) & m.lanes));
    threads += std::uint32_t(std::popcount(m.lanes));
  }
  if (barrier->whole_block && checks()) clocks_.sync_block();
  for (const Barrier::Member& m : barrier->members) {
    Warp& w = warps_[m.warp];
    if (m.inst->d != kNoRef) {
      const int operation = m.inst->flags & 7;  // 1 popc, 2 and, 3 or
      if (operation == 1) {
        for_lanes(m.lanes, [&](int l) { lanes_of<std::uint32_t>(w, m.inst->d)[l] = count; });
      } else {
        const bool truth = operation == 2 ? count == threads : count != 0;
        Mask& p = predicate(w, m.inst->d);
        p = truth ? p | m.lanes : p & ~m.lanes;
      }
    }
    if (!m.waits) continue;
    if (!barrier->whole_block && checks()) {
      clocks_.acquire(m.warp, barrier->clock);
      clocks_.sync_lanes(m.warp, m.lanes, w.live);
    }
    for (Group& g : w.others) {
      if (g.state == Group::State::waiting && (g.lanes & m.lanes) != 0) g.state = Group::State::ready;
    }
    if (w.lanes != 0) w.regroup();
  }
  *barrier = Barrier();
}

void Block::complete_phase_if_due(MBarrier* m) {
  if (m->pending != 0 || m->bytes != 0) return;
  ++m->phase;
  m->pending = m->count;
  BlockClocks::join(&m->complete, m->gathering);
  m->gathering.clear();
}

}  // namespace zt::emulator::ptx
