#include "train/job.h"

#include <cstdlib>

#include "base/text.h"

namespace zt::train {
namespace {

std::string variable(const char* name) {
  const char* const value = name == nullptr ? nullptr : std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> number(const char* name) {
  std::int64_t value = 0;
  if (const std::string text = variable(name); text.empty() || !parse_int(text, &value) || value < 0)
    return std::nullopt;
  return value;
}

// One row a batch system; a null pointer where it has no such variable.
struct Scheduler {
  const char *name, *id, *job_name, *restarts, *end_time;
};
constexpr Scheduler kSchedulers[] = {
    {"slurm", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME"},
    {"pbs", "PBS_JOBID", "PBS_JOBNAME", nullptr, nullptr},
    {"lsf", "LSB_JOBID", "LSB_JOBNAME", nullptr, nullptr},
};

// Tasks of an array have numbers of their own, which only the system itself knows; people type the array's.
std::string slurm_array_id() {
  const std::string array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? "" : cat(array, "_", task);
}

}  // namespace

Job this_job() {
  Job job;
  for (const Scheduler& s : kSchedulers) {
    job.id = variable(s.id);
    if (job.id.empty()) continue;
    job.scheduler = s.name;
    job.name = variable(s.job_name);
    job.restarts = static_cast<int>(number(s.restarts).value_or(0));
    job.end_time = number(s.end_time);
    break;
  }
  if (job.scheduler == "slurm")
    if (const std::string id = slurm_array_id(); !id.empty()) job.id = id;
  if (const auto told = number("ZEROTRAIN_END_TIME")) job.end_time = told;
  return job;
}

std::string text(const Job& job) {
  if (!job) return "";
  return cat(job.scheduler, " job ", job.id, job.name.empty() ? "" : cat(" (", job.name, ")"),
             job.restarts > 0 ? cat(", restart ", job.restarts) : "");
}

}  // namespace zt::train
