// Jobs that are told to stop: they save, queue themselves again and go on, or end, as they were told.
#include "cluster/slurm_cluster.h"

namespace zt::test {
namespace {

const Words kSaveAtStops = {"checkpoint.every_steps=1000000", "checkpoint.keep_last=9",
                            "train.eval_every=100"};

// Ten times the rows a step, where a job trains for most of a minute and all of it is trained again.
const Words kSlow = {"train.global_batch_size=60"};

// Jobs read the recipe again whenever they start.
void want_steps(const FaultDesk& desk, std::int64_t steps) {
  std::string recipe = kTinyRecipe;
  const std::string key = "max_steps: 12";
  recipe.replace(recipe.find(key), key.size(), cat("max_steps: ", steps));
  desk.write("recipe.yaml", recipe);
}

// A job that trains until it is told to stop.
std::string train_long(const FaultDesk& desk, const SlurmCluster& cluster, const Words& options,
                       const Words& more = {}) {
  want_steps(desk, 1000000);
  Words sets = kSaveAtStops;
  sets.insert(sets.end(), more.begin(), more.end());
  const std::string job = cluster.train(options, sets);
  const bool trains = desk.wait_for_step("out", 5);
  REQUIRE_MESSAGE(trains, (desk.has("job.out") ? end_of(desk.read("job.out")) : "(no output)"));
  return job;
}

// The job has stopped and has saved all that it has done.
void check_saved(const FaultDesk& desk, int checkpoints = 1) {
  const std::vector<std::int64_t> saved = desk.steps("out");
  REQUIRE_MESSAGE(int(saved.size()) == checkpoints, end_of(desk.read("job.out")));
  CHECK(saved.back() == desk.last_step("out"));
  CHECK(contains(desk.read("job.out"), cat("ended the run after step ", saved.back(), " of 1000000")));
}

// A job that was queued again goes on to an end, and the run has the lines and weights of one without any stop.
void check_completes(const FaultDesk& desk, const SlurmCluster& cluster, const std::string& job,
                     const Words& more = {}) {
  const std::int64_t stopped = desk.last_step("out"), steps = stopped + 20;
  want_steps(desk, steps);
  cluster.start_now(job);
  cluster.require_state(job, "COMPLETED");
  CHECK(contains(desk.read("job.out"), cat("going on after step ", stopped)));
  Words sets = kSaveAtStops;
  sets.push_back("run.output_dir=straight");
  sets.insert(sets.end(), more.begin(), more.end());
  // As many steps as the job made in its minute.
  const Outcome straight = desk.finish(desk.begin(kTwo, sets), 240);
  REQUIRE_MESSAGE(straight.status == 0, end_of(straight.err));
  for (const char* number : {"loss", "grad_norm", "batch_hash", "eval_loss"})
    CHECK((desk.field("out", number) == desk.field("straight", number)));
  CHECK(std::int64_t(desk.field("out", "loss").size()) == steps);
  CHECK((desk.weights("out") == desk.weights("straight")));
}

class Launchers {
 public:
  explicit Launchers(const std::string& name) { ::setenv("ZEROTRAIN_LAUNCHER", name.c_str(), 1); }
  ~Launchers() { ::unsetenv("ZEROTRAIN_LAUNCHER"); }
};

}  // namespace

TEST_CASE(
    "cluster: USR1 to the batch script saves on all nodes, the job queues itself again and goes on where it "
    "was") {
  ZT_NEEDS_SLURM();
  for (const std::string launcher : {"srun", "mpirun"}) {
    CAPTURE(launcher);
    const Launchers chosen(launcher);
    const FaultDesk desk;
    const SlurmCluster cluster(desk, 2);
    const std::string job = train_long(desk, cluster, {"--nodes=2", "--ntasks-per-node=1"});
    for (int restart = 1; restart <= 2; ++restart) {
      REQUIRE(cluster.run({"scancel", "--batch", "--signal=USR1", job}).status == 0);
      cluster.require_state(job, "PENDING");
      CHECK(cluster.field(job, "Restarts") == cat(restart));
      check_saved(desk, restart);
      if (restart == 2) break;
      const std::int64_t before = desk.last_step("out");
      cluster.start_now(job);
      REQUIRE(desk.wait_for_step("out", before + 5));
    }
    check_completes(desk, cluster, job);
    const std::string text = desk.read("job.out");
    CHECK(count(text, "saved; queued again") == 2);
    CHECK(contains(text, "restart 2, on n[1-2]"));
    CHECK(count(text, "going on after step") == 2);
  }
}

TEST_CASE("cluster: the signal that sbatch's --signal sends before the time limit does the same") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  // SLURM may send it a minute early, so of a limit of one minute any time from the start on.
  const std::string job =
      train_long(desk, cluster, {"--time=1", "--signal=B:USR1@30"}, {"run.time_limit=none", kSlow.front()});
  cluster.require_state(job, "PENDING");
  check_saved(desk);
  CHECK(contains(desk.read("job.out"), "SIGUSR1"));
  check_completes(desk, cluster, job, kSlow);
}

