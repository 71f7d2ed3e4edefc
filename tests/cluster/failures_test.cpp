// Nodes that are lost, and sweeps.
#include "cluster/slurm_cluster.h"

namespace zt::test {

TEST_CASE("cluster: a node that is lost ends its job, which SLURM starts on another, and the run goes on") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk, 2);
  desk.good(kTwo, {"run.output_dir=straight", "train.max_steps=3000", "checkpoint.every_steps=200",
                   "train.eval_every=0"});
  const std::string job =
      cluster.train({}, {"train.max_steps=3000", "checkpoint.every_steps=200", "train.eval_every=0"});
  REQUIRE(desk.wait_for_step("out", 300));
  // Written beside the steps, it may come later than they do.
  REQUIRE(desk.wait_for_checkpoint("out"));
  const std::string node = cluster.field(job, "NodeList"), other = node == "n1" ? "n2" : "n1";
  cluster.lose(node);
  const std::int64_t lost_at = desk.last_step("out");
  REQUIRE(lost_at < 3000);
  REQUIRE(cluster.wait_for(job, "Restarts", "1", 60));
  cluster.start_now(job);
  cluster.require_state(job, "COMPLETED");
  const std::string text = desk.read("job.out");
  CHECK(contains(text, "restart 1, on " + other));
  CHECK(contains(text, "going on after step"));
  for (const char* number : {"loss", "grad_norm", "batch_hash"})
    CHECK((desk.field("out", number) == desk.field("straight", number)));
  CHECK((desk.weights("out") == desk.weights("straight")));
}

TEST_CASE("cluster: a sweep is an array job; each task has its line's settings and a folder of its own") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  desk.write("rates.txt",
             "--set optimizer.learning_rate=1e-4\n"
             "--set optimizer.learning_rate=3e-3 --set run.output_dir=runs/fast\n");
  const std::string job =
      cluster.submit({"--array=1-3", "--ntasks-per-node=1"}, SlurmCluster::scripts() / "sweep.sbatch",
                     {"recipe.yaml", "rates.txt", "--set", "train.max_steps=6"}, "sweep-%a.out");
  for (const auto& [task, state] : {std::pair{"1", "COMPLETED"}, {"2", "COMPLETED"}, {"3", "FAILED"}})
    cluster.require_state(cat(job, "_", task), state, 60, cat("sweep-", task, ".out"));
  const std::string first = cat("runs/sweep-", job, "/1");
  for (const auto& [folder, rate] : {std::pair{first, 1e-4}, {std::string("runs/fast"), 3e-3}}) {
    CAPTURE(folder);
    const auto rates = desk.field(folder, "learning_rate");
    REQUIRE(rates.size() == 6);
    CHECK(rates.back().get<double>() == doctest::Approx(rate));
  }
  CHECK(contains(desk.read("sweep-3.out"), "rates.txt has no line 3"));
}

// The last task of an array has the array's own number; its requeue must not be that of all.
TEST_CASE("cluster: a task of a sweep saves and queues itself again, and the others train on") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  desk.write("rates.txt", "--set run.output_dir=runs/a\n--set run.output_dir=runs/b\n");
  const std::string job =
      cluster.submit({"--array=1-2", "--ntasks-per-node=1"}, SlurmCluster::scripts() / "sweep.sbatch",
                     {"recipe.yaml", "rates.txt", "--set", "train.max_steps=1000000", "--set",
                      "checkpoint.every_steps=1000000"},
                     "sweep-%a.out");
  REQUIRE(desk.wait_for_step("runs/a", 5));
  REQUIRE(desk.wait_for_step("runs/b", 5));
  REQUIRE(cluster.run({"scancel", "--batch", "--signal=USR1", job + "_2"}).status == 0);
  cluster.require_state(job + "_2", "PENDING", 60, "sweep-2.out");
  CHECK(cluster.field(job + "_2", "Restarts") == "1");
  CHECK(cluster.field(job + "_1", "JobState") == "RUNNING");
  CHECK(cluster.field(job + "_1", "Restarts") == "0");
  CHECK(desk.steps("runs/b") == std::vector{desk.last_step("runs/b")});
  CHECK(desk.steps("runs/a").empty());
  for (const char* task : {"1", "2"}) {
    const std::string said = desk.read(cat("sweep-", task, ".out"));
    CHECK(contains(said, cat("job ", job, "_", task, ", restart 0, on n1 until ")));
    CHECK(contains(said, "the time limit of slurm job " + job + "_" + task));
  }
}

}  // namespace zt::test
