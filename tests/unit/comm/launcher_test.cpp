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
  CHECK(comm::tasks_of_job() == 1);
  CHECK_NOTHROW(comm::require_lone_task());
  const Environment batch(Variables{{"SLURM_NTASKS", "1"}});
  CHECK_FALSE(comm::launched());
  CHECK_NOTHROW(comm::require_lone_task());
}

TEST_CASE(
    "launcher: a batch script of four tasks that starts the program itself is told both numbers and the "
    "cure") {
  const Environment batch(Variables{{"SLURM_NTASKS", "4"}});
  CHECK_FALSE(comm::launched());
  CHECK(comm::tasks_of_job() == 4);
  try {
    comm::require_lone_task();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    CHECK(e.problem() ==
          "this job has 4 tasks (SLURM_NTASKS), but no launcher started this process: it would be 1 rank "
          "alone");
    CHECK(e.hint() == "start it with `srun --mpi=pmix` or mpirun; --ranks 1 if one is meant");
  }
  const Environment rank(Variables{{"SLURM_NTASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK_NOTHROW(comm::require_lone_task());
}

TEST_CASE("launcher: each launcher is known by its own variable, for one rank too") {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    for (int ranks : {1, 4}) {
      const Environment set(Variables{{name, std::to_string(ranks)}, {"PMIX_RANK", "0"}});
      CHECK(comm::launched());
      CHECK(comm::launcher().variable == name);
      CHECK(comm::launcher().ranks == ranks);
      CHECK(mismatch(ranks) == "");
      CHECK_NOTHROW(comm::require_joined(comm::launcher()));
    }
  }
  for (const char* name : {"PMIX_RANK", "PMI_RANK"}) {
    const Environment set(Variables{{name, "0"}});
    CHECK(comm::launched());
    CHECK(mismatch(3) == "");
  }
}

TEST_CASE("launcher: a launcher that MPI does not hear is an error with both numbers") {
  const Environment srun(Variables{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}, {"PMIX_RANK", "3"}});
  CHECK(mismatch(1) == "the launcher started 4 ranks (SLURM_STEP_NUM_TASKS), but MPI counts 1");
  const Environment other(Variables{{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}});
  CHECK(mismatch(1) == "the launcher started 4 ranks (PMI_SIZE), but MPI counts 1");
  // mpirun starts its helpers by srun, one a node: its own count is the one that holds.
  const Environment nested(Variables{{"OMPI_COMM_WORLD_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  CHECK(mismatch(8) == "");
  CHECK_NOTHROW(comm::require_joined(comm::launcher()));
}

TEST_CASE("launcher: srun without --mpi=pmix is told before MPI starts; of one task it needs no MPI") {
  const Environment four(Variables{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}});
  CHECK(comm::launched());
  try {
    comm::require_joined(comm::launcher());
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    CHECK(
        e.problem() ==
        "srun started 4 ranks (SLURM_STEP_NUM_TASKS) that cannot find each other: each is 1 rank by itself");
    CHECK(e.hint().find("`srun --mpi=pmix`") != std::string::npos);
  }
  const Environment one(Variables{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "1"}});
  CHECK_FALSE(comm::launched());
}

TEST_CASE("launcher: text that is no count is passed over") {
  const Environment odd(Variables{{"OMPI_COMM_WORLD_SIZE", "many"},
                                  {"PMI_SIZE", "-1"},
                                  {"SLURM_STEP_NUM_TASKS", ""},
                                  {"SLURM_NTASKS", "x"}});
  CHECK_FALSE(comm::launched());
  CHECK(comm::tasks_of_job() == 1);
}
