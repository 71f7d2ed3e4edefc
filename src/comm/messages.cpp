// Collectives over pairwise messages: for ranks on several nodes.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "comm/peers.h"
#include "comm/ranks.h"
#include "comm/sum.h"

namespace zt::comm {
namespace {

// Data that is only moved goes in messages of this size. MPI's counts are 32 bits wide, and messages near 2^31
// bytes have failed silently in several versions; besides, a large one shows no progress until it is complete, and a
// rank that sees none goes to sleep.
constexpr std::int64_t kMessage = 1 << 20;
// What `exchange` is for.
constexpr std::int64_t kLargestSmallMessage = 1 << 30;
// Pieces of a reduction: small enough to stay in a core's cache between arriving and being added.
constexpr std::int64_t kLargestPiece = 512 << 10, kSmallestPiece = 4 << 10;
constexpr std::int64_t kStagingBytes = kMessageBufferBytes;
// While one piece is added the next is under way.
constexpr int kSlots = 2;

// One tag a kind of collective: ranks in different ones miss each other and say so in time.
enum Tag : int { kAllGather = 1, kReduceScatter, kBroadcast, kExchange, kBarrier };

// Messages under way. `wait` gives up after the time limit.
class Requests {
 public:
  explicit Requests(const Ranks& ranks) : ranks_(ranks) {}
  ~Requests() { abandon(); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  void send(const std::byte* data, std::int64_t bytes, int to, Tag tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(data, int(bytes), MPI_BYTE, to, tag, ranks_.raw(), &request), "MPI_Isend");
    add(request, to, false);
  }
  void receive(std::byte* data, std::int64_t bytes, int from, Tag tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data, int(bytes), MPI_BYTE, from, tag, ranks_.raw(), &request), "MPI_Irecv");
    add(request, from, true);
  }
  void wait(const char* operation);

 private:
  void add(MPI_Request request, int peer, bool receives) {
    raw_.push_back(request);
    peers_.push_back({peer, receives});
    done_.push_back(0);
  }
  [[noreturn]] void give_up(const char* operation);
  void abandon();

  struct Peer {
    int rank;
    bool receives;
  };
  const Ranks& ranks_;
  std::vector<MPI_Request> raw_;
  std::vector<Peer> peers_;
  std::vector<int> done_;  // MPI_Testsome's list
};

void Requests::wait(const char* operation) {
  Patience patience(ranks_.timeout_seconds());
  for (std::size_t left = raw_.size(); left > 0;) {
    int count = 0;
    check_mpi(MPI_Testsome(int(raw_.size()), raw_.data(), &count, done_.data(), MPI_STATUSES_IGNORE),
              operation);
    if (count == MPI_UNDEFINED) break;
    left -= std::size_t(count);
    if (count > 0) {
      patience.progress();
    } else if (!patience.pause()) {
      give_up(operation);
    }
  }
  raw_.clear();
  peers_.clear();
  done_.clear();
}

void Requests::give_up(const char* operation) {
  std::vector<int> missing;
  for (std::size_t i = 0; i < raw_.size(); ++i)
    if (raw_[i] != MPI_REQUEST_NULL) missing.push_back(ranks_.in_job(peers_[i].rank));
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  Troubles::note();
  throw LateError(ranks_.in_job(ranks_.rank()), missing, operation, ranks_.timeout_seconds());
}

// After an error nothing may arrive in memory that its owner is about to free.
void Requests::abandon() {
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    if (raw_[i] == MPI_REQUEST_NULL) continue;
    if (peers_[i].receives) MPI_Cancel(&raw_[i]);
    MPI_Request_free(&raw_[i]);
  }
}

class Messages : public Communicator {
 public:
  explicit Messages(std::unique_ptr<Ranks> ranks);

  std::unique_ptr<Communicator> split(int color) override;
  void abandon(std::exception_ptr) noexcept override {
    Troubles::note();
    give_up_waiting();
  }
  std::int64_t buffer_bytes() const override { return std::int64_t(received_.size() + converted_.size()); }
  std::string transport() const override { return "mpi (messages)"; }

 private:
  struct Reduction {
    std::byte* whole;
    Dtype dtype, wire;
    std::int64_t slice_elements;
  };

  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override;
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override;
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override;
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void do_barrier() override;
  void do_rendezvous(const std::function<void()>& idle) override { ranks_->rendezvous(idle); }

  int to(int step) const { return (rank() + step) % size(); }
  int from(int step) const { return (rank() - step + size()) % size(); }
  std::byte* piece(std::vector<std::byte>& staging, std::int64_t round, int peer) {
    const int other = peer < rank() ? peer : peer - 1;
    return staging.data() + ((round % kSlots) * (size() - 1) + other) * piece_bytes_;
  }
  void start_round(const Reduction& r, std::int64_t round);
  void finish_round(const Reduction& r, std::int64_t round);

  std::unique_ptr<Ranks> ranks_;
  std::int64_t piece_bytes_;
  std::vector<std::byte> received_, converted_;
  std::array<Requests, kSlots> arriving_, leaving_;
  std::vector<Part> parts_;
};

std::int64_t piece_bytes(int size) {
  const std::int64_t share = kStagingBytes / (2 * kSlots * (size - 1)) / kSmallestPiece * kSmallestPiece;
  return std::clamp(share, kSmallestPiece, kLargestPiece);
}

Messages::Messages(std::unique_ptr<Ranks> ranks)
    : Communicator(ranks->rank(), ranks->size(), ranks->ledgers()),
      ranks_(std::move(ranks)),
      piece_bytes_(piece_bytes(size())),
      received_(std::size_t(kSlots * (size() - 1) * piece_bytes_)),
      converted_(received_.size()),
      arriving_{Requests(*ranks_), Requests(*ranks_)},
      leaving_{Requests(*ranks_), Requests(*ranks_)},
      parts_(std::size_t(size())) {}

