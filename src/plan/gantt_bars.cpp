#include "plan/gantt_bars.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace zt::plan {
namespace {

using schedule::Lane;
using schedule::OpKind;

constexpr std::size_t kKinds = std::size_t(OpKind::update) + 2;  // and standing still
std::size_t index_of(const Bar& bar) { return bar.kind ? std::size_t(*bar.kind) : kKinds - 1; }

// What one column gathers: for each kind one bar, in the order in which kinds came first.
class Column {
 public:
  explicit Column(std::vector<Bar>* out) : out_(out) {}
  void add(const Bar& bar) {
    if (empty()) start_ = bar.start;
    Bar& sum = sums_[index_of(bar)];
    if (sum.first < 0) {
      sum = bar;
      order_.push_back(index_of(bar));
      sum.end = bar.length(), sum.start = 0;
      return;
    }
    sum.last = bar.last;
    sum.count += bar.count;
    sum.end += bar.length();
  }
  void flush() {
    for (const std::size_t kind : order_) {
      Bar bar = sums_[kind];
      bar.start = start_, bar.end += start_;
      start_ = bar.end;
      out_->push_back(bar);
      sums_[kind] = Bar{};
    }
    order_.clear();
  }
  bool empty() const { return order_.empty(); }

 private:
  std::vector<Bar>* out_;
  std::array<Bar, kKinds> sums_{};
  std::vector<std::size_t> order_;
  double start_ = 0;
};

Bar bar_of(const schedule::Schedule& list, const Simulation& simulation, int op) {
  const Span& span = simulation.spans[std::size_t(op)];
  return {span.start, span.end, list.ops[std::size_t(op)].kind, op, op, 1};
}

// Ops of the compute lane, in order.
std::vector<int> compute_ops(const schedule::Schedule& list) {
  std::vector<int> out;
  for (std::size_t i = 0; i < list.ops.size(); ++i)
    if (list.ops[i].lane == Lane::compute) out.push_back(int(i));
  return out;
}

Window around(const std::vector<int>& ops, const Simulation& simulation, std::size_t at) {
  const std::size_t last =
      std::min(ops.size() - 1, std::max<std::size_t>(at, kWindowOps / 2) + kWindowOps / 2 - 1);
  const std::size_t first = last + 1 < kWindowOps ? 0 : last + 1 - kWindowOps;
  const Span& begin = simulation.spans[std::size_t(ops[first])];
  return {begin.start - begin.waited, simulation.spans[std::size_t(ops[last])].end, ops[at]};
}

}  // namespace

std::vector<Bar> lane_bars(const schedule::Schedule& list, const Simulation& simulation, Lane lane) {
  std::vector<Bar> out;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    if (list.ops[i].lane != lane) continue;
    const Bar bar = bar_of(list, simulation, int(i));
    const double waited = simulation.spans[i].waited;
    if (lane == Lane::compute && waited > 0)
      out.push_back({bar.start - waited, bar.start, std::nullopt, int(i), int(i), 1});
    out.push_back(bar);
  }
  if (lane == Lane::compute && simulation.tail > 0 && !out.empty())
    out.push_back({out.back().end, out.back().end + simulation.tail, std::nullopt, -1, -1, 1});
  return out;
}

std::vector<Bar> critical_bars(const schedule::Schedule& list, const Simulation& simulation) {
  std::vector<Bar> out;
  for (const int op : simulation.critical) {
    if (op < 0 || std::size_t(op) >= list.ops.size()) continue;  // of the step before
    Bar bar = bar_of(list, simulation, op);
    if (!out.empty()) bar.start = std::max(bar.start, out.back().end);
    bar.end = std::max(bar.end, bar.start);
    out.push_back(bar);
  }
  return out;
}

std::vector<Bar> clipped(const std::vector<Bar>& bars, double from, double to) {
  std::vector<Bar> out;
  for (Bar bar : bars) {
    if (bar.end <= from || bar.start >= to) continue;
    bar.start = std::max(bar.start, from);
    bar.end = std::min(bar.end, to);
    out.push_back(bar);
  }
  return out;
}

std::vector<Bar> condensed(const std::vector<Bar>& bars, double pixel) {
  std::vector<Bar> out;
  Column column(&out);
  double here = -1;
  for (const Bar& bar : bars) {
    const double its = std::floor(bar.start / pixel);
    if (!column.empty() && (its != here || bar.length() >= pixel)) column.flush();
    here = its;
    if (bar.length() >= pixel)
      out.push_back(bar);
    else
      column.add(bar);
  }
  column.flush();
  return out;
}

std::vector<Window> windows_of(const schedule::Schedule& list, const Simulation& simulation) {
  const std::vector<int> ops = compute_ops(list);
  if (ops.size() <= kWindowOps) return {};
  const auto is_forward = [&](int op) { return list.ops[std::size_t(op)].kind == OpKind::forward; };
  std::size_t forwards = 0;
  while (forwards < kWindowOps && is_forward(ops[forwards])) ++forwards;
  std::vector<Window> out;
  if (forwards > 0) {
    const Span& first = simulation.spans[std::size_t(ops[0])];
    out.push_back({first.start - first.waited, simulation.spans[std::size_t(ops[forwards - 1])].end, -1});
  }
  const auto waited = [&](int op) { return simulation.spans[std::size_t(op)].waited; };
  const std::size_t longest = std::size_t(
      std::max_element(ops.begin(), ops.end(), [&](int a, int b) { return waited(a) < waited(b); }) -
      ops.begin());
  if (!(waited(ops[longest]) > 0)) return out;
  if (longest < forwards) out.clear();  // the same place
  out.push_back(around(ops, simulation, longest));
  return out;
}

}  // namespace zt::plan
