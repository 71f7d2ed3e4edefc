#include "comm/pulse.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_end.h"
#include "comm/peers.h"

namespace zt::comm {
namespace {

constexpr double kBeatSeconds = 1;
constexpr double kBeatsInSilence = 5;  // at least so many signs fit into the time that may be silent
// The launcher ends a job that loses a process; where it doesn't, the others do after so long.
constexpr double kGoneSeconds = 5;
// Ranks that wait in different collectives of one number for so long will never meet.
constexpr double kDifferentSeconds = 10;
constexpr int kRows = 6;  // a packet stays below what one Ethernet frame carries

double seconds_of(std::int64_t nanoseconds) { return double(nanoseconds) * 1e-9; }

// Where a rank may be reached; exchanged once.
struct Card {
  std::array<char, 64> host{};
  Process process;
  std::uint16_t port = 0;
  std::uint16_t count = 0;
  std::array<std::uint32_t, 16> addresses{};  // in network order
};

enum class Kind : std::int32_t { sign, answer, leave, end };

struct Row {
  std::int32_t rank = 0, traced = 0;
  Work work;
  Meeting meeting;  // times are ages here: clocks of different machines have different zeros
};

struct Packet {
  std::uint64_t token = 0;
  std::int32_t from = 0, to = 0;
  Kind kind = Kind::sign;
  std::int32_t status = 0, rows = 0, unused = 0;
  std::array<Row, kRows> row{};
  std::size_t bytes() const { return sizeof(Packet) - (kRows - std::size_t(rows)) * sizeof(Row); }
};
static_assert(sizeof(Packet) <= 1472, "one Ethernet frame less the headers of IP and UDP");

// What is known of another rank's signs.
struct Peer {
  sockaddr_in path{};      // where its last packet came from
  std::int64_t heard = 0;  // when; 0: never
  bool left = false;       // has taken leave
  bool traced = false;     // a debugger holds it
  bool here = false;       // on this node: its process can be looked at
  std::int64_t gone = 0;   // its process was first missed
};

bool held_by_debugger() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (starts_with(line, "TracerPid:")) return trim(line.substr(10)) != "0";
  return false;
}

sockaddr_in address_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = address;
  return to;
}

