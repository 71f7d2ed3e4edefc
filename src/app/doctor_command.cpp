// What this machine is, and what it can do.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <optional>

#include "app/commands.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "comm/threads.h"
#include "device/cores.h"
#include "measure/calibrate.h"
#include "measure/cgroup.h"
#include "measure/checkup.h"
#include "measure/rounds.h"

namespace zt::app {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeout = 600;
constexpr int kMostRanks = 1024;  // of one node
constexpr std::int64_t kDiskBytes = std::int64_t{256} << 20, kQuickDiskBytes = std::int64_t{8} << 20;

// Ranks of a world that share a machine have the same colour.
int color_of_host(comm::Communicator& world) {
  const auto mine = digest_of(measure::this_machine().host);
  std::vector<char> all(mine.size() * std::size_t(world.size()));
  world.exchange<char>(mine, all);
  for (int r = 0;; ++r)
    if (std::equal(mine.begin(), mine.end(), all.begin() + std::ptrdiff_t(mine.size()) * r)) return r;
}

// ---- the file

// The cluster file to add to: what is there, if it is of this machine.
plan::Cluster open_file(const fs::path& path, const std::string& host) {
  plan::Cluster fresh;
  fresh.name = host;
  if (!fs::exists(path)) return fresh;
  const std::string hint = "--to FILE names another";
  const std::string text = read_text_file(path, Blame::usage, 64 << 20);
  plan::Cluster there;
  try {
    there = plan::parse_cluster(text, path.string());
  } catch (const Error& e) {
    throw Error(Blame::usage,
                cat(path.string(), " exists and is not a cluster file; it is left alone\n", e.problem()),
                hint);
  }
  if (!there.calibrated)
    throw Error(Blame::usage, cat(path.string(), " was written by hand; it is left alone"), hint);
  if (there.name != host)
    throw Error(Blame::usage,
                cat(path.string(), " is of another machine, ", there.name, "; it is left alone"), hint);
  return there;
}

// Everything that can be wrong with the file is found before minutes are spent on measuring.
plan::Cluster begin(const DoctorArgs& args, const fs::path& path) {
  const measure::Machine machine = measure::this_machine();
  if (path.has_parent_path() && args.to.empty()) fs::create_directories(path.parent_path());
  plan::Cluster cluster = open_file(path, machine.host);
  const measure::DiskRates disk =
      measure::measure_disk(path.parent_path(), args.quick ? kQuickDiskBytes : kDiskBytes);
  cluster.disk_write = disk.write;
  cluster.disk_read = disk.read;
  cluster.host_memory = machine.memory;
  cluster.about = cat(machine.processor, ", ", machine.cores, machine.cores == 1 ? " core, " : " cores, ",
                      human_bytes(machine.memory));
  return cluster;
}

void finish(plan::Cluster& cluster, const fs::path& path) {
  cluster.calibrated = measure::utc_text(std::time(nullptr));
  write_file(path, plan::cluster_text(cluster));
}

// ---- measuring

measure::Options options_of(const DoctorArgs& args, int ranks, const std::string& transport, bool lead) {
  measure::Options o;
  o.quick = args.quick;
  if (args.float16) o.dtypes.push_back(recipe::ModelDtype::float16);
  if (!lead) return o;
  const std::string what = ranks == 1 ? "1 rank: " : cat(ranks, " ranks (", transport, "): ");
  o.say = [what, last = 0.0](const std::string& text) mutable {
    constexpr double kEvery = 5;  // seconds between lines
    if (measure::now() - last < kEvery) return;
    last = measure::now();
    log::info(what + text);
  };
  return o;
}

void measure_on(comm::Communicator& ranks, const DoctorArgs& args, plan::Cluster& cluster) {
  device::compute_with(device::threads_of_rank(ranks.size()));
  const bool lead = ranks.rank() == 0;
  const measure::Peaks peaks = measure::measure_peaks(ranks);
  plan::Node node = measure::measure_node(ranks, options_of(args, ranks.size(), ranks.transport(), lead));
  if (!lead) return;
  measure::put_node(cluster, std::move(node));
  if (cluster.nodes.front().ranks < ranks.size()) return;
  cluster.peak_float32 = peaks.float32;
  cluster.peak_bfloat16 = peaks.bfloat16;
  cluster.peak_float16 = peaks.float16;
}

std::vector<int> counts_of(const DoctorArgs& args) {
  std::vector<int> counts = args.ranks;
  if (counts.empty())
    for (int n = 1; n <= 2 * device::cores() && n <= kMostRanks; n *= 2) counts.push_back(n);
  std::ranges::sort(counts);
  const auto again = std::ranges::unique(counts);
  counts.erase(again.begin(), again.end());
  return counts;
}

void announce(const std::vector<int>& counts, bool quick, double busy) {
  constexpr double kQuiet = 0.15;  // cores
  if (busy > kQuiet)
    log::warn(
        fmt::format("other programs keep {:.1f} cores busy; times will be too long, and plans too", busy));
  std::vector<std::string> words;
  for (const int n : counts) words.push_back(cat(n));
  log::info(cat(
      "measuring this machine with ", join(words, ", "),
      counts == std::vector{1} ? " rank" : " ranks at a time",
      quick ? ""
            : cat("; this takes about ", counts.size() * 2, " minutes, and wants the machine for itself")));
}

// ---- what was measured

double best_rate(const plan::Node& node, plan::Kernel kernel, recipe::ModelDtype dtype) {
  double best = 0;
  for (const plan::Rate& r : node.rates)
    if (r.kernel == kernel && r.dtype == dtype) best = std::max(best, r.per_second);
  return best;
}

std::string table(const plan::Cluster& c) {
  using recipe::ModelDtype;
  std::string out =
      fmt::format("{}: {}\n{:>5} {:>7} {:>10} {:>10} {:>9} {:>12} {:>12} {:>15}\n", c.name, c.about, "ranks",
                  "threads", "float32", "bfloat16", "memory", "all_gather", "reduce", "while both work");
  out += fmt::format("{:>5} {:>7} {:>10} {:>10} {:>9} {:>12} {:>12} {:>15}\n", "", "", "GFLOP/s", "GFLOP/s",
                     "GB/s", "GB/s + us", "GB/s + us", "compute, moving");
  const auto link = [](const plan::Link& l) {
    return l.bandwidth > 0 ? fmt::format("{:.2f} + {:.0f}", l.bandwidth / 1e9, l.latency * 1e6)
                           : std::string("-");
  };
  for (const plan::Node& n : c.nodes)
    out += fmt::format("{:>5} {:>7} {:>10.1f} {:>10.1f} {:>9.2f} {:>12} {:>12} {:>15}\n", n.ranks, n.threads,
                       best_rate(n, plan::Kernel::product, ModelDtype::float32) / 1e9,
                       best_rate(n, plan::Kernel::product, ModelDtype::bfloat16) / 1e9,
                       n.memory_bandwidth / 1e9, link(n.gather), link(n.reduce),
                       n.ranks == 1 ? "-" : fmt::format("{:.2f}, {:.2f}", n.overlap_compute, n.overlap_comm));
  if (c.between.bandwidth > 0) out += cat("between nodes: ", link(c.between), "\n");
  out += fmt::format("files: {:.0f} MB/s written, {:.0f} MB/s read\n", c.disk_write / 1e6, c.disk_read / 1e6);
  return out;
}

int calibrate_alone(const DoctorArgs& args, const fs::path& path, double busy) {
  const std::vector<int> counts = counts_of(args);
  plan::Cluster cluster = begin(args, path);
  announce(counts, args.quick, busy);
  for (const int n : counts)
    comm::run_threads(n, kTimeout, [&](comm::Communicator& ranks) { measure_on(ranks, args, cluster); });
  finish(cluster, path);
  std::cout << table(cluster);
  log::info(cat("written to ", path.string()));
  return 0;
}

int calibrate_world(const DoctorArgs& args, const fs::path& path, double busy, comm::Communicator& world) {
  const bool lead = world.rank() == 0;
  const auto node = world.split(color_of_host(world));
  plan::Cluster cluster;
  comm::agree(world, comm::attempt([&] {
                if (lead) cluster = begin(args, path);
              }));
  if (lead) announce({node->size()}, args.quick, busy);
  measure_on(*node, args, cluster);
  const plan::Link between =
      measure::measure_between(world, *node, options_of(args, world.size(), "", false));
  if (between.bandwidth > 0) cluster.between = between;
  comm::agree(world, comm::attempt([&] {
                if (lead) finish(cluster, path);
              }));
  if (!lead) return 0;
  std::cout << table(cluster);
  log::info(cat("written to ", path.string()));
  return 0;
}

int calibrate_under_launcher(const DoctorArgs& args, const fs::path& path, double busy) {
  comm::MpiSession session;
  const auto world = session.world(kTimeout);
  if (!args.ranks.empty())
    throw Error(Blame::usage, cat("--ranks was given, but the launcher started ", world->size()),
                "leave --ranks out under mpirun or srun: what is started is measured");
  try {
    return calibrate_world(args, path, busy, *world);
  } catch (const comm::AgreedError& e) {
    if (world->rank() == 0) log::error(e.what());
    return exit_status(e.blame());
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const Error*>(&e);
    log::error(cat("rank ", world->rank(), ": ", e.what()));
    comm::MpiSession::abort(exit_status(error != nullptr ? error->blame() : Blame::bug));
  }
}

int calibrate(const DoctorArgs& args) {
  const fs::path path = args.to.empty() ? fs::path(plan::calibration_path()) : fs::path(args.to);
  if (fs::is_directory(path))
    throw Error(Blame::usage, cat(path.string(), " is a folder"),
                "--to names the file to write: --to cluster.yaml");
  // Before MPI starts, whose waiting ranks look busy too.
  const double busy = measure::busy_cores(0.5);
  return comm::launched() ? calibrate_under_launcher(args, path, busy) : calibrate_alone(args, path, busy);
}

// ---- the checkup

// Root is refused by Open MPI's mpirun without both variables.
bool root_is_refused(const std::string& mpi) {
  return ::geteuid() == 0 && mpi.starts_with("Open MPI") &&
         (std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr ||
          std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == nullptr);
}

int threads_of_environment() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  std::int64_t threads = 0;
  return text != nullptr && parse_int(text, &threads) && threads > 0 ? int(threads) : 0;
}

