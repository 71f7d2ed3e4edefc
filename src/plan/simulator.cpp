#include "plan/simulator.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {
namespace {

using schedule::kLanes;
using schedule::Lane;
using schedule::Op;

constexpr int kSteps = 3;  // until waits for the step before have their lasting effect

std::size_t number(Lane lane) { return static_cast<std::size_t>(lane); }

// A lane's ops in order, and where it stands.
struct LaneState {
  std::vector<int> ops;
  int step = 0;
  std::size_t next = 0;  // in ops
  bool working = false;
  double left = 0;        // seconds of work that the op under way still needs at full speed
  double free_since = 0;  // end of its last op
};

// Plays `steps` copies of the list one behind the other and keeps what happened in the last.
class Play {
 public:
  Play(const schedule::Schedule& list, const std::vector<double>& seconds, const Sharing& sharing, int steps)
      : list_(list),
        seconds_(seconds),
        sharing_(sharing),
        steps_(steps),
        ends_(std::size_t(steps), Ends(list.ops.size(), kNotYet)) {
    for (int i = 0; i < static_cast<int>(list.ops.size()); ++i)
      lanes_[number(list.ops[static_cast<std::size_t>(i)].lane)].ops.push_back(i);
    for (LaneState& lane : lanes_)
      if (lane.ops.empty()) lane.step = steps;
    result_.spans.resize(list.ops.size());
  }

  Simulation run() {
    while (start_ready() || any_working()) advance();
    for (const LaneState& lane : lanes_)
      if (lane.step < steps_)
        throw Error(Blame::bug, "the simulated step cannot go on: its waits form a circle");
    return finish();
  }

 private:
  using Ends = std::vector<double>;
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  // The end of op `wait` as seen from an op of `step`; negative waits are of the step before.
  double end_of(int wait, int step) const {
    const int count = static_cast<int>(list_.ops.size());
    if (wait < 0 && step == 0) return 0;
    const int of = wait < 0 ? step - 1 : step;
    return ends_[static_cast<std::size_t>(of)][static_cast<std::size_t>(wait < 0 ? count + wait : wait)];
  }
  bool last(const LaneState& lane) const { return lane.step == steps_ - 1; }

  bool start_ready() {
    bool any = false;
    for (LaneState& lane : lanes_) {
      if (lane.working || lane.step >= steps_) continue;
      const int index = lane.ops[lane.next];
      const Op& op = list_.ops[static_cast<std::size_t>(index)];
      double ready = lane.free_since;
      int blocker = -1;
      for (const int wait : op.waits) {
        const double end = end_of(wait, lane.step);
        if (end > ready) ready = end, blocker = wait < 0 ? -1 : wait;
      }
      if (ready > now_) continue;
      lane.working = any = true;
      lane.left = seconds_[static_cast<std::size_t>(index)];
      if (last(lane))
        result_.spans[static_cast<std::size_t>(index)] = {now_, now_, now_ - lane.free_since, blocker};
    }
    return any;
  }

  bool any_working() const {
    return std::ranges::any_of(lanes_, [](const LaneState& lane) { return lane.working; });
  }

  double speed(std::size_t lane) const {
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (other != lane && lanes_[other].working) {
        if (lane == number(Lane::compute)) return sharing_.compute;
        if (other == number(Lane::compute)) return sharing_.comm;
      }
    return 1;
  }

  // To the next end of an op.
  void advance() {
    std::array<double, kLanes> speeds{};
    double step = kNotYet;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (!lanes_[l].working) continue;
      speeds[l] = speed(l);
      step = std::min(step, lanes_[l].left / speeds[l]);
    }
    now_ += step;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      LaneState& lane = lanes_[l];
      if (!lane.working) continue;
      if (last(lane)) result_.busy[l] += step;
      // Ends that fall together in arithmetic do so here too.
      const bool over = lane.left <= step * speeds[l] * (1 + 1e-12);
      lane.left -= step * speeds[l];
      if (over) end_op(lane);
    }
  }

  void end_op(LaneState& lane) {
    const int index = lane.ops[lane.next];
    ends_[static_cast<std::size_t>(lane.step)][static_cast<std::size_t>(index)] = now_;
    if (last(lane)) result_.spans[static_cast<std::size_t>(index)].end = now_;
    lane.working = false;
    lane.free_since = now_;
    if (++lane.next < lane.ops.size()) return;
    lane.next = 0;
    if (lane.step == steps_ - 2) first_end_ = std::max(first_end_, now_);
    ++lane.step;
  }

  Simulation finish();
  std::vector<int> critical_path() const;

  const schedule::Schedule& list_;
  const std::vector<double>& seconds_;
  const Sharing& sharing_;
  const int steps_;
  std::array<LaneState, kLanes> lanes_;
  std::vector<Ends> ends_;          // of the ops, by step
  double now_ = 0, first_end_ = 0;  // first_end_: when the step before the last was over
  Simulation result_;
};

Simulation Play::finish() {
  // Times count from the end of the step before, which is where a step begins that follows another one.
  result_.seconds = now_ - first_end_;
  double end_of_compute = 0;
  for (std::size_t i = 0; i < list_.ops.size(); ++i) {
    Span& span = result_.spans[i];
    span.start -= first_end_;
    span.end -= first_end_;
    if (list_.ops[i].lane != Lane::compute) continue;
    result_.exposed += span.waited;
    end_of_compute = std::max(end_of_compute, span.end);
  }
  if (!sharing_.steps_overlap) result_.exposed += result_.seconds - end_of_compute;
  result_.critical = critical_path();
  return std::move(result_);
}

// Back from the op that ends last: whoever an op waited for, or else the op before it in its lane.
std::vector<int> Play::critical_path() const {
  if (list_.ops.empty()) return {};
  std::vector<int> before(list_.ops.size(), -1), path;
  std::array<int, kLanes> latest;
  latest.fill(-1);
  int at = 0;
  for (std::size_t i = 0; i < list_.ops.size(); ++i) {
    int& lane = latest[number(list_.ops[i].lane)];
    before[i] = lane;
    lane = static_cast<int>(i);
    if (result_.spans[i].end >= result_.spans[static_cast<std::size_t>(at)].end) at = static_cast<int>(i);
  }
  while (at >= 0) {
    path.push_back(at);
    const Span& span = result_.spans[static_cast<std::size_t>(at)];
    at = span.waited > 0 ? span.blocker : before[static_cast<std::size_t>(at)];
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace

Sharing sharing_of(const Cluster& cluster, const Node& node) {
  return {node.overlap_compute, node.overlap_comm, cluster.backend == Backend::cuda};
}

Simulation simulate(const schedule::Schedule& list, const std::vector<double>& seconds,
                    const Sharing& sharing) {
  if (seconds.size() != list.ops.size())
    throw Error(Blame::bug, cat(seconds.size(), " durations for ", list.ops.size(), " ops"));
  return Play(list, seconds, sharing, sharing.steps_overlap ? kSteps : 1).run();
}

}  // namespace zt::plan
