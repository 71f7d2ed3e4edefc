// Where the ranks of one communicator meet, threads of a process as well as processes: a piece of shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace zt::emulator {

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce };

// How far a rank had come in another communicator when it made a call.
struct OrderMark {
  std::uint64_t communicator = 0;  // 0: none
  std::uint64_t calls = 0;
};

struct CollectiveCall {
  Collective kind;
  std::size_t count;
  int type, reduction, root;
  std::array<OrderMark, 8> others;
};

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kMessageBytes = std::size_t{64}
                                             << 20;  // of a call; only touched pages cost memory

// What a rank shows its peers. Collectives are counted from 1.
struct Seat {
  std::atomic<std::uint64_t> posted, taken;
  std::atomic<std::uint64_t> finished_work;
  std::atomic<bool> busy;
  CollectiveCall call;
};

// From one rank to another.
struct Mailbox {
  std::atomic<std::uint64_t> sent, taken;
  std::size_t bytes;
  int type;
};

class Board {
 public:
  // Returns when all `ranks` have come; stops if they do not within the patience. The name vanishes then, so that nothing
  // is left behind however the program ends.
  Board(const std::string& name, int ranks);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Seat& seat(int rank) { return shared_->seats[rank]; }
  const Seat& seat(int rank) const { return shared_->seats[rank]; }
  Mailbox& mailbox(int from, int to) { return shared_->mailboxes[from][to]; }
  char* message(int rank) { return data_ + rank * kMessageBytes; }
  char* letter(int from, int to) { return data_ + (ranks_ + from * ranks_ + to) * kMessageBytes; }

 private:
  struct Shared {
    std::atomic<int> present;
    Seat seats[kMostRanks];
    Mailbox mailboxes[kMostRanks][kMostRanks];
  };
  int ranks_;
  std::size_t bytes_;
  Shared* shared_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace zt::emulator
