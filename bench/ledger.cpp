// What it costs to note where a rank is, beside a small collective with and without it, in one run. Plain program:
//
//   build/release/bench/ledger [TIMES]      # 200000 by default
//
// Two virtual ranks exchange 8 bytes. Groups of a part of the ranks keep no ledger, so the same two ranks of a job of
// three do it without. Best of 7, by turns.
#include "comm/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "comm/threads.h"
#include "common.h"

namespace zt {
namespace {

constexpr int kTimes = 7;
constexpr double kPatient = 60;

double ns_of_exchanges(comm::Communicator& comm, int times) {
  const std::int64_t mine = comm.rank();
  std::array<std::int64_t, 2> all{};
  comm.barrier();
  return bench::seconds_of([&] {
           for (int i = 0; i < times; ++i) comm.exchange<std::int64_t>({&mine, 1}, all);
         }) *
         1e9 / times;
}

double with_ledger(int times) {
  double ns = 0;
  comm::run_threads(2, kPatient, [&](comm::Communicator& comm) {
    const double mine = ns_of_exchanges(comm, times);
    if (comm.rank() == 0) ns = mine;
  });
  return ns;
}

double without_ledger(int times) {
  double ns = 0;
  comm::run_threads(3, kPatient, [&](comm::Communicator& job) {
    const auto two = job.split(job.rank() == 2 ? 1 : 0);
    if (job.rank() == 2) return;
    const double mine = ns_of_exchanges(*two, times);
    if (job.rank() == 0) ns = mine;
  });
  return ns;
}

double ledger_alone(int times) {
  comm::Ledger ledger;
  const comm::Place place = comm::Place::of("gather b3", 17, 43);
  return bench::seconds_of([&] {
           for (int i = 0; i < times; ++i) {
             ledger.doing(place);
             ledger.enter("exchange", 8);
             ledger.leave();
           }
         }) *
         1e9 / times;
}

}  // namespace
}  // namespace zt

int main(int argc, char** argv) {
  const int times = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200'000;
  double with = 1e30, without = 1e30, alone = 1e30;
  for (int i = 0; i < zt::kTimes; ++i) {
    with = std::min(with, zt::with_ledger(times));
    without = std::min(without, zt::without_ledger(times));
    alone = std::min(alone, zt::ledger_alone(times));
  }
  fmt::print("a place, the begin and the end of a collective noted          {:8.1f} ns\n", alone);
  fmt::print("exchange of 8 bytes between 2 virtual ranks, with a ledger    {:8.1f} ns\n", with);
  fmt::print("the same without                                              {:8.1f} ns\n", without);
}
