#include "exec/lanes.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/ledger.h"

namespace zt::exec {

using schedule::Lane;
using schedule::Op;
using Clock = std::chrono::steady_clock;

namespace {

// Ends a lane whose partner has failed; never leaves this file.
struct Stopped {};

std::size_t number(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

Lanes::Lanes(LaneOptions options, std::function<void(std::exception_ptr)> give_up, device::Queues* queues)
    : options_(std::move(options)), give_up_(std::move(give_up)), queues_(queues) {
  if (queues_ != nullptr) options_.threads = false;
  if (options_.threads) comm_thread_ = std::thread([this] { serve_comm_lane(); });
}

Lanes::~Lanes() {
  if (!comm_thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  comm_thread_.join();
}

double Lanes::run(const schedule::Schedule& list, const Play& play, StepTrace* trace) {
  list_ = &list;
  play_ = &play;
  trace_ = trace;
  if (trace_ != nullptr) *trace_ = {std::vector<plan::Span>(list.ops.size())};
  start_ = Clock::now();
  const double stood_still = queues_ != nullptr ? run_queues(list)
                             : options_.threads ? run_threads(list)
                                                : run_inline(list);
  if (trace_ != nullptr) trace_->seconds = seconds_since(start_);
  return stood_still;
}

// Each op has a span of its own, so lanes write beside each other.
void Lanes::play_op(const Op& op, int index) {
  plan::Span* const span = trace_ == nullptr ? nullptr : &trace_->spans[static_cast<std::size_t>(index)];
  if (span != nullptr) span->start = seconds_since(start_);
  if (options_.before) options_.before(op);
  (*play_)(op, index);
  if (span != nullptr) span->end = seconds_since(start_);
}

void Lanes::note_wait(const Op& op, int index, int blocker, double seconds) {
  if (op.lane == Lane::compute) stood_still_ += seconds;
  if (trace_ == nullptr) return;
  plan::Span& span = trace_->spans[static_cast<std::size_t>(index)];
  span.waited += seconds;
  span.blocker = blocker;
}

double Lanes::run_inline(const schedule::Schedule& list) {
  double communicated = 0, since_compute = 0;
  int blocker = -1;
  stood_still_ = 0;
  for (int i = 0; i < static_cast<int>(list.ops.size()); ++i) {
    const Op& op = list.ops[static_cast<std::size_t>(i)];
    if (op.lane == Lane::compute && since_compute > 0)
      note_wait(op, i, blocker, std::exchange(since_compute, 0));
    const Clock::time_point start = Clock::now();
    play_op(op, i);
    if (op.lane != Lane::comm) continue;
    const double seconds = seconds_since(start);
    communicated += seconds, since_compute += seconds, blocker = i;
  }
  if (trace_ != nullptr) trace_->tail = since_compute;
  return communicated;
}

// The host runs ahead of the device; waits between ops of one queue need no words.
double Lanes::run_queues(const schedule::Schedule& list) {
  ended_.resize(std::max(ended_.size(), list.ops.size()));
  queues_->begin(static_cast<int>(list.ops.size()));
  try {
    for (int i = 0; i < static_cast<int>(list.ops.size()); ++i) {
      const Op& op = list.ops[static_cast<std::size_t>(i)];
      queues_->enter(static_cast<int>(op.lane));
      for (const int wait : op.waits)
        if (wait >= 0 && list.ops[static_cast<std::size_t>(wait)].lane != op.lane) queues_->wait_for(wait);
      queues_->start(i);
      play_op(op, i);
      queues_->mark(i);
    }
    queues_->finish();
  } catch (...) {
    if (give_up_) give_up_(std::current_exception());
    throw;
  }
  const bool apart = std::ranges::any_of(list.ops, [](const Op& op) { return op.lane != Lane::compute; });
  return apart || trace_ != nullptr ? stood_still_on_queues(list) : 0;
}

// An op that begins after another lane's last op it waits for stood still from the end of the op before it to that one's
// end. What the device waited for the host beyond that is none of the other lane's.
double Lanes::stood_still_on_queues(const schedule::Schedule& list) {
  double computed = 0, others = 0;
  stood_still_ = 0;
  for (int i = 0; i < static_cast<int>(list.ops.size()); ++i) {
    const Op& op = list.ops[static_cast<std::size_t>(i)];
    const device::Interval time = queues_->time_of(i);
    ended_[static_cast<std::size_t>(i)] = time.end;
    if (trace_ != nullptr) trace_->spans[static_cast<std::size_t>(i)] = {time.start, time.end};
    if (op.lane != Lane::compute) {
      others = std::max(others, time.end);
      continue;
    }
    int blocker = -1;
    double ready = computed;
    for (const int wait : op.waits)
      if (wait >= 0 && ended_[static_cast<std::size_t>(wait)] > ready)
        blocker = wait, ready = ended_[static_cast<std::size_t>(wait)];
    if (blocker >= 0) note_wait(op, i, blocker, ready - computed);
    computed = time.end;
  }
  const double tail = std::max(0.0, others - computed);
  if (trace_ != nullptr) trace_->tail = tail;
  return stood_still_ + tail;
}

double Lanes::run_threads(const schedule::Schedule& list) {
  place_.clear();
  std::array<int, schedule::kLanes> count{};
  for (const Op& op : list.ops) {
    if (op.lane == Lane::copy) throw Error(Blame::bug, "a list for this device uses the copy lane");
    place_.push_back(count[number(op.lane)]++);
  }
  for (auto& finished : finished_) finished = 0;
  failed_ = false;
  error_ = nullptr;
  stood_still_ = 0;
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
  play_lane(Lane::compute);
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  const double tail = seconds_since(start);
  stood_still_ += tail;
  if (trace_ != nullptr) trace_->tail = tail;
  if (error_) std::rethrow_exception(error_);
  return stood_still_;
}

void Lanes::serve_comm_lane() {
  comm::this_thread_is_beside();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || ending_; });
    if (ending_) return;
    lock.unlock();
    play_lane(Lane::comm);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Lanes::play_lane(Lane lane) {
  try {
    for (int i = 0; i < static_cast<int>(list_->ops.size()); ++i) {
      const Op& op = list_->ops[static_cast<std::size_t>(i)];
      if (op.lane != lane) continue;
      wait_for(op, i);
      play_op(op, i);
      finished_[number(lane)].fetch_add(1, std::memory_order_release);
      finished_[number(lane)].notify_all();
    }
  } catch (const Stopped&) {
  } catch (...) {
    fail(std::current_exception());
  }
}

// Ops of the step before have all finished: run() returns only then.
void Lanes::wait_for(const Op& op, int index) {
  for (const int wait : op.waits) {
    if (wait < 0) continue;
    const auto other = static_cast<std::size_t>(wait);
    std::atomic<int>& finished = finished_[number(list_->ops[other].lane)];
    int now = finished.load(std::memory_order_acquire);
    if (now > place_[other] && !failed_) continue;
    const Clock::time_point start = Clock::now();
    while (now <= place_[other] && !failed_) {
      finished.wait(now, std::memory_order_acquire);
      now = finished.load(std::memory_order_acquire);
    }
    note_wait(op, index, wait, seconds_since(start));
    if (failed_) throw Stopped();
  }
}

void Lanes::fail(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  failed_ = true;
  for (auto& finished : finished_) {
    finished.store(std::numeric_limits<int>::max() / 2);
    finished.notify_all();
  }
  if (give_up_) give_up_(error);
}

}  // namespace zt::exec