void Messages::do_all_gather(std::byte* whole, std::int64_t slice_bytes) {
  const std::int64_t rounds = (slice_bytes + kMessage - 1) / kMessage;
  const auto start_round = [&](std::int64_t round) {
    Requests& requests = arriving_[std::size_t(round % kSlots)];
    const std::int64_t at = round * kMessage, bytes = std::min(kMessage, slice_bytes - at);
    for (int step = 1; step < size(); ++step) {
      requests.receive(whole + from(step) * slice_bytes + at, bytes, from(step), kAllGather);
      requests.send(whole + rank() * slice_bytes + at, bytes, to(step), kAllGather);
    }
  };
  start_round(0);
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) start_round(round + 1);
    arriving_[std::size_t(round % kSlots)].wait("all_gather");
  }
}

// Round t carries piece t of every slice to its owner.
void Messages::start_round(const Reduction& r, std::int64_t round) {
  const std::int64_t piece_elements = piece_bytes_ / size_of(r.wire), first = round * piece_elements;
  const std::int64_t n = std::min(piece_elements, r.slice_elements - first);
  Requests& arriving = arriving_[std::size_t(round % kSlots)];
  Requests& leaving = leaving_[std::size_t(round % kSlots)];
  leaving.wait("reduce_scatter");
  for (int step = 1; step < size(); ++step)
    arriving.receive(piece(received_, round, from(step)), n * size_of(r.wire), from(step), kReduceScatter);
  for (int step = 1; step < size(); ++step) {
    const int owner = to(step);
    const std::byte* data = r.whole + (owner * r.slice_elements + first) * size_of(r.dtype);
    if (r.dtype != r.wire) {
      std::byte* converted = piece(converted_, round, owner);
      to_wire(data, r.dtype, r.wire, converted, n);
      data = converted;
    }
    leaving.send(data, n * size_of(r.wire), owner, kReduceScatter);
  }
}

void Messages::finish_round(const Reduction& r, std::int64_t round) {
  const std::int64_t piece_elements = piece_bytes_ / size_of(r.wire), first = round * piece_elements;
  std::byte* mine = r.whole + (rank() * r.slice_elements + first) * size_of(r.dtype);
  arriving_[std::size_t(round % kSlots)].wait("reduce_scatter");
  for (int p = 0; p < size(); ++p) {
    parts_[std::size_t(p)] = p == rank() ? Part{mine, r.dtype} : Part{piece(received_, round, p), r.wire};
  }
  sum_in_rank_order(parts_, r.wire, r.dtype, mine, std::min(piece_elements, r.slice_elements - first));
}

void Messages::do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) {
  const Reduction r{whole, dtype, wire, slice_elements};
  const std::int64_t piece_elements = piece_bytes_ / size_of(wire);
  const std::int64_t rounds = (slice_elements + piece_elements - 1) / piece_elements;
  start_round(r, 0);
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) start_round(r, round + 1);
    finish_round(r, round);
  }
  for (Requests& leaving : leaving_) leaving.wait("reduce_scatter");
}

// A binomial tree: in step k the ranks that have the data pass it on over a distance of 2^k.
void Messages::do_broadcast(std::byte* data, std::int64_t bytes, int root) {
  Requests requests(*ranks_);
  const int me = (rank() - root + size()) % size();
  for (std::int64_t at = 0; at < bytes; at += kMessage) {
    const std::int64_t n = std::min(kMessage, bytes - at);
    for (int distance = 1; distance < size(); distance *= 2) {
      if (me < distance && me + distance < size()) {
        requests.send(data + at, n, (me + distance + root) % size(), kBroadcast);
      } else if (me >= distance && me < 2 * distance) {
        requests.receive(data + at, n, (me - distance + root) % size(), kBroadcast);
        requests.wait("broadcast");
      }
    }
    requests.wait("broadcast");
  }
}

void Messages::do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto bytes = std::int64_t(mine.size());
  if (bytes > kLargestSmallMessage)
    throw Error(Blame::bug, cat("exchange is for small messages, not for ", bytes, " bytes"));
  std::memcpy(all.data() + rank() * bytes, mine.data(), mine.size());
  Requests requests(*ranks_);
  for (int step = 1; step < size(); ++step) {
    requests.receive(all.data() + from(step) * bytes, bytes, from(step), kExchange);
    requests.send(mine.data(), bytes, to(step), kExchange);
  }
  requests.wait("exchange");
}

// By dissemination: after step k a rank has heard, directly or not, of the 2^k ranks before it.
// Source: Hensgen, Finkel & Manber 1988, "Two algorithms for barrier synchronization".
void Messages::do_barrier() {
  Requests requests(*ranks_);
  std::byte out{}, in{};
  for (int distance = 1; distance < size(); distance *= 2) {
    requests.receive(&in, 1, from(distance), kBarrier);
    requests.send(&out, 1, to(distance), kBarrier);
    requests.wait("barrier");
  }
}

std::unique_ptr<Communicator> Messages::split(int color) {
  std::unique_ptr<Ranks> part = ranks_->split(exchange_colors(*this, color));
  if (part->size() == 1) return solo();
  return std::make_unique<Messages>(std::move(part));
}

}  // namespace

std::unique_ptr<Communicator> over_messages(std::unique_ptr<Ranks> ranks) {
  return std::make_unique<Messages>(std::move(ranks));
}

}  // namespace zt::comm
