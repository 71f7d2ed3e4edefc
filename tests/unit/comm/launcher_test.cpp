#include "comm/launcher.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "comm/mpi.h"

using namespace zt;

namespace {

using Variables = std::map<std::string, std::string>;

// Sets the launchers' variables for the life of the object and then puts the old ones back.
class Environment {
 public:
  explicit Environment(const Variables& wanted) {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                             "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
      const char* value = std::getenv(name);
      before_[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
    for (const auto& [name, value] : wanted) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      unsetenv(name.c_str());
      if (value) setenv(name.c_str(), value->c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

std::string mismatch(int mpi_ranks) {
  try {
    comm::require_same_ranks(comm::launcher(), mpi_ranks);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    CHECK(e.hint().find("mpirun") != std::string::npos);
    return e.problem();
  }
  return "";
}

}  // namespace

TEST_CASE("launcher: no variable, or only those of a batch script, means started alone") {
  const Environment none(Variables{});
  CHECK_FALSE(comm::launched());
  CHECK(mismatch(1) == "");
  const Environment batch(Variables{{"SLURM_NTASKS", "4"}});
  CHECK_FALSE(comm::launched());
}

TEST_CASE("launcher: each launcher is known by its own variable, for one rank too") {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    for (int ranks : {1, 4}) {
      const Environment set(Variables{{name, std::to_string(ranks)}});
      CHECK(comm::launched());
      CHECK(comm::launcher().ranks == ranks);
      CHECK(mismatch(ranks) == "");
    }
  }
  for (const char* name : {"PMIX_RANK", "PMI_RANK"}) {
    const Environment set(Variables{{name, "0"}});
    CHECK(comm::launched());
    CHECK(mismatch(3) == "");
  }
}

TEST_CASE("launcher: a launcher that MPI does not hear is an error with both numbers") {
  const Environment srun(Variables{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}});
  CHECK(mismatch(1) == "the launcher started 4 ranks (SLURM_STEP_NUM_TASKS), but MPI counts 1");
  // mpirun starts its helpers by srun, one a node: its own count is the one that holds.
  const Environment nested(Variables{{"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(mismatch(8) == "");
}

TEST_CASE("launcher: text that is no count is passed over") {
  const Environment odd(Variables{{"OMPI_COMM_WORLD_SIZE", "many"}, {"PMI_SIZE", "-1"}});
  CHECK_FALSE(comm::launched());
}
