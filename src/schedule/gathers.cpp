#include <algorithm>
#include <map>
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {
namespace {

// A stretch of ops during which one block's weights stay gathered.
struct Use {
  int block;
  std::vector<int> readers;  // op indices
};

// Freeing weights and gathering them again with at most one op in between would save no memory.
constexpr int kNearby = 2;

// Whether a block's weights, read last by `before`, stay gathered until `now` reads them.
bool stays(const Zero& zero, const StepFacts& facts, int block, const Op& before, const Op& now) {
  if (!zero.reshard_after_forward) return true;
  const int last = facts.transformer_blocks();
  return block >= 1 && block <= last && block > last - zero.keep_blocks && before.micro == now.micro;
}

// In order of their first reader.
std::vector<Use> weight_uses(const Schedule& s, const StepFacts& facts, const Zero& zero) {
  std::vector<Use> uses;
  std::vector<int> latest(facts.blocks.size(), -1);    // the block's latest use
  std::vector<int> last_turn(facts.blocks.size(), 0);  // and when it was read last, counted in reading ops
  int turn = 0;
  for (int i = 0; i < int(s.ops.size()); ++i) {
    const Op& op = s.ops[std::size_t(i)];
    const std::vector<int> blocks = weight_blocks(op, facts);
    turn += blocks.empty() ? 0 : 1;
    for (int k : blocks) {
      int& use = latest[std::size_t(k)];
      const bool near = use >= 0 && turn - last_turn[std::size_t(k)] <= kNearby;
      if (use < 0 ||
          (!near && !stays(zero, facts, k, s.ops[std::size_t(uses[std::size_t(use)].readers.back())], op))) {
        use = int(uses.size());
        uses.push_back({k, {}});
      }
      uses[std::size_t(use)].readers.push_back(i);
      last_turn[std::size_t(k)] = turn;
    }
  }
  return uses;
}

}  // namespace

Schedule with_gathers(Schedule s, const StepFacts& facts, const Zero& zero) {
  const std::vector<SlotId> weights = block_slots(s, SlotKind::P, facts, &BlockFacts::weight_bytes);
  const std::vector<Use> uses = weight_uses(s, facts, zero);
  std::map<std::pair<int, int>, int> generations;  // of W by block and micro-batch
  std::map<int, std::vector<Op>> inserted;
  for (int u = 0; u < int(uses.size()); ++u) {
    const auto& [k, readers] = uses[std::size_t(u)];
    const int micro = zero.reshard_after_forward ? s.ops[std::size_t(readers.front())].micro : -1;
    const SlotId w = add_slot(s, SlotKind::W, k, micro, facts.blocks[std::size_t(k)].gathered_bytes,
                              generations[{k, micro}]++);
    const int early = uses[std::size_t(std::max(0, u - zero.prefetch))].readers.front();
    inserted[early].push_back({.kind = OpKind::gather,
                               .lane = Lane::comm,
                               .block = k,
                               .micro = micro,
                               .reads = {weights[std::size_t(k)]},
                               .births = {w}});
    for (int i : readers) s.ops[std::size_t(i)].reads.push_back(w);
    s.ops[std::size_t(readers.back())].frees.push_back(w);
  }
  return insert_before(std::move(s), std::move(inserted));
}

}  // namespace zt::schedule