measure::Surroundings surroundings(std::optional<int> launched) {
  constexpr std::int64_t kTried = 16 << 20;
  constexpr double kPatience = 10;  // seconds
  measure::Surroundings s;
  s.machine = measure::this_machine();
  s.here = measure::disk_of(fs::current_path());
  s.mpi = measure::mpi_library();
  s.launched = launched;
  s.job_tasks = comm::tasks_of_job();
  s.mpirun = measure::in_path("mpirun");
  s.root_refused = !launched && root_is_refused(s.mpi);
  const measure::Group group = measure::this_group();
  s.node_cores = group.cores.empty() ? int(::sysconf(_SC_NPROCESSORS_ONLN)) : int(group.cores.size());
  s.threads = threads_of_environment();
  s.memory_limit = group.memory;
  s.swap = measure::this_swap();
  s.folder = measure::check_folder(fs::current_path(), kTried, kPatience);
  std::error_code none;
  if (const fs::path temporary = fs::temp_directory_path(none); !none) s.temporary_path = temporary.string();
  s.temporary = measure::disk_of(s.temporary_path);
  s.temporary_executes = measure::may_execute(s.temporary_path);
  s.limits = measure::this_limits();
  s.gpus = measure::find_gpus();
  s.now = std::time(nullptr);
  s.calibration_path = plan::calibration_path();
  if (!fs::exists(s.calibration_path)) return s;
  try {
    s.calibration =
        plan::parse_cluster(read_text_file(s.calibration_path, Blame::usage, 64 << 20), s.calibration_path);
  } catch (const Error& e) {
    s.calibration_fault = e.problem();
  }
  return s;
}

