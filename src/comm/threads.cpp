#include "comm/threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_end.h"
#include "comm/peers.h"
#include "comm/sum.h"

namespace zt::comm {
namespace {

// What all virtual ranks share. One mutex guards this and the counters of every group.
struct World {
  World(int ranks, double seconds)
      : timeout_seconds(seconds),
        ended(std::size_t(ranks)),
        ledgers(std::make_shared<Ledgers>(std::size_t(ranks))) {}

  std::mutex mutex;
  std::condition_variable changed;
  const double timeout_seconds;
  std::vector<bool> ended;  // whose body has returned or thrown
  const std::shared_ptr<Ledgers> ledgers;
  std::exception_ptr cause;
  int cause_rank = -1;

  // With the mutex held. The first cause stays; the rank whose it is may know more of it later.
  void fail(int rank, std::exception_ptr error) {
    if (cause == nullptr || cause_rank == rank) {
      cause = std::move(error);
      cause_rank = rank;
    }
    changed.notify_all();
  }
};

// The ranks of one communicator. Between two meetings `data` and `calls` belong to their ranks; after a
// meeting everyone reads them until the next one.
struct Group {
  Group(std::shared_ptr<World> w, std::vector<int> ranks)
      : world(std::move(w)),
        members(std::move(ranks)),
        data(members.size()),
        calls(members.size()),
        arrivals(members.size()) {}

  const std::shared_ptr<World> world;
  const std::vector<int> members;  // numbers in the world
  std::vector<const std::byte*> data;
  std::vector<Call> calls;
  std::vector<std::int64_t> arrivals;
  int shown = 0;                                   // ranks that have shown their buffer, until all have
  int readers = 0;                                 // ranks that may be reading others' buffers
  std::map<int, std::shared_ptr<Group>> children;  // by colour, while a split lasts

  std::shared_ptr<Ledgers> ledgers() const {
    return members.size() == world->ended.size() ? world->ledgers : nullptr;
  }

  std::vector<int> missing(std::int64_t meeting) const {
    std::vector<int> late;
    for (std::size_t i = 0; i < members.size(); ++i)
      if (arrivals[i] < meeting) late.push_back(members[i]);
    return late;
  }
};

class Threads : public Communicator {
 public:
  Threads(std::shared_ptr<Group> group, int rank)
      : Communicator(rank, int(group->members.size()), group->ledgers()), group_(std::move(group)) {}

  std::unique_ptr<Communicator> split(int color) override;
  void abandon(std::exception_ptr why) noexcept override {
    const std::lock_guard lock(group_->world->mutex);
    group_->world->fail(world_rank(), std::move(why));
  }
  void require_others(const char* waiting) override {
    const std::lock_guard lock(group_->world->mutex);
    stop_if_failed(waiting);
  }
  std::int64_t buffer_bytes() const override { return 0; }
  std::string transport() const override { return "threads"; }

 private:
  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override;
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override;
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override;
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void do_barrier() override { come_together("barrier"); }
  void do_rendezvous(const std::function<void()>& idle) override;

  int world_rank() const { return group_->members[std::size_t(rank())]; }
  const std::byte* data_of(int rank) const { return group_->data[std::size_t(rank)]; }
  // Shows this rank's buffer to all and returns when all have shown theirs.
  void publish(const std::byte* data, const Call& call);
  // Returns when no one reads this rank's buffer any more.
  void withdraw(const char* operation);
  void meet(std::unique_lock<std::mutex>& lock, const char* operation,
            const std::function<void()>* idle = nullptr);
  void come_together(const char* operation);
  void stop_if_failed(const char* operation) const;
  std::vector<int> ended_before(std::int64_t meeting) const;
  template <typename Kind>
  [[noreturn]] void give_up(const Kind& error);

