// Collectives through shared memory: for ranks on one node.
//
// Every rank has a window that all others read. A collective is a number of rounds: in each a rank writes one
// slot of its window, and reads the others' slots of that round. Two counters a rank, the rounds it has written
// and the rounds it has read, say when a slot may be read and when it may be written again. Rounds are counted
// through the life of the communicator, so counters only grow.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/align.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "comm/peers.h"
#include "comm/ranks.h"
#include "comm/shared_memory.h"
#include "comm/sum.h"

namespace zt::comm {
namespace {

// With more slots than two a rank can go on for a while when the others have lost their core.
constexpr int kSlots = 4;
// What one rank gives another in a round: small enough that slots stay in a core's cache.
constexpr std::int64_t kLargestPiece = 256 << 10, kSmallestPiece = 4 << 10;
// Of a window. Containers often have no more than 64 MB of shared memory for all ranks.
constexpr std::int64_t kStagingBytes = 4 << 20;

// MPI aligns windows to little. Every process maps them at whole pages, so rounding up leads all to the same byte.
constexpr std::int64_t kAlignment = 64;

std::byte* aligned(std::byte* base) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  return base + (round_up(std::int64_t(address), kAlignment) - std::int64_t(address));
}

struct alignas(kAlignment) Counter {
  std::atomic<std::int64_t> value;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "counters are shared between processes");

// Which collective a slot belongs to.
struct alignas(kAlignment) Label {
  std::array<char, 20> operation;
  std::int32_t step;
  std::int64_t bytes;
  std::int32_t op;
  std::array<char, 28> name;
};
static_assert(sizeof(Label) == kAlignment);

// The start of a window; slots follow.
struct Header {
  Counter written, read;  // rounds
  Counter failed;         // not zero when the rank has given up
  std::array<Label, kSlots> labels;
};

class Windows : public Communicator {
 public:
  // `window` is made for slot_bytes(size) in each slot.
  Windows(std::unique_ptr<Ranks> ranks, MPI_Win window, std::vector<std::byte*> bases);
  ~Windows() override;

  static std::int64_t piece_bytes(int size) {
    const std::int64_t share = kStagingBytes / (kSlots * (size - 1)) / kSmallestPiece * kSmallestPiece;
    return std::clamp(share, kSmallestPiece, kLargestPiece);
  }
  static std::int64_t window_bytes(int size) {
    return kAlignment + std::int64_t(sizeof(Header)) + kSlots * (size - 1) * piece_bytes(size);
  }

  std::unique_ptr<Communicator> split(int color) override;
  void abandon(std::exception_ptr) noexcept override {
    note_failure();
    comm::give_up_waiting();
  }
  void require_others(const char* waiting) override { stop_if_others_failed({waiting, 0}); }
  std::int64_t buffer_bytes() const override { return window_bytes(size()); }
  std::string transport() const override { return "mpi (shared windows)"; }

 private:
  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override;
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override;
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override;
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void do_barrier() override;
  void do_rendezvous(const std::function<void()>& idle) override { ranks_->rendezvous(idle); }

  // Calls write(t, slot of this rank) and read(t) for t = 0 ... rounds - 1, each as soon as it may be.
  template <typename Write, typename Read>
  void run(const Call& call, std::int64_t rounds, const Write& write, const Read& read);

  Header& header(int rank) const { return *reinterpret_cast<Header*>(bases_[std::size_t(rank)]); }
  std::byte* slot(int rank, std::int64_t round) const {
    return bases_[std::size_t(rank)] + sizeof(Header) +
           (before_ + round) % kSlots * (size() - 1) * piece_bytes_;
  }
  // Where `from` lays what is meant for `to` alone.
  std::byte* piece(int from, int to, std::int64_t round) const {
    return slot(from, round) + (to < from ? to : to - 1) * piece_bytes_;
  }
  bool all_at_least(Counter Header::* counter, std::int64_t rounds) const;
  void put_label(const Call& call, std::int64_t round);
  void check_labels(const Call& call, std::int64_t round);
  void stop_if_others_failed(const Call& call);
  [[noreturn]] void fail_late(const Call& call, std::int64_t written, std::int64_t read);
  void note_failure();