void print(const measure::Surroundings& s) { std::cout << measure::text(measure::checkup(s)); }

// Seconds between the earliest and the latest clock. Collective.
double clock_skew(comm::Communicator& world) {
  world.barrier();
  const double mine =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<double> all(std::size_t(world.size()), mine);
  if (world.size() > 1) world.exchange(std::span<const double>(&mine, 1), std::span<double>(all));
  const auto [earliest, latest] = std::ranges::minmax(all);
  return latest - earliest;
}

void check_up_ranks() {
  comm::MpiSession session;
  const auto world = session.world(kTimeout);
  const int here = session.ranks_on_this_node();
  const double skew = clock_skew(*world);
  if (world->rank() != 0) return;
  measure::Surroundings s = surroundings(here);
  s.clock_skew = skew;
  print(s);
}

// Whether this process speaks for those that a launcher has started without telling MPI.
bool speaks_for_all() {
  for (const char* variable : {"PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const rank = std::getenv(variable)) return std::string_view(rank) == "0";
  return true;
}

}  // namespace

int doctor(const DoctorArgs& args) {
  if (args.calibrate) return calibrate(args);
  if (!comm::launched()) {
    print(surroundings(std::nullopt));
    return 0;
  }
  try {
    check_up_ranks();
  } catch (const Error& e) {
    if (e.blame() != Blame::usage) throw;
    if (!speaks_for_all()) return 0;
    measure::Surroundings s = surroundings(1);
    s.launch_fault = e.problem();
    s.launch_cure = e.hint();
    print(s);
  }
  return 0;
}

}  // namespace zt::app
