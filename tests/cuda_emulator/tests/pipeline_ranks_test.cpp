// The pipeline on ranks that are processes of an MPI job.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <mpi.h>

#include <algorithm>

#include "pipeline.h"
#include "program.h"

namespace zt::emulator {
namespace {

struct Job {
  int rank = 0, ranks = 0;
  Job() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
};

double run(const Job& job, Bug bug) {
  ncclUniqueId id{};
  if (job.rank == 0) ZT_DONE(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  return run_pipeline(job.rank, job.ranks, id, bug);
}

// How many ranks have a finding of one of the kinds.
int ranks_that_found(const std::vector<Finding>& findings, const std::vector<std::string>& kinds) {
  int mine = 0;
  for (const Finding& f : findings)
    if (std::find(kinds.begin(), kinds.end(), f.kind) != kinds.end()) mine = 1;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

TEST_CASE("the correct pipeline is right and without findings on every rank") {
  const Job job;
  for (int seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    configure(std::uint64_t(seed + 100 * job.rank), Policy::random, Order::random);
    CHECK(run(job, Bug::none) < 0.05);
    check_none(take_findings());
  }
}

TEST_CASE("each of the eight bugs is reported, on the ranks that have it") {
  const Job job;
  for (const Bug bug : kBugs) {
    INFO(name(bug));
    configure(std::uint64_t(7 + job.rank), Policy::random, Order::random);
    run(job, bug);
    const std::vector<Finding> findings = take_findings();
    INFO(to_string(findings));
    CHECK_EQ(ranks_that_found(findings, kinds(bug)), job.ranks);
  }
}

}  // namespace
}  // namespace zt::emulator

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const int status = doctest::Context(count, arguments).run();
  MPI_Finalize();
  return status;
}
