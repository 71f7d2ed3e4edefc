// Nodes on one machine: network namespaces, each with a host name and one link to a common switch. All of it goes with
// the object; what a killed test has left goes when the next one starts.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fault/fault_desk.h"

namespace zt::test {

class Nodes {
 public:
  // Why there can be no nodes here; "" where there can be.
  static std::string missing() {
    if (::geteuid() != 0) return "network namespaces are made by root";
    for (const char* program : {"ip", "tc", "unshare", "mpirun"})
      if (std::system(cat("command -v ", program, " >/dev/null 2>&1").c_str()) != 0)
        return cat(program, " is missing (scripts/setup tests installs it)");
    if (std::system("ip netns add zt-probe >/dev/null 2>&1 && ip netns del zt-probe >/dev/null 2>&1") != 0)
      return "this system makes no network namespaces";
    return "";
  }

  Nodes(const FaultDesk& desk, int count) : desk_(desk), prefix_(cat("zt", ::getpid(), "-")), count_(count) {
    remove_left_ones();
    try {
      make();
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Nodes() { remove(); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  static std::string address(int node) { return cat("10.77.0.", node + 1); }

  // Starts the program on all nodes, `ranks` on each; mpirun runs on the first one and reaches the others as by ssh.
  pid_t begin(int ranks, const Words& sets) const {
    std::string hosts;
    for (int n = 0; n < count_; ++n) hosts += cat(n == 0 ? "" : ",", address(n), ":", ranks);
    std::string command =
        // By its name: a path would also be prefixed to the command on other nodes (mpirun's --prefix).
        cat(fs::path(Desk::launcher()).filename().string(), " --mca plm_rsh_agent ",
            (desk_.path() / "remote.sh").string(),
            " --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0",
            " --mca btl tcp,self,vader --mca btl_vader_backing_directory ", desk_.path().string(),
            " --mca orte_tmpdir_base ", desk_.path().string(), " --host ", hosts, " -n ", ranks * count_, " ",
            Desk::binary(), " --recipe recipe.yaml");
    for (const std::string& set : sets) command += cat(" --set '", set, "'");
    return desk_.start_command({"ip", "netns", "exec", name(0), "unshare", "-u", "bash", "-c",
                                cat("hostname ", address(0), "; exec ", command)});
  }
  Outcome train(int ranks, const Words& sets) const { return desk_.finish(begin(ranks, sets), 120); }

  // Limits what a node sends to so many megabits a second.
  void limit(int node, int megabits) const {
    run(cat("tc -n ", name(node), " qdisc replace dev eth0 root tbf rate ", megabits,
            "mbit burst 512kb latency 20ms"));
  }
  void cut(int node) const { run(cat("ip -n ", name(node), " link set eth0 down")); }
  void mend(int node) const { run(cat("ip -n ", name(node), " link set eth0 up")); }

  // Bytes that a node has sent in all.
  std::int64_t sent_bytes(int node) const {
    const std::string file = (desk_.path() / "sent").string();
    run(cat("ip netns exec ", name(node), " cat /sys/class/net/eth0/statistics/tx_bytes > ", file));
    return std::stoll(desk_.read("sent"));
  }

  // The process of a rank, 0 when there is none.
  pid_t process_of(int rank) const {
    for (const pid_t process : desk_.processes_here())
      if (FaultDesk::is_program(process) &&
          FaultDesk::has_variable(process, cat("OMPI_COMM_WORLD_RANK=", rank)))
        return process;
    return 0;
  }

 private:
  std::string name(int node) const { return cat(prefix_, "n", node); }
  std::string hub() const { return prefix_ + "hub"; }

  static void run(const std::string& command) {
    if (std::system(cat("{ ", command, " ; } 2>/dev/null").c_str()) != 0)
      throw std::runtime_error("this failed: " + command);
  }

  void make() const {
    run(cat("ip netns add ", hub(), " && ip -n ", hub(), " link add br0 type bridge && ip -n ", hub(),
            " link set br0 up"));
    for (int n = 0; n < count_; ++n) {
      const std::string here = name(n), port = cat("p", n);
      run(cat("ip netns add ", here, " && ip link add eth0 netns ", here, " type veth peer name ", port,
              " netns ", hub()));
      run(cat("ip -n ", here, " addr add ", address(n), "/24 dev eth0 && ip -n ", here,
              " link set lo up && ip -n ", here, " link set eth0 up"));
      run(cat("ip -n ", hub(), " link set ", port, " master br0 && ip -n ", hub(), " link set ", port,
              " up"));
    }
    // What ssh is to a cluster.
    desk_.write("remote.sh", cat("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1; shift\n",
                                 "exec ip netns exec ", prefix_, "n$((${host##*.} - 1)) unshare -u bash -c ",
                                 "\"hostname $host; exec $*\"\n"));
    fs::permissions(desk_.path() / "remote.sh", fs::perms::owner_all);
  }

  void remove() const { remove_with_prefix(prefix_); }
  static void remove_with_prefix(const std::string& prefix) {
    [[maybe_unused]] const int ignored = std::system(
        cat("for n in $(ip netns list | cut -d' ' -f1 | grep '^", prefix, "'); do ",
            "for p in $(ip netns pids $n); do kill -KILL $p; done; ip netns del $n; done >/dev/null 2>&1")
            .c_str());
  }
  static void remove_left_ones() {
    std::error_code ignored;
    for (fs::directory_iterator it("/run/netns", ignored), end; !ignored && it != end;
         it.increment(ignored)) {
      const std::string found = it->path().filename().string();
      if (!starts_with(found, "zt") || found.find('-') == std::string::npos) continue;
      const std::string owner = found.substr(2, found.find('-') - 2);
      if (!owner.empty() && !fs::exists("/proc/" + owner)) remove_with_prefix(cat("zt", owner, "-"));
    }
  }

  const FaultDesk& desk_;
  std::string prefix_;
  int count_;
};

#define ZT_NEEDS_NODES()                                        \
  if (const std::string why = Nodes::missing(); !why.empty()) { \
    MESSAGE("skipped: ", why);                                  \
    return;                                                     \
  }

}  // namespace zt::test
