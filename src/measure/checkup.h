// What of a machine matters to training, as a table, with a cure where something is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/machine.h"
#include "plan/cluster.h"

namespace zt::measure {

// What is known of a machine and of how this process was started.
struct Surroundings {
  Machine machine;
  Disk here;                    // the current folder's
  std::string mpi;              // the library
  std::optional<int> launched;  // ranks that a launcher started on this node
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
