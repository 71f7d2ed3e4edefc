// What the batch system says of the job that this process belongs to, by environment variables only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace zt::train {

struct Job {
  std::string scheduler;  // "slurm", "pbs", "lsf"; "" outside of a job
  std::string id;         // as the batch system's own commands take it: "1234", "1234_5" in an array
  std::string name;       // "" when unknown
  int restarts = 0;       // times the batch system has started it again
  std::optional<std::int64_t> end_time;  // when its time limit ends it, in seconds since 1970

  explicit operator bool() const { return !scheduler.empty(); }
  friend bool operator==(const Job&, const Job&) = default;
};

// The end time is that of ZEROTRAIN_END_TIME, which counts outside of a job too, else of SLURM_JOB_END_TIME. SLURM 22.05
// sets only the job's number, name and restarts, so scripts/slurm asks it and sets the former. A value that is no time is none.
Job this_job();

// For people: "slurm job 1234 (gpt2), restart 2"; "" outside of a job.
std::string text(const Job& job);

}  // namespace zt::train
