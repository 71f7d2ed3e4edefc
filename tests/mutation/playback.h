// Plays a list on bytes in a random order that its lanes and waits allow, and says when an op saw bytes that
// it would not have seen in list order. Independent of the verifier: no clocks, no lifetimes, only bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "schedule/schedule.h"

namespace zt::schedule::test {

class Playback {
 public:
  Playback(const Schedule& schedule, int step_count)
      : s_(schedule), n_(int(schedule.ops.size())), total_(n_ * step_count) {
    cut_arena();
    expect_list_order();
  }

  // Empty when every op saw what it should have. Lanes run at speeds of their own, drawn for this play.
  std::string play(std::uint64_t seed) {
    random_.seed(seed);
    start_over();
    while (finished_ < total_) {
      std::vector<int> able;
      for (int lane = 0; lane < kLanes; ++lane)
        if (running_[std::size_t(lane)] >= 0 || can_start(lane)) able.push_back(lane);
      if (able.empty()) return "stuck: no lane can go on";
      const int lane = pick(able);
      const std::string fault = running_[std::size_t(lane)] >= 0 ? finish(lane) : start(lane);
      if (!fault.empty()) return fault;
    }
    return "";
  }

 private:
  // Content of a piece of memory: which slot's, and which op instance wrote it last (~q while q is writing).
  using Tag = std::pair<SlotId, int>;
  static constexpr int kInitial = -1000000;

  void cut_arena() {
    std::set<std::int64_t> cuts;
    for (const Slot& slot : s_.slots)
      if (!permanent(slot)) cuts.insert({slot.offset, slot.offset + slot.bytes});
    const std::vector<std::int64_t> at(cuts.begin(), cuts.end());
    cells_.resize(s_.slots.size());
    int next = int(at.size());
    for (std::size_t i = 0; i < s_.slots.size(); ++i) {
      const Slot& slot = s_.slots[i];
      if (permanent(slot)) cells_[i] = {next, next + 1}, ++next;
      if (permanent(slot)) continue;
      const auto place = [&](std::int64_t x) {
        return int(std::lower_bound(at.begin(), at.end(), x) - at.begin());
      };
      cells_[i] = {place(slot.offset), place(slot.offset + slot.bytes)};
    }
    memory_.resize(std::size_t(next));
  }

  // The writer whose result each op sees when everything runs in list order.
  void expect_list_order() {
    std::vector<int> writer(s_.slots.size(), kInitial);
    expected_.resize(std::size_t(total_));
    for (int q = 0; q < total_; ++q) {
      const Op& op = s_.ops[std::size_t(q % n_)];
      for (const auto* list : {&op.reads, &op.writes})
        for (SlotId slot : *list)
          if (!has(op.births, slot)) expected_[std::size_t(q)].push_back({slot, writer[std::size_t(slot)]});
      for (const auto* list : {&op.births, &op.writes})
        for (SlotId slot : *list) writer[std::size_t(slot)] = q;
    }
  }

  void start_over() {
    for (Tag& tag : memory_) tag = {kNoSlot, kInitial};
    for (std::size_t i = 0; i < s_.slots.size(); ++i)
      if (permanent(s_.slots[i])) memory_[std::size_t(cells_[i].first)] = {SlotId(i), kInitial};
    running_.fill(-1);
    next_.fill(-1);
    for (int lane = 0; lane < kLanes; ++lane) advance(lane);
    done_.assign(std::size_t(total_), false);
    finished_ = 0;
    for (double& speed : speed_) speed = std::uniform_real_distribution<double>(0.02, 1)(random_);
  }

  void advance(int lane) {
    int& q = next_[std::size_t(lane)];
    for (++q; q < total_ && int(s_.ops[std::size_t(q % n_)].lane) != lane; ++q) {
    }
  }

