#include "train/time_limit.h"

#include <chrono>

#include "base/text.h"

namespace zt::train {

std::optional<Deadline> deadline_of(const recipe::TimeLimit& limit, const Job& job, double started) {
  using Kind = recipe::TimeLimit::Kind;
  if (limit.kind == Kind::seconds)
    return Deadline{started + static_cast<double>(limit.seconds), "run.time_limit"};
  if (limit.kind == Kind::none || !job.end_time) return {};
  return Deadline{static_cast<double>(*job.end_time),
                  job ? cat("the time limit of ", text(job)) : "ZEROTRAIN_END_TIME"};
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace zt::train
