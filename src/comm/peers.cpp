#include "comm/peers.h"

#include <sched.h>

#include <atomic>
#include <thread>

#include "base/text.h"

namespace zt::comm {

using namespace std::chrono_literals;

// A look costs about 25 ns, a yield half a microsecond on an idle core, a sleep some 80 us with the timer slack of
// Linux. Few looks: a rank that shares its core with the one it waits for gets nowhere by looking.
constexpr int kLooks = 100, kYields = 200;
constexpr auto kSleep = 20us;

std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  if (ranks.size() == 1) return cat("rank ", ranks[0]);
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += cat(i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return ranks.size() > kShown ? cat(text, " and ", ranks.size() - kShown, " more") : text;
}

LateError::LateError(int rank, std::vector<int> missing, const char* operation, double seconds)
    : Error(Blame::peer,
            cat("rank ", rank, " waited ", seconds, " s in ", operation, " for ", rank_list(missing)),
            "it may have failed, hang, or still be reading or saving: its own messages say more; "
            "comm.timeout_seconds sets how long a rank waits"),
      missing_(std::move(missing)) {}

static std::atomic<bool> followed{false};

bool another_failed_before() { return followed; }

Error failed_error(int rank, const std::vector<int>& failed, const char* operation) {
  followed = true;
  return Error(Blame::peer,
               cat("rank ", rank, " stopped in ", operation, ": ", rank_list(failed), " failed before"),
               "the first error of the failed rank is the cause");
}

Error mismatch_error(int rank, const Call& mine, int other, const Call& theirs) {
  const auto told = [](const Call& call) {
    const std::string where = text(call.place);
    return cat(call.operation, " over ", call.bytes, " bytes", where.empty() ? "" : cat(" (", where, ")"));
  };
  return Error(Blame::bug,
               cat("rank ", rank, " is in ", told(mine), " while rank ", other, " is in ", told(theirs)));
}

Patience::Patience(double timeout_seconds)
    : limit_(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(std::min(timeout_seconds, kLongestSeconds)))),
      since_(Clock::now()) {}

static std::atomic<bool> given_up{false};

void give_up_waiting() noexcept { given_up = true; }

bool Patience::pause() {
  if (given_up) throw Error(Blame::peer, "this rank has failed elsewhere, so it waits for no other");
  ++looks_;
  if (looks_ <= kLooks) {
    __builtin_ia32_pause();
    return true;
  }
  if (looks_ <= kLooks + kYields) {
    sched_yield();
    return true;
  }
  std::this_thread::sleep_for(kSleep);
  return Clock::now() - since_ < limit_;
}

void Patience::progress() {
  looks_ = 0;
  since_ = Clock::now();
}

}  // namespace zt::comm
