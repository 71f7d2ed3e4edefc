// What the launcher says about ranks, by environment variables only.
#pragma once

#include <string>

namespace zt::comm {

// Who started this process as one of `ranks`, and the variable that says so. `ranks` is 0 when no launcher
// did, -1 when one did without telling how many.
struct Launcher {
  std::string variable;
  int ranks = 0;
  bool joins = true;  // it offers processes a way to find each other (PMIx or PMI)
};
Launcher launcher();

// Throws Error(usage) when the launcher has started several processes that cannot find each other: srun without
// --mpi=pmix. To be asked before MPI starts, which would end the process with words of its own.
void require_joined(const Launcher& launcher);

// Throws Error(usage) when MPI counts other ranks than the launcher: then the launcher and MPI do not speak
// with each other, and every process would believe it is alone.
void require_same_ranks(const Launcher& launcher, int mpi_ranks);

// Tasks of the batch job that this process was started in by no launcher (SLURM_NTASKS); 1 where there is no such job.
int tasks_of_job();
// Throws Error(usage) when there are several: a batch script that has forgotten srun or mpirun.
void require_lone_task();

}  // namespace zt::comm