Card card_of_this_process(std::uint16_t port) {
  Card card;
  card.host = host_name_as<decltype(card.host)>();
  card.process = process_of(::getpid());
  card.port = port;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return card;
  for (const ifaddrs* i = all; i != nullptr && card.count < card.addresses.size(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in own{};
    std::copy_n(reinterpret_cast<const char*>(i->ifa_addr), sizeof own, reinterpret_cast<char*>(&own));
    card.addresses[card.count++] = own.sin_addr.s_addr;
  }
  ::freeifaddrs(all);
  return card;
}

// One datagram socket on all of this node's interfaces.
class Socket {
 public:
  Socket() : raw_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in any = address_of(htonl(INADDR_ANY), 0);
    socklen_t length = sizeof any;
    auto* const raw = reinterpret_cast<sockaddr*>(&any);
    if (raw_ >= 0 && ::bind(raw_, raw, sizeof any) == 0 && ::getsockname(raw_, raw, &length) == 0)
      port_ = ntohs(any.sin_port);
  }
  ~Socket() {
    if (raw_ >= 0) ::close(raw_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  std::uint16_t port() const { return port_; }  // 0: there is no network here
  void send(const Packet& packet, const sockaddr_in& to) const {
    (void)::sendto(raw_, &packet, packet.bytes(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
                   sizeof to);
  }
  bool wait(int ms) const {
    pollfd look{raw_, POLLIN, 0};
    return ::poll(&look, 1, ms) > 0;
  }
  bool receive(Packet* packet, sockaddr_in* from) const {
    socklen_t length = sizeof *from;
    const ssize_t n = ::recvfrom(raw_, packet, sizeof *packet, 0, reinterpret_cast<sockaddr*>(from), &length);
    return n >= ssize_t(sizeof(Packet) - sizeof packet->row) && packet->rows >= 0 && packet->rows <= kRows &&
           n == ssize_t(packet->bytes());
  }

 private:
  int raw_;
  std::uint16_t port_ = 0;
};

}  // namespace

class Pulse::Inner {
 public:
  Inner(Communicator& world, const PulseOptions& options);
  ~Inner();

 private:
  void run();
  void hear();
  void take(const Packet& packet, const sockaddr_in& from);
  void beat();
  void answer(int rank);
  void excuse_own_gap();
  void look_at_unheard();
  void judge();
  std::vector<int> silent(double share) const;
  bool gone(int rank);
  [[noreturn]] void speak(const std::vector<int>& ranks, const std::string& reason);
  [[noreturn]] void end(const std::string& what, int status);
  void give_way();
  void tell_of_firewall();
  void tell_of_long_wait();
  std::string reason_of(const std::vector<int>& ranks) const;
  Row row_of(int rank) const;
  Packet packet_to(int to, Kind kind) const;
  void send(int to, const Packet& packet) const;
  void send_to_all(Kind kind, int status) const;
  std::string host(int rank) const { return cards_[std::size_t(rank)].host.data(); }
  const Ledger& ledger(int rank) const { return (*ledgers_)[std::size_t(rank)]; }
  bool leads() const { return rank_ == 0; }
  double silent_for(int rank) const { return seconds_of(now_ - peers_[std::size_t(rank)].heard); }
  static void tell_end(int status);

  static std::atomic<Inner*> current;

  const int rank_, size_;
  const PulseOptions options_;
  const double beat_seconds_;
  std::shared_ptr<Ledgers> ledgers_;
  Socket socket_;
  std::uint64_t token_ = 0;
  std::vector<Card> cards_;
  std::vector<Peer> peers_;
  std::int64_t now_ = 0, started_ = 0, last_beat_ = 0, last_awake_ = 0, told_of_wait_ = 0;
  bool told_of_firewall_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::atomic<Pulse::Inner*> Pulse::Inner::current{nullptr};

Pulse::Inner::Inner(Communicator& world, const PulseOptions& options)
    : rank_(world.rank()),
      size_(world.size()),
      options_(options),
      beat_seconds_(options.silence_seconds > 0
                        ? std::min(kBeatSeconds, options.silence_seconds / kBeatsInSilence)
                        : kBeatSeconds),
      ledgers_(world.ledgers()),
      cards_(std::size_t(size_)),
      peers_(std::size_t(size_)) {
  std::random_device entropy;
  token_ = std::uint64_t(entropy()) << 32 | entropy();
  world.broadcast(&token_, sizeof token_, 0);
  const Card mine = card_of_this_process(socket_.port());
  world.exchange<Card>({&mine, 1}, cards_);
  for (int r = 0; r < size_; ++r) {
    const Card& card = cards_[std::size_t(r)];
    peers_[std::size_t(r)].here = card.host == mine.host && state_of(card.process) != 0;
  }
  now_ = started_ = last_awake_ = steady_now();
  current = this;
  tell_ends_to(tell_end);
  // Signals that ask the run to stop are for threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pulse::Inner::~Inner() {
  stopping_ = true;
  thread_.join();
  tell_ends_to(nullptr);
  current = nullptr;
  // Datagrams may be lost.
  for (int i = 0; i < 3; ++i) send_to_all(Kind::leave, 0);
}

void Pulse::Inner::run() {
  while (!stopping_) {
    if (seconds_of(steady_now() - last_beat_) >= beat_seconds_) beat();
    socket_.wait(int(std::min(beat_seconds_, 0.1) * 1000));
    excuse_own_gap();
    hear();
    look_at_unheard();
    if (!stopping_) judge();
  }
}

// Where this process did not run, the others' signs lie unread, and the others may not have run either.
void Pulse::Inner::excuse_own_gap() {
  now_ = steady_now();
  const std::int64_t gap = now_ - last_awake_;
  last_awake_ = now_;
  if (seconds_of(gap) < 2 * beat_seconds_) return;
  for (Peer& peer : peers_) peer.heard += peer.heard > 0 ? gap : 0;
}

// A rank may be stopped between the end of its start and its first sign. On this node that can be seen.
void Pulse::Inner::look_at_unheard() {
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (peer.here && peer.heard == 0 && !peer.left && state_of(cards_[r].process) == 'T') peer.heard = now_;
  }
}

void Pulse::Inner::hear() {
  Packet packet;
  sockaddr_in from{};
  while (socket_.receive(&packet, &from))
    if (packet.token == token_ && packet.to == rank_ && packet.from >= 0 && packet.from < size_)
      take(packet, from);
}

void Pulse::Inner::take(const Packet& packet, const sockaddr_in& from) {
  if (packet.kind == Kind::end) {
    note_job_is_ending();
    give_way();
    end_job(packet.status);
  }
  Peer& peer = peers_[std::size_t(packet.from)];
  peer.heard = now_;
  peer.path = from;
  peer.left = peer.left || packet.kind == Kind::leave;
  for (int i = 0; i < packet.rows; ++i) {
    Row row = packet.row[std::size_t(i)];
    if (row.rank < 0 || row.rank >= size_ || row.rank == rank_) continue;
    row.work.place.name.back() = row.meeting.place.name.back() = row.meeting.operation.back() = '\0';
    row.work.since = now_ - row.work.since;
    row.meeting.since = now_ - row.meeting.since;
    (*ledgers_)[std::size_t(row.rank)].heard(row.work, row.meeting);
    peers_[std::size_t(row.rank)].traced = row.traced != 0;
  }
}

// Whoever speaks first ends the job; the others see to it that it ends, without a word.
void Pulse::Inner::give_way() {
  constexpr double kPatience = 3;
  std::this_thread::sleep_for(std::chrono::duration<double>(kPatience + 0.1 * std::min(rank_, 10)));
}

Row Pulse::Inner::row_of(int rank) const {
  Row row;
  row.rank = rank;
  row.traced = rank == rank_ ? held_by_debugger() : peers_[std::size_t(rank)].traced;
  row.work = ledger(rank).work();
  row.meeting = ledger(rank).meeting();
  const std::int64_t now = steady_now();
  row.work.since = now - row.work.since;
  row.meeting.since = now - row.meeting.since;
  return row;
}

Packet Pulse::Inner::packet_to(int to, Kind kind) const {
  Packet packet;
  packet.token = token_;
  packet.from = rank_;
  packet.to = to;
  packet.kind = kind;
  return packet;
}

// Where it was heard from, else everywhere it may be.
void Pulse::Inner::send(int to, const Packet& packet) const {
  const Peer& peer = peers_[std::size_t(to)];
  const Card& card = cards_[std::size_t(to)];
  if (peer.heard > 0) socket_.send(packet, peer.path);
  if (peer.heard > 0 && silent_for(to) < 3 * beat_seconds_) return;
  if (peer.here) socket_.send(packet, address_of(htonl(INADDR_LOOPBACK), card.port));
  for (std::size_t i = 0; i < std::min<std::size_t>(card.count, card.addresses.size()); ++i)
    socket_.send(packet, address_of(card.addresses[i], card.port));
}

void Pulse::Inner::beat() {
  last_beat_ = now_ = steady_now();
  Packet packet = packet_to(0, Kind::sign);
  packet.rows = 1;
  packet.row[0] = row_of(rank_);
  if (!leads()) return send(0, packet);
  for (int r = 1; r < size_; ++r)
    if (!peers_[std::size_t(r)].left) answer(r);
}

// What rank 0 does, and those who have begun the fewest collectives.
void Pulse::Inner::answer(int rank) {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r)
    if (r != rank && (r == 0 || peers_[std::size_t(r)].heard > 0)) ranks.push_back(r);
  const auto shown = std::min<std::size_t>(ranks.size(), kRows);
  std::ranges::partial_sort(ranks.begin() + 1, ranks.begin() + std::ptrdiff_t(shown), ranks.end(), {},
                            [&](int r) { return ledger(r).meeting().number; });
  Packet packet = packet_to(rank, Kind::answer);
  packet.rows = std::int32_t(shown);
  for (std::size_t i = 0; i < shown; ++i) packet.row[i] = row_of(ranks[i]);
  send(rank, packet);
}

// Silent for a share of the time it may be; rank 0 is heard by all, the others by rank 0.
std::vector<int> Pulse::Inner::silent(double share) const {
  std::vector<int> ranks;
  for (int r = leads() ? 1 : 0; r < (leads() ? size_ : 1); ++r) {
    const Peer& peer = peers_[std::size_t(r)];
    if (peer.heard > 0 && !peer.left && !peer.traced && silent_for(r) > share * options_.silence_seconds)
      ranks.push_back(r);
  }
  std::erase_if(ranks, [&](int r) {
    const Card& card = cards_[std::size_t(r)];
    return peers_[std::size_t(r)].here && state_of(card.process) == 't';
  });
  return ranks;
}

bool Pulse::Inner::gone(int rank) {
  Peer& peer = peers_[std::size_t(rank)];
  if (!peer.here || peer.left) return false;
  if (state_of(cards_[std::size_t(rank)].process) != 0) {
    peer.gone = 0;
    return false;
  }
  if (peer.gone == 0) peer.gone = now_;
  return seconds_of(now_ - peer.gone) > kGoneSeconds;
}

void Pulse::Inner::judge() {
  if (options_.silence_seconds <= 0 || job_is_ending()) return;
  for (int r = leads() ? 1 : 0; r < (leads() ? size_ : 1); ++r)
    if (gone(r)) speak({r}, "");
  if (!silent(1).empty()) {
    const std::vector<int> ranks = silent(0.8);  // of a node all are silent, though not since the same moment
    speak(ranks, reason_of(ranks));
  }
  if (!leads()) return;
  tell_of_firewall();
  tell_of_long_wait();
  if (const std::string two = difference(*ledgers_, kDifferentSeconds); !two.empty())
    end(two, exit_status(Blame::bug));
}

std::string Pulse::Inner::reason_of(const std::vector<int>& ranks) const {
  const std::size_t first = std::size_t(ranks.front());
  const char state = peers_[first].here ? state_of(cards_[first].process) : '\0';
  if (state == 'T') return "it is stopped (SIGSTOP)";
  if (state == 'D') return "it waits for a disk (state D)";
  return ranks.size() == 1 ? "it was stopped, or its node or its network is gone"
                           : "their node or its network is gone, or they were stopped";
}

// Lower ranks first: they may end the job before the others say the same.
void Pulse::Inner::speak(const std::vector<int>& ranks, const std::string& reason) {
  for (int i = 0; i < std::min(rank_ - 1, 20) * 10; ++i) {
    socket_.wait(20);
    hear();
  }
  const int first = ranks.front();
  const std::string last = account(ledger(first));
  const bool one = ranks.size() == 1;
  const std::string who = cat(rank_list(ranks), " (host ", host(first),
                              one ? cat(", process ", cards_[std::size_t(first)].process.id) : "", ")");
  const std::string what = reason.empty()
                               ? cat(who, " has ended without a word: killed, perhaps for want of memory")
                               : cat(who, one ? " has" : " have", " given no sign of life for ",
                                     human_seconds(silent_for(first)), ": ", reason);
  end(cat(what, last.empty() ? "" : cat("; last heard of: rank ", first, " ", last)),
      exit_status(Blame::peer));
}

void Pulse::Inner::end(const std::string& what, int status) {
  if (!job_is_ending()) {
    note_job_is_ending();
    log::error(cat(what,
                   "\n  hint: the run goes on from its last checkpoint when it is started again; "
                   "comm.silence_seconds sets how long a rank may be silent"));
  }
  end_job(status);
}

void Pulse::Inner::tell_of_firewall() {
  if (told_of_firewall_ || seconds_of(now_ - started_) < options_.silence_seconds) return;
  told_of_firewall_ = true;
  std::vector<int> ranks;
  for (int r = 1; r < size_; ++r)
    if (peers_[std::size_t(r)].heard == 0 && !peers_[std::size_t(r)].left) ranks.push_back(r);
  if (ranks.empty()) return;
  log::warn(cat("no sign of life reaches rank 0 from ", rank_list(ranks), " (host ", host(ranks.front()),
                "): UDP between the nodes is closed, perhaps by a firewall; a rank that is stopped there is "
                "only noticed "
                "after comm.timeout_seconds"));
}

// Half of what collectives may take has passed: whoever looks at the log can still help.
void Pulse::Inner::tell_of_long_wait() {
  for (int r = 0; r < size_; ++r) {
    const Meeting m = ledger(r).meeting();
    const bool counts =
        m.inside != 0 && m.number > told_of_wait_ && std::string_view(m.operation.data()) != "rendezvous";
    if (!counts || seconds_of(now_ - m.since) < options_.timeout_seconds / 2) continue;
    told_of_wait_ = m.number;
    std::vector<int> all;
    for (int other = 0; other < size_; ++other) all.push_back(other);
    const int last = furthest_behind(*ledgers_, all);
    log::warn(cat("rank ", r, " ", account(ledger(r)), "; furthest behind is rank ", last, " (host ",
                  host(last), "), which ", account(ledger(last)), "; the job ends after ",
                  options_.timeout_seconds, " s of waiting (comm.timeout_seconds)"));
    return;
  }
}

void Pulse::Inner::send_to_all(Kind kind, int status) const {
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || (kind == Kind::leave && r != 0 && !leads())) continue;
    Packet packet = packet_to(r, kind);
    packet.status = status;
    send(r, packet);
  }
}

// Also from signal handlers: no memory, no locks.
void Pulse::Inner::tell_end(int status) {
  if (const Inner* const inner = current) inner->send_to_all(Kind::end, status);
}

Pulse::Pulse(Communicator& world, const PulseOptions& options) {
  if (world.size() > 1) inner_ = std::make_unique<Inner>(world, options);
}

Pulse::~Pulse() = default;

}  // namespace zt::comm
