// Collectives among the ranks of a group. Sums go in rank order with fp32 accumulation, so their bits are the
// same whichever transport carries them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/ledger.h"
#include "tensor/dtype.h"

namespace zt::comm {

// Bytes this rank has sent since the communicator was made. A collective over S bytes among N ranks sends
// S (N-1)/N for a gather or a scatter and twice that for an all-reduce. Source: Rajbhandari et al. 2020,
// section 7, with the exact ring factor.
struct Traffic {
  std::int64_t all_gather = 0, reduce_scatter = 0, all_reduce = 0;
  std::int64_t control = 0;  // broadcasts and small messages: fingerprints, norms, statuses
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
Traffic operator-(const Traffic& a, const Traffic& b);

// What each of several ranks will hold of its GPU for transport: Communicator::buffer_bytes.
inline constexpr std::int64_t kGpuBufferBytes = 32 << 20;

// All members are collective and block: every rank of the group calls the same ones in the same order, from
// one thread at a time. `whole` buffers hold size() slices of equal length one after the other; rank r owns
// slice r. Errors: Error(peer) when another rank fails or does not come within the time limit, naming the
// ranks, the operation and the seconds, and what the one furthest behind is doing; after an error the communicator
// can only be destroyed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // In place: on return every rank has every slice.
  void all_gather(void* whole, std::int64_t slice_bytes);
  // In place: this rank's slice becomes the sum of all ranks' slice of that number; the other slices are
  // undefined afterwards. Elements are f32 or bf16 (`dtype`) and travel as `wire` (f32 or bf16, not wider
  // than dtype); they are added in fp32 in rank order and rounded once to `dtype`. With one rank the values
  // stay, rounded through `wire`.
  void reduce_scatter(void* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements);
  // The same for every slice: reduce_scatter, then all_gather of the sums in `dtype`.
  void all_reduce(void* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements);

  void broadcast(void* data, std::int64_t bytes, int root);
  // Small messages: `all` gets each rank's `mine`, in rank order; all.size() == size() * mine.size(), and the
  // two do not overlap.
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all);
  template <typename T>
  void exchange(std::span<const T> mine, std::span<T> all) {
    exchange(std::as_bytes(mine), std::as_writable_bytes(all));
  }
  void barrier();
  // A barrier without a time limit, for ranks whose work before it may take very different times: waiting calls `idle`
  // again and again, at most every millisecond or so. Nothing of the other collectives is open meanwhile. Errors as
  // theirs when another rank fails.
  void rendezvous(const std::function<void()>& idle);

  // From any thread: this rank has failed for the reason given. Its collectives under way and to come throw
  // Error(peer) instead of waiting for others; where ranks are threads, so do those of the others.
  virtual void abandon(std::exception_ptr why) noexcept = 0;

  // Not collective, and waits for nothing; from the thread of the collectives. Error(peer) where another rank is known to have
  // failed while this one waits elsewhere: `waiting` says for what. What only a launcher could know it leaves to that.
  virtual void require_others(const char* waiting) { static_cast<void>(waiting); }

  // A communicator of the ranks that name the same colour, ordered by their rank here. Collective.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  // Memory that this rank holds for transport: staging buffers and its part of shared windows.
  virtual std::int64_t buffer_bytes() const = 0;
  // "solo", "threads", "mpi (shared windows)", "mpi (messages)".
  virtual std::string transport() const = 0;

  // What this rank does now, for those who wait for it: not collective. The thread's collectives belong to it.
  void doing(const Place& place);
  void doing(std::string_view what) { doing(Place::of(what)); }
  // What is known of all ranks; null for a part of them.
  const std::shared_ptr<Ledgers>& ledgers() const { return ledgers_; }

  const Traffic& traffic() const { return traffic_; }

 protected:
  // A part of the job's ranks keeps no ledger: its collectives are not all ranks'.
  Communicator(int rank, int size, std::shared_ptr<Ledgers> ledgers = nullptr)
      : rank_(rank), size_(size), ledgers_(std::move(ledgers)) {}
  // What a transport provides. The public members check arguments, count bytes and return at once for one
  // rank.
  virtual void do_all_gather(std::byte* whole, std::int64_t slice_bytes) = 0;
  virtual void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) = 0;
  virtual void do_broadcast(std::byte* data, std::int64_t bytes, int root) = 0;
  virtual void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual void do_barrier() = 0;
  virtual void do_rendezvous(const std::function<void()>& idle) = 0;

 private:
  // Notes the collective in the ledger, and says in its errors what that knows.
  template <typename Work>
  void noted(const char* operation, std::int64_t bytes, const Work& work);

  int rank_, size_;
  std::shared_ptr<Ledgers> ledgers_;
  Traffic traffic_;
};

// One rank alone: nothing moves.
std::unique_ptr<Communicator> solo();

}  // namespace zt::comm