  std::unique_ptr<Ranks> ranks_;
  MPI_Win window_;
  std::vector<std::byte*> bases_;  // every rank's window
  std::int64_t piece_bytes_;
  std::int64_t before_ = 0;  // rounds of all collectives before this one
  std::vector<Part> parts_;
};

Windows::Windows(std::unique_ptr<Ranks> ranks, MPI_Win window, std::vector<std::byte*> bases)
    : Communicator(ranks->rank(), ranks->size(), ranks->ledgers()),
      ranks_(std::move(ranks)),
      window_(window),
      bases_(std::move(bases)),
      piece_bytes_(piece_bytes(size())),
      parts_(std::size_t(size())) {}

Windows::~Windows() {
  // Freeing a window waits for all ranks without a time limit, so first see that they come.
  if (!ranks_->troubled()) {
    try {
      do_barrier();
    } catch (const Error&) {
      // Whoever is missing has said why, or the launcher will.
    }
  }
  if (ranks_->troubled()) {
    note_failure();
    return;
  }
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

bool Windows::all_at_least(Counter Header::* counter, std::int64_t rounds) const {
  for (int r = 0; r < size(); ++r)
    if (r != rank() && (header(r).*counter).value.load(std::memory_order_acquire) < rounds) return false;
  return true;
}

template <typename Write, typename Read>
void Windows::run(const Call& call, std::int64_t rounds, const Write& write, const Read& read) {
  Header& mine = header(rank());
  Patience patience(ranks_->timeout_seconds());
  std::int64_t written = 0, done = 0;
  while (done < rounds) {
    bool moved = false;
    if (written < rounds && all_at_least(&Header::read, before_ + written + 1 - kSlots)) {
      if (written == 0) put_label(call, written);
      write(written, slot(rank(), written));
      ++written;
      mine.written.value.store(before_ + written, std::memory_order_release);
      moved = true;
    }
    if (done < written && all_at_least(&Header::written, before_ + done + 1)) {
      if (done == 0) check_labels(call, done);
      read(done);
      ++done;
      mine.read.value.store(before_ + done, std::memory_order_release);
      moved = true;
    }
    if (moved) {
      patience.progress();
      continue;
    }
    stop_if_others_failed(call);
    if (!patience.pause()) fail_late(call, written, done);
  }
  before_ += rounds;
}

void Windows::put_label(const Call& call, std::int64_t round) {
  Label& label = header(rank()).labels[std::size_t((before_ + round) % kSlots)];
  std::strncpy(label.operation.data(), call.operation, label.operation.size() - 1);
  label.bytes = call.bytes;
  label.step = std::int32_t(call.place.step);
  label.op = std::int32_t(call.place.op);
  std::copy_n(call.place.name.begin(), label.name.size() - 1, label.name.begin());
}

void Windows::check_labels(const Call& call, std::int64_t round) {
  for (int r = 0; r < size(); ++r) {
    const Label& label = header(r).labels[std::size_t((before_ + round) % kSlots)];
    if (r == rank() ||
        (std::strcmp(label.operation.data(), call.operation) == 0 && label.bytes == call.bytes))
      continue;
    note_failure();
    throw mismatch_error(
        ranks_->in_job(rank()), call, ranks_->in_job(r),
        {label.operation.data(), label.bytes, Place::of(label.name.data(), label.step, label.op)});
  }
}

void Windows::stop_if_others_failed(const Call& call) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank() || header(r).failed.value.load(std::memory_order_acquire) == 0) continue;
    note_failure();
    throw failed_error(ranks_->in_job(rank()), {ranks_->in_job(r)}, call.operation);
  }
}

void Windows::fail_late(const Call& call, std::int64_t written, std::int64_t read) {
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const bool unwritten = header(r).written.value < before_ + read + 1;
    const bool unread = header(r).read.value < before_ + written + 1 - kSlots;
    if (unwritten || unread) missing.push_back(ranks_->in_job(r));
  }
  note_failure();
  throw LateError(ranks_->in_job(rank()), missing, call.operation, ranks_->timeout_seconds());
}

// The others see it where they wait.
void Windows::note_failure() {
  header(rank()).failed.value.store(1, std::memory_order_release);
  Troubles::note();
}

void Windows::do_all_gather(std::byte* whole, std::int64_t slice_bytes) {
  const std::int64_t chunk = piece_bytes_ * std::min(size() - 1, 2);
  const auto bytes = [&](std::int64_t t) { return std::size_t(std::min(chunk, slice_bytes - t * chunk)); };
  run(
      {"all_gather", slice_bytes}, (slice_bytes + chunk - 1) / chunk,
      [&](std::int64_t t, std::byte* to) {
        std::memcpy(to, whole + rank() * slice_bytes + t * chunk, bytes(t));
      },
      [&](std::int64_t t) {
        for (int r = 0; r < size(); ++r)
          if (r != rank()) std::memcpy(whole + r * slice_bytes + t * chunk, slot(r, t), bytes(t));
      });
}

