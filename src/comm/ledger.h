// What each rank of a job is doing, for the question why nothing moves.
#pragma once

#include <sched.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace zt::comm {

// A value that one thread writes and any thread reads, without locks: a reader that met a write looks again, and after
// many tries takes what it has, because in a dying process nobody may finish a write.
// Source: Boehm 2012, "Can seqlocks get along with programming language memory models?", figure 6.
template <typename T>
class Shown {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
  static constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint64_t);

 public:
  void set(const T& value) {
    std::array<std::uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    const std::uint64_t before = version_.load(std::memory_order_relaxed);
    version_.store(before + 1, std::memory_order_relaxed);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(before + 2, std::memory_order_release);
  }
  T get() const {
    constexpr int kTries = 1200, kHasty = 1000;
    std::array<std::uint64_t, kWords> words;
    for (int i = 0; i < kTries; ++i) {
      const std::uint64_t before = version_.load(std::memory_order_acquire);
      for (std::size_t w = 0; w < kWords; ++w) words[w] = words_[w].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
      // The writer may have lost its core, on a busy machine for some time.
      constexpr timespec kMillisecond{0, 1'000'000};
      i < kHasty ? ::sched_yield() : ::nanosleep(&kMillisecond, nullptr);
    }
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }

 private:
  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

// A place in the program. Plain bytes, as everything here, so that it can travel.
struct Place {
  std::int64_t step = 0;  // 0: not of a training step
  std::int64_t op = -1;   // in the step's list; -1: beside the list
  std::array<char, 40> name{};

  static Place of(std::string_view name, std::int64_t step = 0, std::int64_t op = -1);
};

// Where the thread that computes is, and since when (nanoseconds of the steady clock).
struct Work {
  Place place;
  std::int64_t since = 0;
};

// A rank's last collective: its number from 1 (0: none yet), and whether the rank is still in it.
struct Meeting {
  std::int64_t number = 0, inside = 0, bytes = 0;
  std::int64_t since = 0;  // it began, or ended
  std::array<char, 16> operation{};
  Place place;
};

// What one rank does. Its own threads write; any thread may read.
class Ledger {
 public:
  // The calling thread is there now. Threads beside the one that computes only give collectives their place.
  void doing(const Place& place);
  void enter(const char* operation, std::int64_t bytes);
  void leave();

  Work work() const { return work_.get(); }
  Meeting meeting() const { return meeting_.get(); }
  // For a rank of another process, by the one thread that hears of it.
  void heard(const Work& work, const Meeting& meeting);

 private:
  Shown<Work> work_;
  Shown<Meeting> meeting_;
  Meeting last_;  // the writer's own copy
};

// The calling thread communicates beside the one that computes.
void this_thread_is_beside();

// Of all ranks of a job. In a process of its own a rank writes its own, and hears of the others (pulse.h); where ranks
// are threads, each writes its own.
using Ledgers = std::vector<Ledger>;

// Nanoseconds of a clock that never jumps; its zero is this machine's own.
std::int64_t steady_now();
double seconds_since(std::int64_t steady_then);

// "step 17 #43 `gather b3`", "evaluation #12 `forward b0`", "after step 17", "saving"; "" for nowhere.
std::string text(const Place& place);
// "waits in collective 113, all_gather over 1,024 bytes (step 17 #43 `gather b3`), for 25.0 s" or "has been in step 17
// #40 `forward b3` for 25.0 s, after collective 112"; "" when nothing is known of it.
std::string account(const Ledger& ledger);
// The rank of those given that has begun the fewest collectives; the first of several.
int furthest_behind(const Ledgers& ledgers, const std::vector<int>& ranks);
// Two ranks that have been in different collectives of the same number for so long: they will never meet. "" when there
// are none.
std::string difference(const Ledgers& ledgers, double seconds);

// For a dying process: what it did, into `to`, without memory or locks. Returns the end of what was written.
char* write_place(const Ledger& ledger, char* to, char* end);

}  // namespace zt::comm