  bool can_start(int lane) const {
    const int q = next_[std::size_t(lane)];
    if (q >= total_) return false;
    for (int wait : s_.ops[std::size_t(q % n_)].waits) {
      const int earlier = q - q % n_ + wait;  // negative waits fall into the step before
      const int absolute = wait < 0 ? q - q % n_ - n_ + (n_ + wait) : earlier;
      if (absolute >= 0 && !done_[std::size_t(absolute)]) return false;
    }
    return true;
  }

  int pick(const std::vector<int>& able) {
    double sum = 0;
    for (int lane : able) sum += speed_[std::size_t(lane)];
    double at = std::uniform_real_distribution<double>(0, sum)(random_);
    for (int lane : able)
      if ((at -= speed_[std::size_t(lane)]) < 0) return lane;
    return able.back();
  }

  std::string start(int lane) {
    const int q = next_[std::size_t(lane)];
    const Op& op = s_.ops[std::size_t(q % n_)];
    for (const auto& [slot, writer] : expected_[std::size_t(q)])
      if (!holds(slot, {slot, writer})) return complaint(q, slot, "starts with wrong bytes in");
    for (const auto* list : {&op.births, &op.writes})
      for (SlotId slot : *list) fill(slot, {slot, ~q});
    running_[std::size_t(lane)] = q;
    advance(lane);
    return "";
  }

  std::string finish(int lane) {
    const int q = running_[std::size_t(lane)];
    const Op& op = s_.ops[std::size_t(q % n_)];
    for (const auto& [slot, writer] : expected_[std::size_t(q)])
      if (!has(op.writes, slot) && !holds(slot, {slot, writer})) return complaint(q, slot, "loses its input");
    for (const auto* list : {&op.births, &op.writes})
      for (SlotId slot : *list) {
        if (!holds(slot, {slot, ~q})) return complaint(q, slot, "loses its output");
      }
    for (const auto* list : {&op.births, &op.writes})
      for (SlotId slot : *list) fill(slot, {slot, q});
    for (SlotId slot : op.frees) fill(slot, {kNoSlot, q});  // as debug builds fill freed bytes with NaN
    running_[std::size_t(lane)] = -1;
    done_[std::size_t(q)] = true;
    ++finished_;
    return "";
  }

  static bool has(const std::vector<SlotId>& list, SlotId slot) {
    return std::find(list.begin(), list.end(), slot) != list.end();
  }
  bool holds(SlotId slot, Tag tag) const {
    const auto [begin, end] = cells_[std::size_t(slot)];
    for (int i = begin; i < end; ++i)
      if (memory_[std::size_t(i)] != tag) return false;
    return true;
  }
  void fill(SlotId slot, Tag tag) {
    const auto [begin, end] = cells_[std::size_t(slot)];
    for (int i = begin; i < end; ++i) memory_[std::size_t(i)] = tag;
  }
  std::string complaint(int q, SlotId slot, const char* what) const {
    return cat("step ", q / n_, " #", q % n_, " `", name(s_.ops[std::size_t(q % n_)]), "` ", what, " ",
               name(s_.slots[std::size_t(slot)]));
  }

  const Schedule& s_;
  const int n_, total_;
  std::vector<std::pair<int, int>> cells_;  // of each slot, in memory_
  std::vector<std::vector<std::pair<SlotId, int>>> expected_;
  std::vector<Tag> memory_;
  std::vector<bool> done_;
  std::array<int, kLanes> running_{}, next_{};
  std::array<double, kLanes> speed_{};
  int finished_ = 0;
  std::mt19937_64 random_;
};

// The first fault in `plays` plays of three steps in a row.
inline std::string first_fault_in_play(const Schedule& s, int plays, std::uint64_t seed = 1) {
  Playback playback(s, 3);
  for (int i = 0; i < plays; ++i)
    if (std::string fault = playback.play(seed + std::uint64_t(i)); !fault.empty()) return fault;
  return "";
}

}  // namespace zt::schedule::test
