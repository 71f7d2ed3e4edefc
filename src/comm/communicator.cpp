#include "comm/communicator.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "comm/peers.h"
#include "comm/sum.h"

namespace zt::comm {
namespace {

[[noreturn]] void refuse(const char* operation, const std::string& what) {
  throw Error(Blame::bug, cat(operation, ": ", what));
}

void check_buffer(const char* operation, const void* data, std::int64_t bytes) {
  if (bytes < 0) refuse(operation, cat("a size of ", bytes, " bytes"));
  if (bytes > 0 && data == nullptr) refuse(operation, cat("no memory for ", bytes, " bytes"));
}

void check_slices(const char* operation, const void* whole, std::int64_t slice, std::int64_t unit, int size) {
  if (slice < 0 || slice > std::numeric_limits<std::int64_t>::max() / unit / size)
    refuse(operation, cat("slices of ", slice, " elements on ", size, " ranks"));
  check_buffer(operation, whole, slice * unit * size);
}

void check_formats(const char* operation, Dtype dtype, Dtype wire) {
  const bool known =
      (dtype == Dtype::f32 || dtype == Dtype::bf16) && (wire == Dtype::f32 || wire == Dtype::bf16);
  if (!known || size_of(wire) > size_of(dtype))
    refuse(operation, cat("cannot add ", name(dtype), " values that travel as ", name(wire)));
}

// A sum of one: the value as the wire would have delivered it.
void round_through(void* whole, Dtype dtype, Dtype wire, std::int64_t elements) {
  if (dtype == wire) return;
  auto* data = static_cast<std::byte*>(whole);
  const std::array<Part, 1> alone = {Part{data, dtype}};
  sum_in_rank_order(alone, wire, dtype, data, elements);
}

}  // namespace

Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.all_gather - b.all_gather, a.reduce_scatter - b.reduce_scatter, a.all_reduce - b.all_reduce,
          a.control - b.control};
}

void Communicator::doing(const Place& place) {
  if (ledgers_ != nullptr) (*ledgers_)[std::size_t(rank_)].doing(place);
}

template <typename Work>
void Communicator::noted(const char* operation, std::int64_t bytes, const Work& work) {
  if (ledgers_ == nullptr) return work();
  Ledger& mine = (*ledgers_)[std::size_t(rank_)];
  mine.enter(operation, bytes);
  try {
    work();
  } catch (const LateError& e) {
    const int last = furthest_behind(*ledgers_, e.missing());
    const std::string known = account((*ledgers_)[std::size_t(last)]);
    if (known.empty()) throw;
    const std::string who =
        e.missing().size() == 1 ? ", which " : cat("; furthest behind is rank ", last, ", which ");
    throw Error(e.blame(), cat(e.problem(), " (collective ", mine.meeting().number, ")", who, known),
                e.hint());
  }
  mine.leave();
}

void Communicator::all_gather(void* whole, std::int64_t slice_bytes) {
  check_slices("all_gather", whole, slice_bytes, 1, size_);
  if (size_ == 1 || slice_bytes == 0) return;
  noted("all_gather", slice_bytes * size_,
        [&] { do_all_gather(static_cast<std::byte*>(whole), slice_bytes); });
  traffic_.all_gather += slice_bytes * (size_ - 1);
}

void Communicator::reduce_scatter(void* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  check_formats("reduce_scatter", dtype, wire);
  check_slices("reduce_scatter", whole, slice_elements, size_of(dtype), size_);
  if (size_ == 1) return round_through(whole, dtype, wire, slice_elements);
  if (slice_elements == 0) return;
  noted("reduce_scatter", slice_elements * size_of(dtype) * size_,
        [&] { do_reduce_scatter(static_cast<std::byte*>(whole), dtype, wire, slice_elements); });
  traffic_.reduce_scatter += slice_elements * size_of(wire) * (size_ - 1);
}

void Communicator::all_reduce(void* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  check_formats("all_reduce", dtype, wire);
  check_slices("all_reduce", whole, slice_elements, size_of(dtype), size_);
  if (size_ == 1) return round_through(whole, dtype, wire, slice_elements);
  if (slice_elements == 0) return;
  noted("all_reduce", slice_elements * size_of(dtype) * size_, [&] {
    do_reduce_scatter(static_cast<std::byte*>(whole), dtype, wire, slice_elements);
    do_all_gather(static_cast<std::byte*>(whole), slice_elements * size_of(dtype));
  });
  traffic_.all_reduce += slice_elements * (size_of(wire) + size_of(dtype)) * (size_ - 1);
}

void Communicator::broadcast(void* data, std::int64_t bytes, int root) {
  check_buffer("broadcast", data, bytes);
  if (root < 0 || root >= size_) refuse("broadcast", cat("root ", root, " among ", size_, " ranks"));
  if (size_ == 1 || bytes == 0) return;
  noted("broadcast", bytes, [&] { do_broadcast(static_cast<std::byte*>(data), bytes, root); });
  if (rank_ == root) traffic_.control += bytes * (size_ - 1);
}

void Communicator::exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (all.size() != mine.size() * std::size_t(size_))
    refuse("exchange", cat(all.size(), " bytes for ", size_, " messages of ", mine.size()));
  if (mine.empty()) return;
  const std::less<const std::byte*> before;
  if (before(mine.data(), all.data() + all.size()) && before(all.data(), mine.data() + mine.size()))
    refuse("exchange", "the message overlaps the answers");
  if (size_ == 1) {
    std::copy(mine.begin(), mine.end(), all.begin());
    return;
  }
  noted("exchange", std::int64_t(mine.size()), [&] { do_exchange(mine, all); });
  traffic_.control += std::int64_t(mine.size()) * (size_ - 1);
}

void Communicator::barrier() {
  if (size_ > 1) noted("barrier", 0, [&] { do_barrier(); });
}

void Communicator::rendezvous(const std::function<void()>& idle) {
  if (size_ > 1) noted("rendezvous", 0, [&] { do_rendezvous(idle); });
}

}  // namespace zt::comm