TEST_CASE("cluster: a run saves before its time limit by itself, without any signal") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = train_long(desk, cluster, {"--time=1", "--signal=B:USR1@0"}, kSlow);
  cluster.require_state(job, "PENDING", 90);
  check_saved(desk);
  CHECK_FALSE(contains(desk.read("job.out"), "SIGUSR1"));
  CHECK(contains(desk.read("job.out"), "time limit"));
  check_completes(desk, cluster, job, kSlow);
}

// Then SLURM sends it at once, before the script has started anything.
TEST_CASE("cluster: a job with less time than the signal's lead is queued again like any other") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  want_steps(desk, 1000000);
  Words sets = kSaveAtStops;
  sets.insert(sets.end(), kSlow.begin(), kSlow.end());
  const std::string job = cluster.train({"--time=1", "--signal=B:USR1@120"}, sets);
  std::string restarts, state;
  for (int i = 0; i < 900 && restarts != "1" && state != "FAILED"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    restarts = cluster.field(job, "Restarts");
    state = cluster.field(job, "JobState");
  }
  CHECK(restarts == "1");
  CHECK_MESSAGE(state != "FAILED", (desk.has("job.out") ? end_of(desk.read("job.out")) : "(no output)"));
}

TEST_CASE("cluster: scontrol requeue saves, and the job goes on") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = train_long(desk, cluster, {});
  REQUIRE(cluster.run({"scontrol", "requeue", job}).status == 0);
  cluster.require_state(job, "PENDING");
  check_saved(desk);
  check_completes(desk, cluster, job);
  CHECK(contains(desk.read("job.out"), "restart 1, on n1"));
}

TEST_CASE(
    "cluster: scancel saves what srun started, and the job does not come back; another sbatch goes on") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = train_long(desk, cluster, {});
  REQUIRE(cluster.run({"scancel", job}).status == 0);
  cluster.require_state(job, "CANCELLED");
  REQUIRE(desk.wait_for("job.out", "cancelled; sbatch", 20));
  CHECK(cluster.field(job, "Restarts") == "0");
  check_saved(desk);
  const std::string again = cluster.train({"--begin=now+100"}, kSaveAtStops);
  check_completes(desk, cluster, again);
}

TEST_CASE("cluster: scancel --signal=USR1 reaches the ranks of srun themselves") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = train_long(desk, cluster, {});
  REQUIRE(cluster.run({"scancel", "--signal=USR1", job}).status == 0);
  cluster.require_state(job, "PENDING");
  check_saved(desk);
  check_completes(desk, cluster, job);
}

TEST_CASE("cluster: a job that must not be queued again saves and ends with its status") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = train_long(desk, cluster, {});
  REQUIRE(cluster.run({"scontrol", "update", "jobid=" + job, "Requeue=0"}).status == 0);
  REQUIRE(cluster.run({"scancel", "--batch", "--signal=USR1", job}).status == 0);
  cluster.require_state(job, "FAILED");
  CHECK(cluster.field(job, "ExitCode") == "75:0");
  CHECK(contains(desk.read("job.out"), "SLURM did not queue it again"));
  CHECK(contains(desk.read("job.out"), "Requested operation is presently disabled"));
  check_saved(desk);
}

TEST_CASE("cluster: after as many restarts as are allowed the job ends with its status") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  ::setenv("ZEROTRAIN_MAX_RESTARTS", "0", 1);
  const std::string job = train_long(desk, cluster, {});
  ::unsetenv("ZEROTRAIN_MAX_RESTARTS");
  REQUIRE(cluster.run({"scancel", "--batch", "--signal=USR1", job}).status == 0);
  cluster.require_state(job, "FAILED");
  CHECK(cluster.field(job, "ExitCode") == "75:0");
  CHECK(contains(desk.read("job.out"), "ZEROTRAIN_MAX_RESTARTS"));
  check_saved(desk);
}

}  // namespace zt::test
