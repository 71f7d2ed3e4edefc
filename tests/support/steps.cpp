#include "support/steps.h"

#include <algorithm>

namespace zt::test {
namespace {

double seconds_of(const schedule::Op& op, double comm) {
  using enum schedule::OpKind;
  const double own = 1e-3 * (1 + 0.01 * (op.block + 2) + 0.001 * (op.micro + 2));
  switch (op.kind) {
    case gather:
    case reduce: return comm * own;
    case forward:
    case recompute: return own;
    case head: return 1.5 * own;
    case backward: return 2 * own;
    case accumulate:
    case norm:
    case update: return 0.1 * own;
  }
  return own;
}

}  // namespace

schedule::Schedule small_step(int layers, int micros, int ranks) {
  schedule::StepFacts facts;
  facts.micros = micros;
  facts.ranks = ranks;
  facts.sliced_update = ranks > 1;
  for (int k = 0; k < layers + 2; ++k)
    facts.blocks.push_back({.input_bytes = k == 0 ? 0 : 1000 + k,
                            .saved_bytes = 7000 + 10 * k,
                            .weight_bytes = ranks > 1 ? 5000 : 9000 + k,
                            .gathered_bytes = 9000 + k,
                            .grad_bytes = ranks > 1 ? 4000 : 8000 + k,
                            .whole_grad_bytes = 8000 + k,
                            .optimizer_bytes = 12000});
  schedule::Policy policy;
  policy.recompute = schedule::Recompute::every;
  policy.every = 2;
  policy.zero.gather_weights = ranks > 1;
  policy.zero.reduce = ranks > 1 ? schedule::ReduceEvery::micro : schedule::ReduceEvery::step;
  return schedule::plan_train(facts, policy);
}

plan::Simulation played(const schedule::Schedule& list, double comm) {
  plan::Simulation out;
  out.spans.resize(list.ops.size());
  std::vector<int> before(list.ops.size(), -1);  // what each op began after
  int last_of[schedule::kLanes] = {-1, -1, -1}, last = -1;
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const schedule::Op& op = list.ops[i];
    int& previous = last_of[std::size_t(op.lane)];
    const double free_at = previous < 0 ? 0 : out.spans[std::size_t(previous)].end;
    plan::Span span{free_at, 0, 0, -1};
    before[i] = previous;
    for (const int wait : op.waits)
      if (wait >= 0 && out.spans[std::size_t(wait)].end > span.start) {
        span.start = out.spans[std::size_t(wait)].end;
        before[i] = span.blocker = wait;
      }
    const double seconds = seconds_of(op, comm);
    span.waited = span.start - free_at;
    span.end = span.start + seconds;
    out.spans[i] = span;
    out.busy[std::size_t(op.lane)] += seconds;
    if (op.lane == schedule::Lane::compute) out.exposed += span.waited;
    previous = int(i);
    if (span.end >= out.seconds) out.seconds = span.end, last = int(i);
  }
  for (int op = last; op >= 0; op = before[std::size_t(op)]) out.critical.push_back(op);
  std::reverse(out.critical.begin(), out.critical.end());
  return out;
}

}  // namespace zt::test
