#include "comm/ledger.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "comm/job_end.h"
#include "comm/threads.h"

using namespace zt;
using comm::Ledger;
using comm::Ledgers;
using comm::Place;

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string written(const Ledger& ledger) {
  std::array<char, 128> buffer{};
  return {buffer.data(), comm::write_place(ledger, buffer.data(), buffer.data() + buffer.size())};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <typename Work>
Error error_of(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  return Error(Blame::bug, "no error");
}

}  // namespace

TEST_CASE("ledger: a place is told as people look for it in the plan") {
  CHECK(text(Place{}) == "");
  CHECK(text(Place::of("gather b3", 17, 43)) == "step 17 #43 `gather b3`");
  CHECK(text(Place::of("forward b0", 0, 2)) == "evaluation #2 `forward b0`");
  CHECK(text(Place::of("", 17)) == "after step 17");
  CHECK(text(Place::of("saving step 40")) == "saving step 40");
  const std::string longer(200, 'x');
  CHECK(text(Place::of(longer)) == longer.substr(0, 39));
}

TEST_CASE("ledger: what a rank does, waits in, and has left is told with its number and its seconds") {
  Ledger ledger;
  CHECK(account(ledger) == "");
  ledger.doing(Place::of("forward b3", 17, 40));
  CHECK(account(ledger) == "has been in step 17 #40 `forward b3` for 0.0 s, after collective 0");
  ledger.doing(Place::of("gather b4", 17, 41));
  ledger.enter("all_gather", 1024);
  CHECK(account(ledger) ==
        "waits in collective 1, all_gather over 1,024 bytes (step 17 #41 `gather b4`), for 0.0 s");
  CHECK(written(ledger) == "step 17 #41 `gather b4`");
  sleep_ms(110);
  CHECK_FALSE(contains(account(ledger), "0.0 s"));
  ledger.leave();
  ledger.doing(Place::of("", 17));
  CHECK(account(ledger) == "has been after step 17 for 0.0 s, after collective 1");
  CHECK(written(ledger) == "after step 17");
  ledger.doing(Place::of("forward b0", 0, 2));
  CHECK(written(ledger) == "evaluation #2 `forward b0`");
  // A thread beside gives its collectives their place, and leaves the other's alone.
  std::thread([&ledger] {
    comm::this_thread_is_beside();
    ledger.doing(Place::of("reduce b1", 18, 7));
    ledger.enter("reduce_scatter", 8);
    ledger.leave();
  }).join();
  CHECK(text(ledger.meeting().place) == "step 18 #7 `reduce b1`");
  CHECK(contains(account(ledger), "has been in evaluation #2 `forward b0`"));
}

TEST_CASE("ledger: a reader sees whole values while another thread writes") {
  Ledger ledger;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 1; i <= 200000; ++i) {
      ledger.heard({{i, i, {}}, i}, {i, i, i, i, {}, {i, i, {}}});
    }
    done = true;
  });
  std::int64_t last = 0, torn = 0, back = 0;
  while (!done) {
    const comm::Meeting m = ledger.meeting();
    torn += m.number != m.bytes || m.number != m.since || m.number != m.place.op ? 1 : 0;
    back += m.number < last ? 1 : 0;
    last = m.number;
    const comm::Work w = ledger.work();
    torn += w.place.step != w.place.op || w.place.step != w.since ? 1 : 0;
  }
  writer.join();
  CHECK(torn == 0);
  CHECK(back == 0);
}

TEST_CASE("ledger: the rank with the fewest collectives is furthest behind, and different ones never meet") {
  Ledgers ledgers(4);
  for (int r = 0; r < 4; ++r)
    for (int i = 0; i < (r == 2 ? 3 : 5); ++i) {
      ledgers[std::size_t(r)].doing(Place::of("gather b1", 3, i));
      ledgers[std::size_t(r)].enter("all_gather", 64);
      if (i < 4) ledgers[std::size_t(r)].leave();
    }
  CHECK(furthest_behind(ledgers, {0, 1, 2, 3}) == 2);
  CHECK(furthest_behind(ledgers, {0, 1, 3}) == 0);
  sleep_ms(20);
  CHECK(difference(ledgers, 0.01) == "");  // all that wait are in the same one
  ledgers[2].enter("all_gather", 64);      // number 4: behind, but the others have been there
  sleep_ms(20);
  CHECK(difference(ledgers, 0.01) == "");
  ledgers[2].leave();
  ledgers[2].doing(Place::of("reduce b1", 3, 5));
  ledgers[2].enter("reduce_scatter", 64);
  CHECK(difference(ledgers, 10) == "");
  sleep_ms(20);
  const std::string two = difference(ledgers, 0.01);
  CHECK_MESSAGE(
      contains(two, "ranks 0 and 2 will never meet: rank 0 waits in collective 5, all_gather over 64 bytes"),
      two);
  CHECK_MESSAGE(
      contains(two, "rank 2 waits in collective 5, reduce_scatter over 64 bytes (step 3 #5 `reduce b1`)"),
      two);
}

