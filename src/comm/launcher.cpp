#include "comm/launcher.h"

#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"

namespace zt::comm {

// SLURM_STEP_NUM_TASKS is set in the processes that srun starts, and not in a batch script itself. It comes
// last because mpirun inside a SLURM job is itself started by srun, with another count.
constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
constexpr const char* kRanks[] = {"PMIX_RANK", "PMI_RANK"};

Launcher launcher() {
  for (const char* variable : kCounts) {
    const char* text = std::getenv(variable);
    std::int64_t ranks = 0;
    if (text != nullptr && parse_int(text, &ranks) && ranks > 0) return {variable, int(ranks)};
  }
  for (const char* variable : kRanks)
    if (std::getenv(variable) != nullptr) return {variable, -1};
  return {};
}

bool launched() { return launcher().ranks != 0; }

void require_same_ranks(const Launcher& launcher, int mpi_ranks) {
  if (launcher.ranks <= 0 || launcher.ranks == mpi_ranks) return;
  throw Error(Blame::usage,
              cat("the launcher started ", launcher.ranks, " ranks (", launcher.variable,
                  "), but MPI counts ", mpi_ranks),
              "start it with the mpirun of the MPI it was built with, or with `srun --mpi=pmix`");
}

}  // namespace zt::comm
