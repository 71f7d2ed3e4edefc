#include "train/stops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "measure/machine.h"

namespace zt::train {
namespace {

using SignalName = std::array<char, 16>;

// Of the one that came to this rank; "" for none.
SignalName name_of(const StopRequests& signals) {
  SignalName name{};
  if (const char* const signal = signals.pending()) std::strncpy(name.data(), signal, name.size() - 1);
  return name;
}

// What ranks tell each other between steps.
struct Signs {
  SignalName signal{};
  std::int8_t out_of_time = 0, save = 0, written = 0;
};

}  // namespace

std::string named_signal(const char* signal, int rank, const comm::Communicator& comm) {
  return comm.size() > 1 && comm::launched() ? cat(signal, " (to rank ", rank, ")") : signal;
}

std::string signal_to_any(const StopRequests& signals, comm::Communicator& comm) {
  const SignalName mine = name_of(signals);
  std::vector<SignalName> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<SignalName>({&mine, 1}, all);
  const auto first = std::ranges::find_if(all, [](const SignalName& name) { return name[0] != '\0'; });
  return first == all.end() ? "" : named_signal(first->data(), static_cast<int>(first - all.begin()), comm);
}

std::string Stops::time_text() const {
  const Deadline& deadline = limit_->deadline();
  return fmt::format("{} (until {}; {:.0f} s are left, and {:.0f} s are kept for a step and a save)",
                     deadline.what, measure::utc_text(static_cast<std::int64_t>(deadline.at)),
                     limit_->left(now_seconds()), limit_->reserve());
}

// Steps may be short and the folder's file system far away.
bool Stops::save_is_asked_for() {
  constexpr double kBetweenLooks = 0.2;
  if (seconds_since(looked_) < kBetweenLooks) return false;
  looked_ = std::chrono::steady_clock::now();
  std::error_code none;
  return std::filesystem::exists(save_now_, none);
}

Stops::Agreed Stops::look(bool written) {
  Signs mine;
  mine.signal = name_of(signals_);
  if (comm_.rank() == 0) {
    mine.save = save_is_asked_for() ? 1 : 0;
    mine.out_of_time = limit_ && limit_->due(now_seconds()) ? 1 : 0;
  }
  mine.written = written ? 1 : 0;
  std::vector<Signs> all(static_cast<std::size_t>(comm_.size()));
  comm_.exchange<Signs>({&mine, 1}, all);

  Agreed agreed;
  agreed.save = all[0].save != 0;
  agreed.written = true;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Signs& signs = all[static_cast<std::size_t>(rank)];
    agreed.written &= signs.written != 0;
    if (agreed.stop.empty() && signs.signal[0] != '\0')
      agreed.stop = named_signal(signs.signal.data(), rank, comm_);
  }
  if (agreed.stop.empty() && all[0].out_of_time != 0) {
    agreed.out_of_time = true;
    agreed.stop = limit_ ? time_text() : "the time limit";
  }
  return agreed;
}

void Stops::saved() const {
  std::error_code failed;
  std::filesystem::remove(save_now_, failed);
  if (failed) log::warn(cat("cannot remove ", save_now_.string(), ": ", failed.message()));
}

}  // namespace zt::train
