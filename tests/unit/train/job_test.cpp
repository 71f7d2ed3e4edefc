#include "train/job.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

namespace zt::train {
namespace {

using Variables = std::map<std::string, std::string>;

// The batch systems' variables as given, for the life of the object; they are not put back, for tests have none.
class Environment {
 public:
  explicit Environment(const Variables& wanted) {
    clear();
    for (const auto& [name, value] : wanted) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME",
                             "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "PBS_JOBID", "PBS_JOBNAME",
                             "LSB_JOBID", "LSB_JOBNAME", "ZEROTRAIN_END_TIME"})
      unsetenv(name);
  }
};

}  // namespace

TEST_CASE("job: each batch system is known by its own variables") {
  struct Case {
    Variables variables;
    Job job;
    std::string text;
  };
  const Case cases[] = {
      {{}, {}, ""},
      {{{"SLURM_JOB_ID", "17"}}, {"slurm", "17", "", 0, {}}, "slurm job 17"},
      {{{"SLURM_JOB_ID", "17"},
        {"SLURM_JOB_NAME", "gpt2"},
        {"SLURM_RESTART_COUNT", "2"},
        {"SLURM_JOB_END_TIME", "1795000000"}},
       {"slurm", "17", "gpt2", 2, 1795000000},
       "slurm job 17 (gpt2), restart 2"},
      {{{"SLURM_JOB_ID", "19"}, {"SLURM_ARRAY_JOB_ID", "17"}, {"SLURM_ARRAY_TASK_ID", "2"}},
       {"slurm", "17_2", "", 0, {}},
       "slurm job 17_2"},
      {{{"PBS_JOBID", "8.host"}, {"PBS_JOBNAME", "x"}}, {"pbs", "8.host", "x", 0, {}}, "pbs job 8.host (x)"},
      {{{"LSB_JOBID", "9"}}, {"lsf", "9", "", 0, {}}, "lsf job 9"},
      // The script that starts the run knows better than the batch system; it counts without one too.
      {{{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_END_TIME", "5"}, {"ZEROTRAIN_END_TIME", "1795000000"}},
       {"slurm", "17", "", 0, 1795000000},
       "slurm job 17"},
      {{{"ZEROTRAIN_END_TIME", "1795000000"}}, {"", "", "", 0, 1795000000}, ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const Environment set(c.variables);
    CHECK(this_job() == c.job);
    CHECK(bool(this_job()) == !c.text.empty());
    CHECK(text(this_job()) == c.text);
  }
}

TEST_CASE("job: an end that is no time is none, and a count that is none is 0") {
  for (const char* nonsense : {"", "N/A", "soon", "-5", "1e9", "99999999999999999999"}) {
    CAPTURE(nonsense);
    const Environment set({{"SLURM_JOB_ID", "17"},
                           {"ZEROTRAIN_END_TIME", nonsense},
                           {"SLURM_RESTART_COUNT", nonsense},
                           {"SLURM_JOB_END_TIME", nonsense}});
    CHECK_FALSE(this_job().end_time);
    CHECK(this_job().restarts == 0);
  }
}

}  // namespace zt::train
