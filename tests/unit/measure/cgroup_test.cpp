#include "measure/cgroup.h"

#include <doctest/doctest.h>

#include "support/paths.h"

namespace zt::measure {

TEST_CASE("cgroup: lists of cores are read and written, and nonsense is an empty list") {
  CHECK(numbers_of("0-3,8") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(numbers_of("5") == std::vector<int>{5});
  for (const char* nonsense : {"", "x", "3-1", "-1", "1-2-3", "0-99999999", "1,,2"}) {
    CAPTURE(nonsense);
    CHECK(numbers_of(nonsense).empty());
  }
  for (const char* list : {"0", "0-3", "0-3,8", "1,3,5-7"}) CHECK(list_of(numbers_of(list)) == list);
  CHECK(list_of({}).empty());
}

TEST_CASE("cgroup: of version 2 the cores of the innermost group and the smallest limit of memory count") {
  const test::ScratchDir root;
  root.write("proc/self/cgroup", "0::/slurm/job_7\n");
  root.write("sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  root.write("sys/fs/cgroup/slurm/cpuset.cpus.effective", "0-31\n");
  root.write("sys/fs/cgroup/slurm/job_7/cpuset.cpus.effective", "4-7\n");
  root.write("sys/fs/cgroup/slurm/memory.max", "1073741824\n");
  root.write("sys/fs/cgroup/slurm/job_7/memory.max", "max\n");
  const Group group = this_group(root.path());
  CHECK(group.cores == std::vector<int>{4, 5, 6, 7});
  CHECK(group.memory == 1073741824);
}

TEST_CASE("cgroup: version 1 has a hierarchy for each; a container's path may not be there") {
  const test::ScratchDir root;
  root.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuset:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  root.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  const Group group = this_group(root.path());
  CHECK(group.cores == std::vector<int>{0, 1});
  CHECK(group.memory == 2147483648);
  const test::ScratchDir nothing;
  CHECK(this_group(nothing.path()).cores.empty());
  CHECK(this_group(nothing.path()).memory == -1);
}

}  // namespace zt::measure
