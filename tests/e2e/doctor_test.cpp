// What a person meets who asks the program about the machine.
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>

#include "e2e/program.h"
#include "plan/cluster.h"

namespace zt::test {
namespace {

const Words kQuick = {"doctor", "--calibrate", "--quick", "--ranks", "1", "--to", "here.yaml"};

plan::Cluster cluster_of(const Desk& desk) {
  return plan::parse_cluster(desk.read("here.yaml"), "here.yaml");
}

}  // namespace

TEST_CASE("doctor: says what the machine is") {
  const Desk desk;
  const Outcome o = desk.run({"doctor"});
  CHECK(o.status == 0);
  CHECK(o.err.empty());
  for (const char* subject : {"processor ", "cores ", "memory ", "swap ", "GPU ", "MPI ", "launcher ",
                              "user ", "/dev/shm ", "disk ", "locks        work", "limits ", "calibration "})
    CHECK(contains(o.out, subject));
  for (const auto& entry : std::filesystem::directory_iterator(desk.path()))
    CHECK_FALSE(contains(entry.path().filename().string(), "zerotrain-doctor"));
}

TEST_CASE("doctor: what the environment has wrong is told with its cure") {
  struct Case {
    Words environment;
    const char *says, *cure;
  };
  const Case cases[] = {
      {{"SLURM_NTASKS=4"}, "none, in a job of 4 tasks", "srun --mpi=pmix"},
      {{"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=0"}, "srun started 4 ranks", "srun --mpi=pmix"},
      {{"PMI_SIZE=4", "PMI_RANK=0"}, "started 4 ranks (PMI_SIZE), but MPI counts 1", "the mpirun of the MPI"},
      {{"OMP_NUM_THREADS=999"}, "OMP_NUM_THREADS=999", "unset OMP_NUM_THREADS"},
      {{"PATH=/nowhere"}, "no mpirun in PATH", "openmpi-bin"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const Desk desk;
    Words words{"/usr/bin/env"};
    words.insert(words.end(), c.environment.begin(), c.environment.end());
    words.insert(words.end(), {Desk::binary(), "doctor"});
    const Outcome o = desk.finish(desk.start_command(words));
    CHECK(o.status == 0);
    CHECK(contains(o.out, c.says));
    CHECK(contains(o.out, c.cure));
  }
  // One of the processes that do not know of each other speaks for all.
  const Desk desk;
  const Outcome other = desk.finish(desk.start_command(
      {"/usr/bin/env", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=2", Desk::binary(), "doctor"}));
  CHECK(other.status == 0);
  CHECK(other.out.empty());
}

TEST_CASE("doctor: a full folder is told") {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0) {
    std::puts("skipped: mounting needs root");
    return;
  }
  const Desk desk;
  const std::string here = desk.path().string();
  REQUIRE(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
  REQUIRE(::mount("tmpfs", here.c_str(), "tmpfs", 0, "size=1M") == 0);
  const Outcome full = desk.run({"doctor"});
  CHECK(full.status == 0);
  CHECK(contains(full.out, "No space left on device"));
  CHECK(contains(full.out, "run.output_dir"));
  REQUIRE(::umount2(here.c_str(), MNT_DETACH) == 0);
}

TEST_CASE(
    "doctor: a calibration is a cluster file, a second one adds to it, and it is found in the user's "
    "folder") {
  const Desk desk;
  const Outcome first = desk.run(kQuick);
  REQUIRE(first.status == 0);
  CHECK(contains(first.out, "GFLOP/s"));
  CHECK(contains(first.err, "written to here.yaml"));
  const plan::Cluster one = cluster_of(desk);
  REQUIRE(one.nodes.size() == 1);
  CHECK(one.nodes[0].ranks == 1);
  CHECK(one.calibrated);
  CHECK(one.backend == plan::Backend::cpu);
  CHECK(one.host_memory > 0);
  CHECK(one.peak_float32 > 0);
  CHECK(one.disk_write > 0);

  Words two = kQuick;
  two[4] = "2";
  REQUIRE(desk.run(two).status == 0);
  const plan::Cluster both = cluster_of(desk);
  REQUIRE(both.nodes.size() == 2);
  CHECK(both.nodes[0] == one.nodes[0]);
  CHECK(both.nodes[1].gather.bandwidth > 0);
}

TEST_CASE("doctor: ranks of a launcher are measured as they are") {
  const Desk desk;
  const Outcome o = desk.finish(desk.start_command({Desk::launcher(), "-n", "2", Desk::binary(), "doctor",
                                                    "--calibrate", "--quick", "--to", "here.yaml"}));
  CAPTURE(o.err);
  REQUIRE(o.status == 0);
  const plan::Cluster c = cluster_of(desk);
  REQUIRE(c.nodes.size() == 1);
  CHECK(c.nodes[0].ranks == 2);
  CHECK(c.nodes[0].gather.bandwidth > 0);
  CHECK(c.between.bandwidth == 0);  // one node only

  const Outcome table =
      desk.finish(desk.start_command({Desk::launcher(), "-n", "2", Desk::binary(), "doctor"}));
  CHECK(table.status == 0);
  CHECK(contains(table.out, "started 2 ranks"));
}

TEST_CASE("doctor: a file that is not its own is left alone, before anything is measured") {
  struct Case {
    const char *what, *text, *says;
  };
  const Case cases[] = {{"a recipe", "run: {name: mine}\n", "is not a cluster file"},
                        {"no YAML", "{{{", "is not a cluster file"},
                        {"nothing", "", "is not a cluster file"}};
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const Desk desk;
    desk.write("here.yaml", c.text);
    const Outcome o = desk.run(kQuick);
    CHECK(o.status == 2);
    CHECK(contains(o.err, c.says));
    CHECK(contains(o.err, "--to"));
    CHECK(desk.read("here.yaml") == c.text);
    CHECK(!contains(o.err, "measuring"));
  }
}

TEST_CASE("doctor: a cluster that was written by hand, or is of another machine, is left alone") {
  const Desk desk;
  REQUIRE(desk.run(kQuick).status == 0);
  plan::Cluster mine = cluster_of(desk), other = mine;
  mine.calibrated.reset();
  other.name = "another-machine";
  for (const auto& [cluster, says] : {std::pair{mine, "by hand"}, std::pair{other, "another-machine"}}) {
    const std::string text = plan::cluster_text(cluster);
    desk.write("here.yaml", text);
    const Outcome o = desk.run(kQuick);
    CHECK(o.status == 2);
    CHECK(contains(o.err, says));
    CHECK(desk.read("here.yaml") == text);
  }
}

TEST_CASE("doctor: a place that cannot be written is told at once") {
  const Desk desk;
  struct Case {
    const char *to, *says;
    int status;
  };
  for (const Case& c :
       {Case{"no/such/here.yaml", "no/such: No such file or directory", 7}, Case{".", "is a folder", 2}}) {
    CAPTURE(c.to);
    Words words = kQuick;
    words.back() = c.to;
    const Outcome o = desk.run(words);
    CHECK(o.status == c.status);
    CHECK(contains(o.err, c.says));
    CHECK(contains(o.err, "hint: "));
    CHECK(!contains(o.err, "measuring"));
  }
}

TEST_CASE("doctor: a calibration that is ended half-way leaves the file as it was") {
  const Desk desk;
  REQUIRE(desk.run(kQuick).status == 0);
  const std::string before = desk.read("here.yaml");
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string streams = signal == SIGINT ? "int" : "kill";
    const pid_t child =
        desk.start({"doctor", "--calibrate", "--ranks", "1", "--to", "here.yaml"}, "", streams);
    REQUIRE(desk.wait_for(".err" + streams, "1 rank: "));
    ::kill(child, signal);
    CHECK(desk.finish(child, 60, streams).status == 128 + signal);
    CHECK(desk.read("here.yaml") == before);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(desk.path()))
      if (entry.path().filename().string()[0] != '.') names.push_back(entry.path().filename());
    CHECK(names == std::vector<std::string>{"here.yaml"});
  }
}

TEST_CASE("doctor: options that do not go together are refused") {
  const Desk desk;
  for (const Words& words :
       {Words{"doctor", "--ranks", "2"}, Words{"doctor", "--quick"}, Words{"doctor", "--to", "x"},
        Words{"doctor", "--calibrate", "--ranks", "0"}, Words{"doctor", "--calibrate", "--ranks", "2,x"}}) {
    const Outcome o = desk.run(words);
    CHECK(o.status == 2);
    CHECK(!o.err.empty());
    CHECK(o.out.empty());
  }
  const Outcome o = desk.finish(desk.start_command({Desk::launcher(), "-n", "2", Desk::binary(), "doctor",
                                                    "--calibrate", "--ranks", "2", "--to", "x.yaml"}));
  CHECK(o.status == 2);
  CHECK(contains(o.err, "leave --ranks out"));
}

}  // namespace zt::test
