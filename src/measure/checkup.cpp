#include "measure/checkup.h"

#include <algorithm>

#include "base/text.h"
#include "comm/mpi.h"

namespace zt::measure {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kOldDays = 90;                         // by then a machine may have changed
constexpr std::int64_t kLittleDisk = std::int64_t{10} << 30;  // one checkpoint of GPT-2 124M takes 1.5 GB
constexpr std::int64_t kLittleMemory = std::int64_t{2} << 30;
constexpr std::int64_t kMuchSwap = std::int64_t{1} << 30;
constexpr std::int64_t kLittleTemporary = std::int64_t{64} << 20;
constexpr std::int64_t kFewFiles = 1024;  // what Linux gives by itself is enough
constexpr double kSlowDisk = 30e6;        // bytes per second
constexpr double kSkew = 2;               // seconds

Finding cores(const Surroundings& s) {
  const int ranks = s.launched.value_or(1), cores = s.machine.cores;
  const bool bound = s.node_cores > cores;
  Finding f{"cores", cat(cores), ""};
  if (bound) f.what += cat(" of ", s.node_cores, " (bound)");
  if (ranks > 1) f.what += cat(", for ", ranks, " ranks of this node");
  if (s.threads > 0) f.what += cat("; OMP_NUM_THREADS=", s.threads);
  if (s.threads > cores)
    f.cure = cat(
        s.threads, " threads take turns on ", cores, cores == 1 ? " core" : " cores",
        "; unset OMP_NUM_THREADS, or give a rank more cores: mpirun --bind-to none, srun --cpus-per-task");
  else if (bound && s.launched)
    f.cure = cat("the launcher ties this rank to ", cores, cores == 1 ? " core" : " cores",
                 "; mpirun --bind-to none or --map-by slot:PE=C, srun --cpus-per-task=C give it more");
  else if (bound)
    f.cure = "taskset or a parent process has tied this shell to some cores; start zerotrain from another";
  else if (ranks > cores)
    f.cure = cat("ranks that share a core wait for each other; start at most ", cores,
                 " on this node, or bind fewer cores to each");
  return f;
}

Finding memory(const Surroundings& s) {
  const Machine& m = s.machine;
  Finding f{"memory", human_bytes(m.memory), ""};
  if (m.available >= 0) f.what += cat(", ", human_bytes(m.available), " free");
  if (s.memory_limit >= 0 && s.memory_limit < m.memory) {
    f.what += cat(", ", human_bytes(s.memory_limit), " for this job or container");
    if (s.memory_limit < kLittleMemory)
      f.cure = "the system ends what uses more; ask for more: sbatch --mem, docker run --memory";
  }
  if (m.available >= 0 && m.available < kLittleMemory) f.cure = "little is free; end other programs";
  return f;
}

Finding swap(const Swap& s) {
  if (s.size == 0) return {"swap", "none", ""};
  Finding f{"swap", cat(human_bytes(s.used), " of ", human_bytes(s.size), " in use"), ""};
  if (s.used > kMuchSwap)
    f.cure = "steps that wait for swapped memory take many times as long; end other programs";
  return f;
}

// MPI ranks of a node hand each other data through files in /dev/shm.
Finding shared_memory(const Surroundings& s) {
  const Machine& m = s.machine;
  Finding f{"/dev/shm", "absent", ""};
  const int ranks = s.launched.value_or(std::max(2, m.cores));
  const std::int64_t wanted = ranks * comm::buffer_bytes_on_one_node(ranks);
  const std::string larger =
      "mount -o remount,size=1G /dev/shm makes it larger; for a container, docker run --shm-size=1g";
  if (m.shared < 0) {
    f.cure = "ranks of one node will send messages, which is slower; mount a tmpfs there";
    return f;
  }
  f.what = cat(human_bytes(m.shared), ", ", human_bytes(m.shared_free), " free");
  if (m.shared_free < wanted)
    f.cure = cat(ranks, " ranks want ", human_bytes(wanted),
                 " there, else they send messages, which is slower; ", larger);
  return f;
}

bool is_network(const std::string& kind) {
  constexpr const char* kNetwork[] = {"nfs", "cifs", "smb2", "lustre", "gpfs", "ceph", "beegfs"};
  return std::ranges::any_of(kNetwork, [&](const char* name) { return kind == name; });
}

Finding disk(const Surroundings& s) {
  const Disk& d = s.here;
  Finding f{"disk",
            cat(d.kind, is_network(d.kind) ? " (network)" : "", ", ", human_bytes(d.free), " of ",
                human_bytes(d.bytes), " free"),
            ""};
  if (s.folder.write > 0) f.what += fmt::format(", {:.0f} MB/s written", s.folder.write / 1e6);
  if (!s.folder.answers) {
    f.cure = "a small file was not written within seconds; the file system hangs, ask who runs it";
  } else if (!s.folder.fault.empty()) {
    f.what += cat(", no file can be written: ", s.folder.fault);
    f.cure = "train in a folder of your own (run.output_dir)";
  } else if (d.kind == "tmpfs") {
    f.cure = "files here lie in memory; train in a folder on a disk";
  } else if (d.free < kLittleDisk) {
    f.cure = "checkpoints of one run may not fit; free space, or train elsewhere (run.output_dir)";
  } else if (s.folder.write > 0 && s.folder.write < kSlowDisk) {
    f.cure = fmt::format(
        "a checkpoint of GPT-2 124M (1.5 GB) takes {:.0f} s here; train on a faster disk (run.output_dir)",
        1.5e9 / s.folder.write);
  }
  return f;
}

Finding locks(const Surroundings& s) {
  if (!s.folder.answers || !s.folder.fault.empty()) return {"locks", "not tried", ""};
  if (s.folder.lock_fault.empty()) return {"locks", "work in this folder", ""};
  return {"locks", cat("do not work in this folder: ", s.folder.lock_fault),
          "two runs could write the same folder; mount with locks (Lustre: option flock; NFS: without "
          "nolock), or "
          "train elsewhere (run.output_dir)"};
}

// Launchers keep sockets and files of a run in the folder for temporary files.
Finding temporary(const Surroundings& s) {
  const Disk& d = s.temporary;
  Finding f{s.temporary_path, cat(d.kind, ", ", human_bytes(d.free), " free"), ""};
  if (!s.temporary_executes) f.what += ", noexec";
  if (d.free < kLittleTemporary)
    f.cure = cat("mpirun keeps files of its own there and fails without space; free some, or set TMPDIR");
  return f;
}

Finding limits(const Limits& l) {
  const auto told = [](std::int64_t n) { return n < 0 ? std::string("unlimited") : with_commas(n); };
  const auto bytes = [](std::int64_t n) { return n < 0 ? std::string("unlimited") : human_bytes(n); };
  Finding f{"limits",
            cat(told(l.open_files), " open files, ", bytes(l.locked_memory), " locked memory, core files ",
                l.core_file == 0 ? "off" : bytes(l.core_file)),
            ""};
  if (l.open_files >= 0 && l.open_files < kFewFiles)
    f.cure = "ranks keep a connection to each other and files open; ulimit -n 4096";
  return f;
}

Finding gpus(const Gpus& g) {
  Finding f{"GPU", "none; this version computes on CPUs", ""};
  if (g.count > 0) {
    f.what = cat(g.count, " by CUDA; this version computes on CPUs");
  } else if (g.library) {
    f.what = cat("CUDA's library is there, but ", g.files ? "its driver gives no device" : "no driver");
    f.cure =
        "`nvidia-smi` must list devices: load the nvidia module; in a container, docker run --gpus all; in a "
        "job, "
        "sbatch --gpus-per-task. For training on CPUs nothing is to be done";
  }
  return f;
}

Finding launcher(const Surroundings& s) {
  if (!s.launch_fault.empty()) return {"launcher", s.launch_fault, s.launch_cure};
  if (s.launched)
    return {"launcher", cat("started ", *s.launched, *s.launched == 1 ? " rank" : " ranks", " on this node"),
            ""};
  if (s.job_tasks > 1)
    return {
        "launcher", cat("none, in a job of ", s.job_tasks, " tasks"),
        "a run started like this is alone: `srun --mpi=pmix zerotrain ...` or `mpirun zerotrain ...`, see "
        "scripts/slurm/train.sbatch"};
  if (!s.mpirun)
    return {"launcher", "none, and no mpirun in PATH",
            "install Open MPI's (Debian: openmpi-bin), or load its module; --ranks N starts virtual ranks "
            "without"};
  return {"launcher", "none; mpirun -n N or srun --mpi=pmix starts N ranks", ""};
}

Finding user(const Surroundings& s) {
  if (!s.root_refused) return {"user", "may start ranks", ""};
  return {
      "user", "root, whom mpirun refuses",
      "be another user, or in a container: export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
}

Finding clocks(const Surroundings& s) {
  Finding f{"clocks", fmt::format("{:.1f} s apart among ranks", s.clock_skew), ""};
  if (s.clock_skew > kSkew)
    f.cure = "time limits and the order of log lines go wrong; run chronyd or ntpd on every node";
  return f;
}

std::string ranks_text(const plan::Cluster& c) {
  std::vector<std::string> counts;
  for (const plan::Node& node : c.nodes) counts.push_back(cat(node.ranks));
  return join(counts, ", ") + (counts == std::vector<std::string>{"1"} ? " rank" : " ranks");
}

Finding calibration(const Surroundings& s) {
  const std::string measure =
      "zerotrain doctor --calibrate measures this machine, so that plans know their times";
  if (!s.calibration_fault.empty()) return {"calibration", s.calibration_fault, measure};
  if (!s.calibration) return {"calibration", cat("none in ", s.calibration_path), measure};
  Finding f{"calibration", cat(s.calibration_path, ": ", ranks_text(*s.calibration)), ""};
  const std::int64_t then = seconds_of_utc(s.calibration->calibrated.value_or(""));
  if (then < 0) return f;
  f.what += ", " + age_text(*s.calibration, s.now);
  if (s.now - then > kOldDays * kDay) f.cure = "measure again: zerotrain doctor --calibrate";
  return f;
}

}  // namespace

std::string age_text(const plan::Cluster& cluster, std::int64_t now) {
  const std::int64_t then = seconds_of_utc(cluster.calibrated.value_or(""));
  if (then < 0) return "";
  if (then > now + 60) return "dated in the future";
  const std::int64_t seconds = std::max<std::int64_t>(0, now - then);
  const auto told = [](std::int64_t n, const char* unit) {
    return cat(n, " ", unit, n == 1 ? "" : "s", " old");
  };
  if (seconds >= 2 * kDay) return told(seconds / kDay, "day");
  if (seconds >= 7200) return told(seconds / 3600, "hour");
  return told(seconds / 60, "minute");
}

std::vector<Finding> checkup(const Surroundings& s) {
  const std::string& processor = s.machine.processor;
  std::vector<Finding> all = {{"processor", processor.empty() ? "unknown" : processor, ""},
                              cores(s),
                              memory(s),
                              swap(s.swap),
                              gpus(s.gpus),
                              {"MPI", s.mpi, ""},
                              launcher(s),
                              user(s),
                              shared_memory(s),
                              disk(s),
                              locks(s),
                              temporary(s),
                              limits(s.limits)};
  if (s.launched) all.push_back(clocks(s));
  all.push_back(calibration(s));
  return all;
}

std::string text(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) {
    out += fmt::format("{:<12} {}\n", f.subject, f.what);
    if (!f.cure.empty()) out += fmt::format("{:<12}   -> {}\n", "", f.cure);
  }
  return out;
}

}  // namespace zt::measure
