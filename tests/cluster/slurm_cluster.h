// SLURM as Debian packages it, on this machine: munged, slurmctld and one slurmd a node, all in a scratch folder. Each
// node is a UTS namespace, so that it has a host name of its own. Everything ends with the object.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "fault/fault_desk.h"

namespace zt::test {

class SlurmCluster {
 public:
  // Why there can be no cluster here; "" where there can be.
  static std::string missing() {
    if (::geteuid() != 0) return "SLURM's daemons for a test are started by root";
    for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch", "srun", "unshare", "mpirun"})
      if (std::system(cat("command -v ", program, " >/dev/null 2>&1").c_str()) != 0)
        return cat(program, " is missing (scripts/setup tests installs it)");
    return "";
  }

  explicit SlurmCluster(const Desk& desk, int nodes = 1) : desk_(desk), nodes_(nodes) {
    for (const char* folder : {"state", "spool", "log", "run", "tmp"})
      fs::create_directories(folder_.path() / folder);
    for (const auto& [name, value] : environment()) ::setenv(name.c_str(), value.c_str(), 1);
    folder_.write("slurm.conf", configuration(free_ports()));
    std::string key(128, '\0');
    std::random_device random;
    for (char& c : key) c = char(random());
    ::chmod(folder_.write("munge.key", key).c_str(), 0400);
    start();
  }
  ~SlurmCluster() {
    run({"scancel", "--signal=KILL", "--full", "--user=root"});
    run({"scontrol", "shutdown"});
    for (int i = 0; i < 300 && processes("slurm").size() > 0; ++i) sleep_ms(10);
    for (const pid_t process : processes()) ::kill(process, SIGKILL);
    for (int i = 0; i < 500 && processes().size() > 0; ++i) sleep_ms(10);
    CHECK(processes().empty());
    ::unsetenv("SLURM_CONF");
  }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  // A command of SLURM's, or any other, in the desk's folder.
  Outcome run(const Words& words, double limit_seconds = 60) const {
    const std::string streams = cat("-command", ++commands_);
    return desk_.finish(desk_.start_command(words, "", streams), limit_seconds, streams);
  }

  // sbatch; what the job says goes to `output` in the desk's folder. Returns the job's id.
  std::string submit(const Words& options, const std::string& script, const Words& arguments = {},
                     const std::string& output = "job.out") const {
    Words words{"sbatch", "--parsable", "--output=" + output};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(script);
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Outcome o = run(words);
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return std::string(trim(o.out));
  }
  // The batch script of the project with the desk's recipe.
  std::string train(const Words& options, const Words& sets, const std::string& output = "job.out") const {
    Words arguments{"recipe.yaml"};
    for (const std::string& set : sets) {
      arguments.push_back("--set");
      arguments.push_back(set);
    }
    return submit(options, scripts() / "train.sbatch", arguments, output);
  }
  static fs::path scripts() { return source_dir() / "scripts/slurm"; }

  // A field of `scontrol show job`: JobState, Restarts, ExitCode ("75:0"), Reason, NodeList.
  std::string field(const std::string& job, const std::string& name) const {
    const std::string text = " " + run({"scontrol", "--oneliner", "show", "job", job}).out;
    const std::size_t at = text.find(" " + name + "=");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 2;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  // Waits until a field has the value; false when that takes too long.
  bool wait_for(const std::string& job, const std::string& name, const std::string& value,
                double limit_seconds = 60) const {
    for (int i = 0; i < int(limit_seconds * 10); ++i) {
      if (field(job, name) == value) return true;
      sleep_ms(100);
    }
    return false;
  }
  // Waits for a state with all that can be told of a failure.
  void require_state(const std::string& job, const std::string& state, double limit_seconds = 60,
                     const std::string& output = "job.out") const {
    const bool came = wait_for(job, "JobState", state, limit_seconds);
    REQUIRE_MESSAGE(came, cat("job ", job, " is ", field(job, "JobState"), " (exit code ",
                              field(job, "ExitCode"), ", reason ", field(job, "Reason"), "), not ", state,
                              "\n", desk_.has(output) ? end_of(desk_.read(output)) : "(no output)"));
  }
  // SLURM holds a job that was queued again for two minutes; this ends that. Not before what is left of the job has
  // gone, whose last message would be taken for the new start's.
  void start_now(const std::string& job) const {
    require_state(job, "PENDING");
    for (int i = 0; i < 300 && !processes("slurmstepd").empty(); ++i) sleep_ms(100);
    // A start in the second in which the queue took the job back is refused: credentials of that second are revoked.
    sleep_ms(3000);
    // Asked again, as SLURM sets the two minutes when the job's last message comes, which may be after the first time.
    for (int i = 0; i < 60 && field(job, "JobState") == "PENDING"; ++i) {
      const Outcome o = run({"scontrol", "update", "jobid=" + job, "StartTime=now"});
      REQUIRE_MESSAGE((o.status == 0 || field(job, "JobState") != "PENDING"), o.err);
      sleep_ms(1000);
    }
  }

  // The node loses its power: SLURM's daemon there and all that runs on it, which shares its UTS namespace.
  void lose(const std::string& node) const {
    std::ifstream in(folder_.path() / "run" / cat("slurmd.", node, ".pid"));
    pid_t daemon = 0;
    REQUIRE(bool(in >> daemon));
    const auto here = [](pid_t process) {
      std::error_code gone;
      return fs::read_symlink(cat("/proc/", process, "/ns/uts"), gone);
    };
    const fs::path name_space = here(daemon);
    REQUIRE_FALSE(name_space.empty());
    std::vector<pid_t> all;
    for (const pid_t process : processes())
      if (here(process) == name_space) all.push_back(process);
    for (const int signal : {SIGSTOP, SIGKILL})  // none may tell of another's end
      for (const pid_t process : all) ::kill(process, signal);
  }

  // Living processes of this cluster, of daemons and of jobs, which all have its configuration in their environment.
  std::vector<pid_t> processes(const std::string& name = "") const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const int process = std::atoi(entry.path().filename().c_str());
      if (process <= 0 || process == ::getpid()) continue;
      if (!has_variable(entry, cat("SLURM_CONF=", configuration_path().string()))) continue;
      if (!starts_with(first_line(entry.path() / "comm"), name)) continue;
      found.push_back(process);
    }
    return found;
  }

