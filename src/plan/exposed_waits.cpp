#include "plan/exposed_waits.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"

namespace zt::plan {
namespace {

std::string block_name(int block) { return block < 0 ? "no block" : cat("b", block); }

std::string longest_words(const BlockWaits& waits, const schedule::Schedule& list,
                          const Simulation& simulation) {
  const int blocker = simulation.spans[std::size_t(waits.op)].blocker;
  return cat(
      name(list.ops[std::size_t(waits.op)]), ", ",
      blocker < 0 ? std::string("for the step before") : "for " + name(list.ops[std::size_t(blocker)]));
}

}  // namespace

std::vector<BlockWaits> exposed_waits(const schedule::Schedule& list, const Simulation& simulation) {
  if (simulation.spans.size() != list.ops.size())
    throw Error(Blame::bug,
                cat("times of ", simulation.spans.size(), " ops for a list of ", list.ops.size()));
  std::map<int, BlockWaits> by_block;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const double waited = simulation.spans[i].waited;
    if (list.ops[i].lane != schedule::Lane::compute || !(waited > 0)) continue;
    BlockWaits& b = by_block[list.ops[i].block];
    b.block = list.ops[i].block;
    ++b.times;
    b.seconds += waited;
    if (waited > b.longest) b.longest = waited, b.op = int(i);
  }
  std::vector<BlockWaits> out;
  for (const auto& [block, waits] : by_block) out.push_back(waits);
  std::stable_sort(out.begin(), out.end(),
                   [](const BlockWaits& a, const BlockWaits& b) { return a.seconds > b.seconds; });
  return out;
}

PageTable exposed_waits_table(const schedule::Schedule& list, const Simulation& simulation, int most) {
  PageTable table{
      "", {"block", "waits", "in sum", "longest", "of the step", "the longest was of"}, {}, true, ""};
  const std::vector<BlockWaits> all = exposed_waits(list, simulation);
  if (all.empty()) {
    table.note = "The compute lane never stands still.";
    table.last_is_total = false;
    return table;
  }
  const auto row = [&](const std::string& what, const BlockWaits& w, const std::string& words) {
    const double share = simulation.seconds > 0 ? 100 * w.seconds / simulation.seconds : 0;
    table.rows.push_back({what, with_commas(w.times), time_text(w.seconds), time_text(w.longest),
                          fmt::format("{:.2f} %", share), words});
  };
  BlockWaits rest, sum;
  const auto add = [](BlockWaits& to, const BlockWaits& w) {
    to.times += w.times, to.seconds += w.seconds;
    if (w.longest > to.longest) to.longest = w.longest, to.op = w.op;
  };
  const std::size_t shown = all.size() <= std::size_t(most) + 1 ? all.size() : std::size_t(most);
  for (std::size_t i = 0; i < all.size(); ++i) {
    add(sum, all[i]);
    if (i < shown)
      row(block_name(all[i].block), all[i], longest_words(all[i], list, simulation));
    else
      add(rest, all[i]);
  }
  if (shown < all.size()) row(cat(all.size() - shown, " more"), rest, longest_words(rest, list, simulation));
  row("together", sum, "");
  return table;
}

}  // namespace zt::plan
