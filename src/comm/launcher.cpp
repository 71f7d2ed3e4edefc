#include "comm/launcher.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"

namespace zt::comm {
namespace {

constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
constexpr const char* kRanks[] = {"PMIX_RANK", "PMI_RANK"};
// Set in the processes that srun starts, and not in a batch script itself. It comes after the others because mpirun
// inside a SLURM job is itself started by srun, with another count.
constexpr const char* kStep = "SLURM_STEP_NUM_TASKS";
constexpr const char* kJob = "SLURM_NTASKS";

// 0 where the variable is absent or no count.
int count_in(const char* variable) {
  const char* const text = std::getenv(variable);
  std::int64_t count = 0;
  return text != nullptr && parse_int(text, &count) && count > 0 ? int(count) : 0;
}

}  // namespace

Launcher launcher() {
  for (const char* variable : kCounts)
    if (const int ranks = count_in(variable); ranks > 0) return {variable, ranks};
  const auto* const rank =
      std::ranges::find_if(kRanks, [](const char* name) { return std::getenv(name) != nullptr; });
  const bool joins = rank != std::end(kRanks);
  // One task that is told nothing of others is alone, and does not need MPI.
  if (const int ranks = count_in(kStep); ranks > 1 || (ranks == 1 && joins)) return {kStep, ranks, joins};
  if (joins) return {*rank, -1};
  return {};
}

bool launched() { return launcher().ranks != 0; }

void require_joined(const Launcher& launcher) {
  if (launcher.joins) return;
  throw Error(
      Blame::usage,
      cat("srun started ", launcher.ranks, " ranks (", launcher.variable,
          ") that cannot find each other: each is 1 rank by itself"),
      "start it with `srun --mpi=pmix`, or with mpirun; `srun --mpi=list` shows what this SLURM offers");
}

void require_same_ranks(const Launcher& launcher, int mpi_ranks) {
  if (launcher.ranks <= 0 || launcher.ranks == mpi_ranks) return;
  throw Error(Blame::usage,
              cat("the launcher started ", launcher.ranks, " ranks (", launcher.variable,
                  "), but MPI counts ", mpi_ranks),
              "start it with the mpirun of the MPI it was built with, or with `srun --mpi=pmix`");
}

int tasks_of_job() { return launched() ? 1 : std::max(1, count_in(kJob)); }

void require_lone_task() {
  const int tasks = tasks_of_job();
  if (tasks == 1) return;
  throw Error(Blame::usage,
              cat("this job has ", tasks, " tasks (", kJob,
                  "), but no launcher started this process: it would be 1 rank alone"),
              "start it with `srun --mpi=pmix` or mpirun; --ranks 1 if one is meant");
}

}  // namespace zt::comm