  fs::path configuration_path() const { return folder_.path() / "slurm.conf"; }

 private:
  static void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  static std::string first_line(const fs::path& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
  }
  static bool has_variable(const fs::path& process, const std::string& variable) {
    std::ifstream in(process / "environ", std::ios::binary);
    for (std::string text; std::getline(in, text, '\0');)
      if (text == variable) return true;
    return false;
  }

  // What jobs find in their environment, beside what SLURM sets.
  std::map<std::string, std::string> environment() const {
    return {{"SLURM_CONF", configuration_path().string()},
            {"ZEROTRAIN", Desk::binary()},
            {"ZEROTRAIN_HOME", source_dir().string()},
            // One segment of a killed job would stay in /dev/shm.
            {"OMPI_MCA_btl_vader_backing_directory", (folder_.path() / "tmp").string()}};
  }

  // As many neighbouring ports as daemons, none of them in use.
  int free_ports() const {
    std::random_device random;
    for (;;) {
      const int first = 20000 + int(random() % 10000);
      bool free = true;
      for (int port = first; port <= first + nodes_ + 1; ++port) free = free && can_bind(port);
      if (free) return first;
    }
  }
  static bool can_bind(int port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(std::uint16_t(port));
    const bool free = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    return free;
  }

  std::string configuration(int first_port) const {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    const std::string d = folder_.path().string();
    const std::string nodes = nodes_ == 1 ? "n1" : cat("n[1-", nodes_, "]");
    const std::string ports =
        nodes_ == 1 ? cat(first_port + 2) : cat("[", first_port + 2, "-", first_port + 1 + nodes_, "]");
    return cat("ClusterName=zt\nSlurmctldHost=", host.data(),
               "(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n", "AuthType=auth/munge\nAuthInfo=socket=", d,
               "/run/munge.socket\nCredType=cred/munge\n", "SlurmctldPort=", first_port,
               "\nSlurmdPort=", first_port + 1, "\nStateSaveLocation=", d, "/state\nSlurmdSpoolDir=", d,
               "/spool/%n\nSlurmctldPidFile=", d, "/run/slurmctld.pid\nSlurmdPidFile=", d,
               "/run/slurmd.%n.pid\nSlurmctldLogFile=", d, "/log/slurmctld.log\nSlurmdLogFile=", d,
               "/log/slurmd.%n.log\n", kSettings, "TmpFS=", d, "/tmp/%n\nNodeName=", nodes,
               " NodeAddr=127.0.0.1 Port=", ports,
               " CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 "
               "State=UNKNOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
  }
  // Nodes pretend to have four cores. A node that does not answer is given up after five seconds.
  static constexpr const char* kSettings =
      "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
      "AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\n"
      "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n"
      "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2\nReturnToService=2\n"
      "MpiDefault=pmix\nSwitchType=switch/none\nKillWait=10\nMinJobAge=300\nSlurmctldTimeout=10\n"
      "SlurmdTimeout=5\nJobRequeue=1\nSlurmdParameters=config_overrides\n";

  void start() const {
    const std::string d = folder_.path().string(), conf = configuration_path().string();
    must({"munged", "--force", "--key-file=" + d + "/munge.key", "--socket=" + d + "/run/munge.socket",
          "--pid-file=" + d + "/run/munged.pid", "--log-file=" + d + "/log/munged.log",
          "--seed-file=" + d + "/run/munged.seed", "--num-threads=1"});
    must({"slurmctld", "-c", "-f", conf});
    for (int n = 1; n <= nodes_; ++n) {
      const std::string name = cat("n", n);
      fs::create_directories(folder_.path() / "tmp" / name);
      must({"unshare", "--uts", "sh", "-c",
            "hostname " + name + " && exec slurmd -c -f " + conf + " -N " + name});
    }
    for (int i = 0; i < 300; ++i) {
      if (trim(run({"sinfo", "-h", "-t", "idle", "-o", "%D"}).out) == std::to_string(nodes_)) return;
      sleep_ms(100);
    }
    FAIL("the nodes did not come up:\n", end_of(read_file(folder_.path() / "log/slurmctld.log")));
  }
  void must(const Words& words) const {
    const Outcome o = run(words, 20);
    if (o.status != 0) FAIL(join(words, " "), " ended with status ", o.status, "\n", o.err);
  }

  const Desk& desk_;
  int nodes_;
  ScratchDir folder_;
  mutable int commands_ = 0;
};

// Leaves a test case where no cluster can be, and says why.
#define ZT_NEEDS_SLURM()                                               \
  if (const std::string why = SlurmCluster::missing(); !why.empty()) { \
    std::puts(("skipped: " + why).c_str());                            \
    return;                                                            \
  }                                                                    \
  static_assert(true)

}  // namespace zt::test