void Windows::do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  const std::int64_t chunk = piece_bytes_ / size_of(wire);
  const auto elements = [&](std::int64_t t) { return std::min(chunk, slice_elements - t * chunk); };
  const auto place = [&](int owner, std::int64_t t) {
    return whole + (owner * slice_elements + t * chunk) * size_of(dtype);
  };
  run(
      {"reduce_scatter", slice_elements * size_of(wire)}, (slice_elements + chunk - 1) / chunk,
      [&](std::int64_t t, std::byte*) {
        for (int r = 0; r < size(); ++r)
          if (r != rank()) to_wire(place(r, t), dtype, wire, piece(rank(), r, t), elements(t));
      },
      [&](std::int64_t t) {
        std::byte* mine = place(rank(), t);
        for (int r = 0; r < size(); ++r)
          parts_[std::size_t(r)] = r == rank() ? Part{mine, dtype} : Part{piece(r, rank(), t), wire};
        sum_in_rank_order(parts_, wire, dtype, mine, elements(t));
      });
}

void Windows::do_broadcast(std::byte* data, std::int64_t bytes, int root) {
  const std::int64_t chunk = piece_bytes_;
  const auto part = [&](std::int64_t t) { return std::size_t(std::min(chunk, bytes - t * chunk)); };
  run(
      {"broadcast", bytes}, (bytes + chunk - 1) / chunk,
      [&](std::int64_t t, std::byte* to) {
        if (rank() == root) std::memcpy(to, data + t * chunk, part(t));
      },
      [&](std::int64_t t) {
        if (rank() != root) std::memcpy(data + t * chunk, slot(root, t), part(t));
      });
}

void Windows::do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto bytes = std::int64_t(mine.size());
  std::memcpy(all.data() + rank() * bytes, mine.data(), mine.size());
  do_all_gather(all.data(), bytes);
}

void Windows::do_barrier() {
  run({"barrier", 0}, 1, [](std::int64_t, std::byte*) {}, [](std::int64_t) {});
}

// Whether it is so on every rank. Collective.
bool on_all(const Ranks& ranks, bool here) {
  int mine = here ? 1 : 0, everywhere = 0;
  check_mpi(MPI_Allreduce(&mine, &everywhere, 1, MPI_INT, MPI_MIN, ranks.raw()), "MPI_Allreduce");
  return everywhere != 0;
}

// Nothing where some rank did not get its memory.
std::unique_ptr<Communicator> make_windows(std::unique_ptr<Ranks>& ranks) {
  constexpr std::int64_t kOpenMpi = 64 << 10;  // what it keeps beside each rank's part
  const std::int64_t wanted = ranks->size() * (Windows::window_bytes(ranks->size()) + kOpenMpi);
  if (!on_all(*ranks, has_shared_memory(wanted))) return nullptr;
  MPI_Info info = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&info), "MPI_Info_create");
  // Each rank's part on its own pages, near the rank.
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  std::byte* mine = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const int status = MPI_Win_allocate_shared(MPI_Aint(Windows::window_bytes(ranks->size())), 1, info,
                                             ranks->raw(), &mine, &window);
  MPI_Info_free(&info);
  if (!on_all(*ranks, status == MPI_SUCCESS)) return nullptr;

  std::vector<std::byte*> bases(std::size_t(ranks->size()), nullptr);
  for (int r = 0; r < ranks->size(); ++r) {
    MPI_Aint bytes = 0;
    int unit = 0;
    std::byte* base = nullptr;
    check_mpi(MPI_Win_shared_query(window, r, &bytes, &unit, &base), "MPI_Win_shared_query");
    bases[std::size_t(r)] = aligned(base);
  }
  new (bases[std::size_t(ranks->rank())]) Header{};
  check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, window), "MPI_Win_lock_all");
  check_mpi(MPI_Barrier(ranks->raw()), "MPI_Barrier");
  return std::make_unique<Windows>(std::move(ranks), window, std::move(bases));
}

std::unique_ptr<Communicator> Windows::split(int color) {
  std::unique_ptr<Ranks> part = ranks_->split(exchange_colors(*this, color));
  if (part->size() == 1) return solo();
  auto windows = make_windows(part);
  return windows != nullptr ? std::move(windows) : over_messages(std::move(part));
}

}  // namespace

std::int64_t buffer_bytes_on_one_node(int ranks) { return ranks > 1 ? Windows::window_bytes(ranks) : 0; }

std::unique_ptr<Communicator> over_windows(std::unique_ptr<Ranks>& ranks) { return make_windows(ranks); }

}  // namespace zt::comm