  std::shared_ptr<Group> group_;
};

// With the mutex held.
template <typename Kind>
void Threads::give_up(const Kind& error) {
  group_->world->fail(world_rank(), std::make_exception_ptr(error));
  throw error;
}

std::vector<int> Threads::ended_before(std::int64_t meeting) const {
  std::vector<int> ranks = group_->missing(meeting);
  std::erase_if(ranks, [&](int r) { return !group_->world->ended[std::size_t(r)]; });
  return ranks;
}

void Threads::stop_if_failed(const char* operation) const {
  const World& world = *group_->world;
  if (world.cause != nullptr) throw failed_error(world_rank(), {world.cause_rank}, operation);
}

// Returns when all ranks of the group are here. After a failure no meeting can become complete, so none of
// those who gave up is read any more. With `idle` there is no time limit.
void Threads::meet(std::unique_lock<std::mutex>& lock, const char* operation,
                   const std::function<void()>* idle) {
  World& world = *group_->world;
  stop_if_failed(operation);
  const std::int64_t meeting = ++group_->arrivals[std::size_t(rank())];
  world.changed.notify_all();
  const auto settled = [&] {
    return group_->missing(meeting).empty() || world.cause != nullptr || !ended_before(meeting).empty();
  };
  const auto limit = std::chrono::duration<double>(std::min(world.timeout_seconds, kLongestSeconds));
  while (idle != nullptr && !world.changed.wait_for(lock, std::chrono::milliseconds(20), settled)) {
    lock.unlock();
    (*idle)();
    lock.lock();
  }
  const bool in_time = world.changed.wait_for(lock, limit, settled);
  const std::vector<int> missing = group_->missing(meeting);
  if (missing.empty()) return;
  stop_if_failed(operation);
  if (!in_time) give_up(LateError(world_rank(), missing, operation, world.timeout_seconds));
  give_up(Error(Blame::peer,
                cat("rank ", world_rank(), " waits in ", operation, " for ", rank_list(ended_before(meeting)),
                    ", which ended before"),
                "every rank must take part in the same collectives"));
}

void Threads::publish(const std::byte* data, const Call& call) {
  Group& group = *group_;
  std::unique_lock lock(group.world->mutex);
  stop_if_failed(call.operation);
  group.data[std::size_t(rank())] = data;
  group.calls[std::size_t(rank())] = call;
  if (++group.shown == size()) {
    group.shown = 0;
    group.readers = size();
  }
  meet(lock, call.operation);
  for (int r = 0; r < size(); ++r) {
    const Call& theirs = group.calls[std::size_t(r)];
    if (std::strcmp(theirs.operation, call.operation) == 0 && theirs.bytes == call.bytes) continue;
    group.readers = 0;  // everyone sees some difference, and no one reads
    give_up(mismatch_error(world_rank(), call, group.members[std::size_t(r)], theirs));
  }
}

void Threads::come_together(const char* operation) {
  publish(nullptr, {operation, 0});
  withdraw(operation);
}

// Nobody looks at another's buffer, so one meeting is enough.
void Threads::do_rendezvous(const std::function<void()>& idle) {
  std::unique_lock lock(group_->world->mutex);
  meet(lock, "rendezvous", &idle);
}

void Threads::withdraw(const char* operation) {
  World& world = *group_->world;
  std::unique_lock lock(world.mutex);
  --group_->readers;
  world.changed.notify_all();
  try {
    meet(lock, operation);
  } catch (const Error&) {
    // The caller may free its buffer now.
    world.changed.wait(lock, [&] { return group_->readers == 0; });
    throw;
  }
}

void Threads::do_all_gather(std::byte* whole, std::int64_t slice_bytes) {
  publish(whole, {"all_gather", slice_bytes});
  for (int r = 0; r < size(); ++r) {
    const std::int64_t at = r * slice_bytes;
    if (r != rank()) std::memcpy(whole + at, data_of(r) + at, std::size_t(slice_bytes));
  }
  withdraw("all_gather");
}

// Rank r alone touches slice r of every buffer, so no one waits between reading and writing.
void Threads::do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  publish(whole, {"reduce_scatter", slice_elements * size_of(dtype)});
  const std::int64_t at = rank() * slice_elements * size_of(dtype);
  std::vector<Part> parts;
  for (int r = 0; r < size(); ++r) parts.push_back({data_of(r) + at, dtype});
  sum_in_rank_order(parts, wire, dtype, whole + at, slice_elements);
  withdraw("reduce_scatter");
}

void Threads::do_broadcast(std::byte* data, std::int64_t bytes, int root) {
  publish(data, {"broadcast", bytes});
  if (rank() != root) std::memcpy(data, data_of(root), std::size_t(bytes));
  withdraw("broadcast");
}

void Threads::do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  publish(mine.data(), {"exchange", std::int64_t(mine.size())});
  for (int r = 0; r < size(); ++r)
    std::memcpy(all.data() + std::size_t(r) * mine.size(), data_of(r), mine.size());
  withdraw("exchange");
}

