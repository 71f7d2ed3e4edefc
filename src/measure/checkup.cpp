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

Finding cores(const Surroundings& s) {
  const int ranks = s.launched.value_or(1), cores = s.machine.cores;
  Finding f{"cores", cat(cores), ""};
  if (ranks == 1) return f;
  f.what += cat(", for ", ranks, " ranks of this node");
  if (ranks > cores)
    f.cure = cat("ranks that share a core wait for each other; start at most ", cores,
                 " on this node, or bind fewer cores to each");
  return f;
}

Finding memory(const Machine& m) {
  Finding f{"memory", human_bytes(m.memory), ""};
  if (m.available < 0) return f;
  f.what += cat(", ", human_bytes(m.available), " free");
  if (m.available < kLittleMemory) f.cure = "little is free; end other programs";
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

Finding disk(const Disk& d) {
  Finding f{"disk", cat(d.kind, ", ", human_bytes(d.free), " of ", human_bytes(d.bytes), " free"), ""};
  if (d.kind == "tmpfs")
    f.cure = "files here lie in memory; train in a folder on a disk";
  else if (d.free < kLittleDisk)
    f.cure = "checkpoints of one run may not fit; free space, or train elsewhere (run.output_dir)";
  return f;
}

Finding launcher(const Surroundings& s) {
  if (!s.launched) return {"launcher", "none; mpirun -n N or srun starts N ranks", ""};
  return {"launcher", cat("started ", *s.launched, *s.launched == 1 ? " rank" : " ranks", " on this node"),
          ""};
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
  return {{"processor", processor.empty() ? "unknown" : processor, ""},
          cores(s),
          memory(s.machine),
          {"MPI", s.mpi, ""},
          launcher(s),
          shared_memory(s),
          disk(s.here),
          calibration(s)};
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
