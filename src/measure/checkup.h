// What of a machine matters to training, as a table, with a cure where something is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/checks.h"
#include "measure/machine.h"
#include "plan/cluster.h"

namespace zt::measure {

// What is known of a machine and of how this process was started.
struct Surroundings {
  Machine machine;
  Disk here;                              // the current folder's
  std::string mpi;                        // the library
  std::optional<int> launched;            // ranks that a launcher started on this node
  std::string launch_fault, launch_cure;  // why they are no ranks of one run, "" where they are
  int job_tasks = 1;                      // tasks of a batch job in which no launcher started this process
  bool mpirun = true;                     // there is one in PATH
  bool root_refused = false;  // this is root, whom Open MPI's mpirun refuses, and no variable says otherwise
  int node_cores =
      0;            // that the machine or the job has, of which this process may be bound to some; 0: unknown
  int threads = 0;  // OMP_NUM_THREADS; 0 where it is not set
  std::int64_t memory_limit = -1;  // of the control group; -1: none
  Swap swap;
  FolderCheck folder;  // the current one
  Disk temporary;      // of the folder for temporary files, where launchers keep theirs
  std::string temporary_path = "/tmp";
  bool temporary_executes = true;
  Limits limits;
  Gpus gpus;
  double clock_skew = 0;  // seconds between the earliest and the latest clock of the ranks
  std::string calibration_path;
  std::optional<plan::Cluster> calibration;
  std::string calibration_fault;  // why the file of that path is not one
  std::int64_t now = 0;           // seconds since 1970
};

struct Finding {
  std::string subject, what;
  std::string cure;  // what to do about it; "" where all is well
};
std::vector<Finding> checkup(const Surroundings& s);

// One line a finding, cures indented below theirs.
std::string text(const std::vector<Finding>& findings);

// How old a calibration is: "3 days old"; "" where the cluster is described by hand.
std::string age_text(const plan::Cluster& cluster, std::int64_t now);

}  // namespace zt::measure
