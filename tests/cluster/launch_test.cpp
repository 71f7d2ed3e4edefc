// Jobs whose ranks are started by srun and by mpirun, on one node and on several, and those that forget to.
#include "cluster/slurm_cluster.h"

namespace zt::test {

TEST_CASE("cluster: srun and mpirun train alike, on one node and on three, and as virtual ranks do") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk, 3);
  for (const int nodes : {1, 3}) {
    const std::string straight = cat("straight", nodes);
    desk.good({2 * nodes, false}, {"run.output_dir=" + straight});
    for (const std::string launcher : {"srun", "mpirun"}) {
      CAPTURE(nodes);
      CAPTURE(launcher);
      const std::string out = cat(launcher, nodes), said = out + ".txt";
      ::setenv("ZEROTRAIN_LAUNCHER", launcher.c_str(), 1);
      const std::string job = cluster.train({cat("--nodes=", nodes)}, {"run.output_dir=" + out}, said);
      cluster.require_state(job, "COMPLETED", 60, said);
      // Memory differs by transport; numbers do not.
      for (const char* number : {"loss", "grad_norm", "batch_hash", "eval_loss"})
        CHECK(desk.field(out, number) == desk.field(straight, number));
      CHECK((desk.weights(out) == desk.weights(straight)));
      const std::string text = desk.read(said);
      CHECK(contains(text, cat("job ", job, ", restart 0, on n")));
      CHECK(contains(text, cat(2 * nodes, " ranks at ZeRO stage")));
      CHECK(contains(text, nodes == 1 ? "mpi (shared windows)" : "mpi (messages)"));
      for (int n = 1; nodes == 3 && n <= nodes; ++n)
        CHECK(contains(text, cat("node n", n, ": 2 ranks, each with 1 thread on cores ")));
    }
  }
  ::unsetenv("ZEROTRAIN_LAUNCHER");
}

// N jobs of one rank.
TEST_CASE(
    "cluster: srun without --mpi=pmix ends before anything is written, with both numbers and the cure") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const Outcome o = cluster.run({"srun", "--mpi=none", "-n", "2", Desk::binary(), "--recipe", "recipe.yaml"});
  CHECK(o.status == 2);
  CHECK(contains(o.err,
                 "srun started 2 ranks (SLURM_STEP_NUM_TASKS) that cannot find each other: each is 1 rank"));
  CHECK(contains(o.err, "srun --mpi=pmix"));
  CHECK_FALSE(contains(o.err, "MPI_Init"));
  CHECK_FALSE(desk.has("out"));

  const Outcome one =
      cluster.run({"srun", "--mpi=none", "-n", "1", Desk::binary(), "--recipe", "recipe.yaml"});
  CHECK_MESSAGE(one.status == 0, end_of(one.err));
}

TEST_CASE(
    "cluster: a batch script of four tasks that starts the program itself is told so; --ranks 1 means it") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  desk.write("alone.sh", cat("#!/bin/sh\n", Desk::binary(), " --recipe recipe.yaml \"$@\"\n"));
  const std::string job = cluster.submit({"-n", "4"}, "alone.sh");
  cluster.require_state(job, "FAILED");
  CHECK(cluster.field(job, "ExitCode") == "2:0");
  CHECK(contains(desk.read("job.out"),
                 "this job has 4 tasks (SLURM_NTASKS), but no launcher started this process"));
  CHECK(contains(desk.read("job.out"), "srun --mpi=pmix"));
  CHECK_FALSE(desk.has("out"));
  cluster.require_state(cluster.submit({"-n", "4"}, "alone.sh", {"--ranks", "1"}), "COMPLETED");
}

// Open MPI's default ties each of two ranks to one core.
TEST_CASE(
    "cluster: ranks that mpirun has tied to a core say which, and are warned when their threads are more") {
  const FaultDesk desk;
  for (const char* threads : {"2", "1"}) {
    CAPTURE(threads);
    ::setenv("OMP_NUM_THREADS", threads, 1);
    const Outcome o = desk.finish(
        desk.start_command({Desk::launcher(), "--bind-to", "core", "-n", "2", Desk::binary(), "--recipe",
                            "recipe.yaml", "--set", cat("run.output_dir=out", threads)}));
    ::setenv("OMP_NUM_THREADS", "1", 1);
    REQUIRE_MESSAGE(o.status == 0, end_of(o.err));
    CHECK(contains(o.err, cat(": 2 ranks: rank 0 with ", threads, " thread")));
    const bool warned = contains(o.err, "rank 0 on");
    CHECK(warned == (std::string(threads) == "2"));
    if (warned) CHECK(contains(o.err, "computes with 2 threads, but may use 1 core only (core "));
    if (warned) CHECK(contains(o.err, "mpirun --bind-to none"));
  }
}

// The shared memory of a container. Open MPI's own failure would leave a rank waiting.
TEST_CASE("cluster: ranks whose shared memory is too small send messages, say so, and compute the same") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const auto train = [&desk](const std::string& before, const std::string& folder) {
    return desk.finish(desk.start_command({"unshare", "--mount", "sh", "-c",
                                           cat(before, "exec ", Desk::launcher(), " -n 2 ", Desk::binary(),
                                               " --recipe recipe.yaml --set run.output_dir=", folder)}),
                       60);
  };
  const Outcome large = train("", "large"),
                small = train("mount -t tmpfs -o size=512k none /dev/shm && ", "small");
  REQUIRE_MESSAGE(large.status == 0, end_of(large.err));
  REQUIRE_MESSAGE(small.status == 0, end_of(small.err));
  CHECK(contains(large.err, "mpi (shared windows)"));
  CHECK_FALSE(contains(large.err, "of /dev/shm, which has"));
  CHECK(contains(small.err, "mpi (messages)"));
  CHECK(contains(small.err, "of /dev/shm, which has 512.00 KiB free"));
  CHECK(contains(small.err, "--shm-size"));
  CHECK(desk.field("small", "loss") == desk.field("large", "loss"));
}

TEST_CASE("cluster: an error is the job's status and does not queue it again") {
  ZT_NEEDS_SLURM();
  const FaultDesk desk;
  const SlurmCluster cluster(desk);
  const std::string job = cluster.train({}, {"train.max_stepz=4"});
  cluster.require_state(job, "FAILED");
  CHECK(cluster.field(job, "ExitCode") == "2:0");
  CHECK(cluster.field(job, "Restarts") == "0");
  CHECK(contains(desk.read("job.out"), "max_stepz"));
  CHECK(contains(desk.read("job.out"), "ended with status 2; it is not queued again"));
}

}  // namespace zt::test
