#include "checker.h"

#include <algorithm>
#include <bit>

namespace zt::emulator::ptx {

void BlockClocks::start(int warps) {
  warps_ = warps;
  clock_.fill(1);
  warp_synced_.fill(0);
  block_synced_.fill(0);
  agent_clock_.fill(1);
  for (auto& p : partial_) p.reset();
  known_.clear();
}

void BlockClocks::make_known() {
  if (known_.empty()) known_.assign(std::size_t(warps_) * width(), 0);
}

void BlockClocks::sync_lanes(int warp, Mask lanes, Mask live) {
  if ((lanes & live) == live) {
    warp_synced_[warp] = clock_[warp]++;
    return;
  }
  if (partial_[warp] == nullptr) partial_[warp] = std::make_unique<Partial>();
  Partial& seen = *partial_[warp];
  std::array<std::uint32_t, kLanes> all{};
  for (int l = 0; l < kLanes; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    for (int m = 0; m < kLanes; ++m) all[m] = std::max(all[m], seen[l][m]);
    all[l] = clock_[warp];
  }
  for (int l = 0; l < kLanes; ++l) {
    if (lanes >> l & 1) seen[l] = all;
  }
  ++clock_[warp];
}

void BlockClocks::sync_block() {
  for (int w = 0; w < warps_; ++w) {
    warp_synced_[w] = block_synced_[w] = clock_[w];
    ++clock_[w];
  }
  if (known_.empty()) return;
  for (int a = 0; a < kAgents; ++a) {  // what one warp knows of a warpgroup's agent, all know now
    std::uint32_t most = 0;
    for (int w = 0; w < warps_; ++w) most = std::max(most, known(w)[index(kFirstAgent + a)]);
    for (int w = 0; w < warps_; ++w) known(w)[index(kFirstAgent + a)] = most;
  }
}

BlockClocks::Snapshot BlockClocks::release(int warp, Mask lanes) {
  make_known();
  Snapshot out(known(warp), known(warp) + width());
  for (int w = 0; w < warps_; ++w) {
    for (int l = 0; l < kLanes; ++l) out[w * kLanes + l] = std::max(out[w * kLanes + l], block_synced_[w]);
  }
  for (int l = 0; l < kLanes; ++l) {
    std::uint32_t& mine = out[warp * kLanes + l];
    mine = std::max(mine, lanes >> l & 1 ? clock_[warp] : warp_synced_[warp]);
    if (partial_[warp] == nullptr) continue;
    for (Mask rest = lanes; rest != 0; rest &= rest - 1)
      mine = std::max(mine, (*partial_[warp])[std::countr_zero(rest)][l]);
  }
  ++clock_[warp];
  return out;
}

void BlockClocks::join(Snapshot* into, const Snapshot& from) {
  if (into->size() < from.size()) into->resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) (*into)[i] = std::max((*into)[i], from[i]);
}

void BlockClocks::acquire(int warp, const Snapshot& from) {
  if (from.empty()) return;
  make_known();
  std::uint32_t* mine = known(warp);
  for (std::uint32_t i = 0; i < width(); ++i) mine[i] = std::max(mine[i], from[i]);
}

void BlockClocks::learn_agent(int warp, int group) {
  make_known();
  known(warp)[index(kFirstAgent + std::uint32_t(group))] = agent_clock_[group];
}

void ShadowPage::refine(std::uint32_t alignment_bits) {
  const int finest = std::min(shift_, std::countr_zero(alignment_bits | 16u));
  if (cells_.empty()) {
    shift_ = finest;
    cells_.assign((kBytes >> shift_) + 1, Cell{});
    return;
  }
  std::vector<Cell> finer((kBytes >> finest) + 1);
  for (std::uint32_t i = 0; i < kBytes >> finest; ++i) finer[i] = cells_[i >> (shift_ - finest)];
  cells_ = std::move(finer);
  shift_ = finest;
}

void BlockOrder::release(std::uint64_t address, std::uint32_t block, BlockClocks::Snapshot snapshot) {
  Known& here = released_[address];
  for (const auto& [other, known] : acquired_) BlockClocks::join(&here[other], known);
  BlockClocks::join(&here[block], snapshot);
}

void BlockOrder::acquire(std::uint64_t address) {
  const auto it = released_.find(address);
  if (it == released_.end()) return;
  for (const auto& [block, known] : it->second) BlockClocks::join(&acquired_[block], known);
}

bool BlockOrder::ordered(const Epoch& e) const {
  const auto it = acquired_.find(e.block());
  return it != acquired_.end() && e.thread() < it->second.size() && e.time() <= it->second[e.thread()];
}

void BlockOrder::clear() {
  released_.clear();
  acquired_.clear();
}

}  // namespace zt::emulator::ptx