std::unique_ptr<Communicator> Threads::split(int color) {
  std::vector<int> colors(std::size_t(size()), 0);
  const std::span<const int> mine(&color, 1);
  do_exchange(std::as_bytes(mine), std::as_writable_bytes(std::span(colors)));
  std::vector<int> members;
  int new_rank = 0;
  for (int r = 0; r < size(); ++r) {
    if (colors[std::size_t(r)] != color) continue;
    if (r == rank()) new_rank = int(members.size());
    members.push_back(group_->members[std::size_t(r)]);
  }
  std::shared_ptr<Group> child;
  {
    const std::lock_guard lock(group_->world->mutex);
    std::shared_ptr<Group>& entry = group_->children[color];
    if (entry == nullptr) entry = std::make_shared<Group>(group_->world, members);
    child = entry;
  }
  come_together("split");
  {
    const std::lock_guard lock(group_->world->mutex);
    group_->children.erase(color);
  }
  come_together("split");
  return std::make_unique<Threads>(child, new_rank);
}

void run_body(const std::shared_ptr<Group>& group, int rank, const std::function<void(Communicator&)>& body,
              bool& threw) {
  World& world = *group->world;
  std::exception_ptr error;
  try {
    Threads communicator(group, rank);
    this_thread_is(rank, &(*world.ledgers)[std::size_t(rank)]);
    body(communicator);
  } catch (...) {
    error = std::current_exception();
  }
  this_thread_is(rank, nullptr);
  const std::lock_guard lock(world.mutex);
  world.ended[std::size_t(rank)] = true;
  threw = error != nullptr;
  if (threw) world.fail(rank, error);
  world.changed.notify_all();
}

[[noreturn]] void throw_with_rank(const std::exception_ptr& cause, int rank) {
  try {
    std::rethrow_exception(cause);
  } catch (const Error& e) {
    // Errors of waiting name their rank already.
    const std::string prefix = cat("rank ", rank);
    if (starts_with(e.problem(), prefix)) throw;
    throw Error(e.blame(), cat(prefix, ": ", e.problem()), e.hint());
  } catch (const std::bad_alloc&) {
    throw Error(Blame::machine, cat("rank ", rank, ": memory ran out"));
  } catch (const std::exception& e) {
    throw Error(Blame::bug, cat("rank ", rank, ": ", e.what()));
  }
}

// A thread that waits for no other cannot be ended from outside. So where one does not end after another has failed, the
// program does.
void end_if_one_hangs(World& world) {
  constexpr auto kPatience = std::chrono::seconds(10);
  std::unique_lock lock(world.mutex);
  const auto all_ended = [&] { return std::ranges::find(world.ended, false) == world.ended.end(); };
  world.changed.wait(lock, [&] { return all_ended() || world.cause != nullptr; });
  if (world.changed.wait_for(lock, kPatience, all_ended)) return;
  try {
    throw_with_rank(world.cause, world.cause_rank);
  } catch (const Error& e) {
    log::error(e.what());
    std::_Exit(exit_status(e.blame()));
  }
}

}  // namespace

void run_threads(int ranks, double timeout_seconds, const std::function<void(Communicator&)>& body) {
  if (ranks < 1) throw Error(Blame::bug, cat("run_threads: ", ranks, " ranks"));
  const auto world = std::make_shared<World>(ranks, timeout_seconds);
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  const auto group = std::make_shared<Group>(world, members);

  std::vector<char> threw(std::size_t(ranks), 0);
  std::vector<std::thread> threads;
  try {
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        bool failed = false;
        run_body(group, r, body, failed);
        threw[std::size_t(r)] = failed;
      });
    }
  } catch (const std::system_error& e) {
    const std::lock_guard lock(world->mutex);
    threw.back() = true;
    for (std::size_t r = threads.size(); r < world->ended.size(); ++r) world->ended[r] = true;
    world->fail(int(threads.size()),
                std::make_exception_ptr(Error(Blame::machine, cat("no thread to be had: ", e.what()))));
  }
  end_if_one_hangs(*world);
  for (std::thread& thread : threads) thread.join();
  if (std::none_of(threw.begin(), threw.end(), [](char t) { return t != 0; })) return;
  if (ranks == 1) std::rethrow_exception(world->cause);
  throw_with_rank(world->cause, world->cause_rank);
}

}  // namespace zt::comm
