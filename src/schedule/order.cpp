#include <algorithm>
#include <utility>

#include "schedule/passes.h"

namespace zt::schedule {
namespace {

// What a step is made of before policies have their say. One object a list.
class Order {
 public:
  Order(StepKind kind, const StepFacts& facts) : facts_(facts), head_(facts.head_block()) {
    s_.kind = kind;
    batch_ = add_slot(s_, SlotKind::batch, -1, -1, facts.batch_bytes);
    loss_ = add_slot(s_, SlotKind::loss, -1, -1, facts.loss_bytes);
    add_slot(s_, SlotKind::workspace, -1, -1, facts.workspace_bytes);
  }

  void train_micro(int m) {
    x_.assign(facts_.blocks.size() + 1, kNoSlot);
    saved_.assign(facts_.blocks.size(), kNoSlot);
    for (int k = 0; k < head_; ++k) {
      Op op = forward(k, m);
      if (k < facts_.lowest_trained()) free_at_once(op, k);
      s_.ops.push_back(op);
    }
    Op head = loss(m);
    const SlotId d = add_slot(s_, SlotKind::D, -1, m, largest_input());
    head.births.insert(head.births.begin(), d);
    const int lowest = facts_.lowest_trained();
    if (lowest >= head_) head.frees.push_back(d);
    s_.ops.push_back(head);
    for (int k = head_ - 1; k >= lowest; --k) s_.ops.push_back(backward(k, m, d));
  }

  void eval_micro(int m) {
    x_.assign(facts_.blocks.size() + 1, kNoSlot);
    saved_.assign(facts_.blocks.size(), kNoSlot);
    for (int k = 0; k < head_; ++k) {
      Op op = forward(k, m);
      free_at_once(op, k);
      s_.ops.push_back(op);
    }
    s_.ops.push_back(loss(m));
  }

  Schedule take() { return std::move(s_); }

 private:
  // No backward will want what this forward used and kept.
  void free_at_once(Op& forward, int k) const {
    if (k > 0) forward.frees.push_back(x_[std::size_t(k)]);
    if (saved_[std::size_t(k)] != kNoSlot) forward.frees.push_back(saved_[std::size_t(k)]);
  }

  Op forward(int k, int m) {
    Op op{.kind = OpKind::forward, .block = k, .micro = m};
    op.reads = {k == 0 ? batch_ : x_[std::size_t(k)]};
    op.births = {x_[std::size_t(k) + 1] = x_slot(k + 1, m)};
    if (saved_bytes(k) > 0) op.births.push_back(saved_[std::size_t(k)] = s_slot(k, m));
    return op;
  }

  Op loss(int m) {
    const SlotId x = x_[std::size_t(head_)];
    Op op{.kind = OpKind::head, .block = head_, .micro = m, .reads = {x, batch_}, .writes = {loss_}};
    op.frees = {x};
    if (saved_bytes(head_) > 0) {
      op.births = {s_slot(head_, m)};
      op.frees.push_back(op.births.front());
    }
    return op;
  }

  Op backward(int k, int m, SlotId d) {
    Op op{.kind = OpKind::backward, .block = k, .micro = m};
    const SlotId x = k == 0 ? batch_ : x_[std::size_t(k)];
    op.reads = {x};
    op.writes = {d};
    if (k > 0) op.frees.push_back(x);
    if (saved_[std::size_t(k)] != kNoSlot) {
      op.reads.push_back(saved_[std::size_t(k)]);
      op.frees.push_back(saved_[std::size_t(k)]);
    }
    if (k == facts_.lowest_trained()) op.frees.push_back(d);
    return op;
  }

  std::int64_t saved_bytes(int k) const { return facts_.blocks[std::size_t(k)].saved_bytes; }
  SlotId x_slot(int k, int m) {
    return add_slot(s_, SlotKind::X, k, m, facts_.blocks[std::size_t(k)].input_bytes);
  }
  SlotId s_slot(int k, int m) { return add_slot(s_, SlotKind::S, k, m, saved_bytes(k)); }
  std::int64_t largest_input() const {
    std::int64_t most = 0;
    for (const BlockFacts& b : facts_.blocks) most = std::max(most, b.input_bytes);
    return most;
  }

  const StepFacts& facts_;
  const int head_;
  Schedule s_;
  SlotId batch_ = kNoSlot, loss_ = kNoSlot;
  std::vector<SlotId> x_, saved_;  // of the current micro-batch, by block
};

}  // namespace

Schedule train_order(const StepFacts& facts) {
  Order order(StepKind::train, facts);
  for (int m = 0; m < facts.micros; ++m) order.train_micro(m);
  return order.take();
}

Schedule eval_order(const StepFacts& facts) {
  Order order(StepKind::eval, facts);
  for (int m = 0; m < facts.micros; ++m) order.eval_micro(m);
  return order.take();
}

}  // namespace zt::schedule