TEST_CASE("ledger: a late rank is told with what it does, and different collectives with their places") {
  std::atomic<bool> gave_up = false;
  const Error late = error_of([&] {
    comm::run_threads(3, 0.2, [&](comm::Communicator& c) {
      c.barrier();
      c.doing(Place::of("forward b3", 17, 40));
      while (c.rank() == 2 && !gave_up) sleep_ms(1);
      c.doing(Place::of("gather b4", 17, 41));
      std::array<std::byte, 24> whole{};
      try {
        c.all_gather(whole.data(), 8);
      } catch (const Error&) {
        gave_up = true;
        throw;
      }
    });
  });
  CHECK(late.blame() == Blame::peer);
  CHECK_MESSAGE(contains(late.problem(),
                         " waited 0.2 s in all_gather for rank 2 (collective 2), which has been in step "
                         "17 #40 `forward b3` for 0."),
                late.problem());

  const Error different = error_of([] {
    comm::run_threads(2, 10, [](comm::Communicator& c) {
      c.doing(Place::of(c.rank() == 0 ? "gather b1" : "gather b2", 3, 5));
      std::array<std::byte, 64> whole{};
      c.all_gather(whole.data(), c.rank() == 0 ? 8 : 16);
    });
  });
  CHECK(different.blame() == Blame::bug);
  CHECK_MESSAGE(contains(different.problem(), "all_gather over 8 bytes (step 3 #5 `gather b1`)"),
                different.problem());
  CHECK_MESSAGE(contains(different.problem(), "all_gather over 16 bytes (step 3 #5 `gather b2`)"),
                different.problem());
}

TEST_CASE("ledger: an exception of any kind on a virtual rank is told with its number") {
  const Error unknown = error_of([] {
    comm::run_threads(3, 10, [](comm::Communicator& c) {
      if (c.rank() == 1) throw std::runtime_error("seven");
      c.barrier();
    });
  });
  CHECK(unknown.blame() == Blame::bug);
  CHECK(unknown.problem() == "rank 1: seven");
  const Error memory = error_of([] {
    comm::run_threads(3, 10, [](comm::Communicator& c) {
      if (c.rank() == 2) throw std::bad_alloc();
      c.barrier();
    });
  });
  CHECK(memory.blame() == Blame::machine);
  CHECK(memory.problem() == "rank 2: memory ran out");
}

TEST_CASE("ledger: keeping it costs far less than a collective") {
  Ledger ledger;
  constexpr int kCalls = 5000, kRounds = 40;
  double seconds = 1;  // of the fastest round: the others had less of a core
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      ledger.doing(Place::of("gather b3", 17, i));
      ledger.enter("all_gather", 1024);
      ledger.leave();
    }
    seconds =
        std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  MESSAGE(cat(seconds / kCalls * 1e9), " ns for an op and its collective");
  CHECK(seconds / kCalls < 5e-6);
}

TEST_CASE("job end: a process is known by its start too, and its state is the system's") {
  const comm::Process self = comm::process_of(::getpid());
  CHECK(self.id == ::getpid());
  CHECK(self.started > 0);
  CHECK(comm::state_of(self) == 'R');
  CHECK(comm::state_of({self.id, self.started + 1}) == 0);
  CHECK(comm::state_of({}) == 0);

  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  const comm::Process process = comm::process_of(child);
  ::kill(child, SIGSTOP);
  for (int i = 0; i < 500 && comm::state_of(process) != 'T'; ++i) sleep_ms(10);
  CHECK(comm::state_of(process) == 'T');
  ::kill(child, SIGKILL);
  for (int i = 0; i < 500 && comm::state_of(process) != 0; ++i) sleep_ms(10);
  CHECK(comm::state_of(process) == 0);  // also before anybody has asked for its status
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(comm::process_of(child).id == 0);
}

TEST_CASE("job end: a thread that is a rank is told by its number and place, others by the process's") {
  const auto self = [] {
    std::array<char, 128> buffer{};
    return std::string(buffer.data(), comm::write_self(buffer.data(), buffer.data() + buffer.size()));
  };
  CHECK(self() == "");
  static Ledger ledger, other;
  ledger.doing(Place::of("forward b3", 17, 40));
  comm::this_process_is(2, &ledger);
  CHECK(self() == "rank 2, step 17 #40 `forward b3`: ");
  comm::this_thread_is(11, &other);
  CHECK(self() == "rank 11: ");
  comm::this_thread_is(0, nullptr);
  comm::this_process_is(0, nullptr);
  CHECK(self() == "");
}
