#include "train/time_limit.h"

#include <doctest/doctest.h>

namespace zt::train {
namespace {

using Kind = recipe::TimeLimit::Kind;

TEST_CASE("time limit: the recipe's seconds count from the start, auto is the batch system's end") {
  Job job;
  CHECK_FALSE(deadline_of({Kind::automatic, 0}, job, 1000));
  CHECK_FALSE(deadline_of({Kind::none, 0}, job, 1000));
  CHECK(deadline_of({Kind::seconds, 90}, job, 1000)->at == 1090);
  job.end_time = 5000;  // ZEROTRAIN_END_TIME outside of a job
  CHECK(deadline_of({Kind::automatic, 0}, job, 1000)->at == 5000);
  CHECK(deadline_of({Kind::automatic, 0}, job, 1000)->what == "ZEROTRAIN_END_TIME");
  job.scheduler = "slurm";
  job.id = "17";
  CHECK(deadline_of({Kind::automatic, 0}, job, 1000)->what == "the time limit of slurm job 17");
  CHECK_FALSE(deadline_of({Kind::none, 0}, job, 1000));
  CHECK(deadline_of({Kind::seconds, 90}, job, 1000)->at == 1090);
}

TEST_CASE("time limit: a run stops while another step, a slow save and leaving still fit before the end") {
  TimeLimit limit({1000, "x"}, 20);
  CHECK(limit.reserve() == doctest::Approx(30 + 5));  // expected: 1.5 x 20 s, and 5 s to leave
  CHECK_FALSE(limit.due(964));
  CHECK(limit.due(966));
  limit.round_took(10);
  limit.round_took(7);
  CHECK(limit.reserve() == doctest::Approx(10 + 30 + 5));
  limit.save_took(4);  // measured: what was expected counts no more
  CHECK(limit.reserve() == doctest::Approx(10 + 6 + 5));
  limit.save_took(8);
  limit.save_took(2);
  CHECK(limit.reserve() == doctest::Approx(10 + 12 + 5));
  CHECK(limit.due(1000));
  CHECK(limit.due(2000));
}

}  // namespace
}  // namespace zt::train
