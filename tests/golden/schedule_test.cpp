// Printed plans: a diff is the review. `ZEROTRAIN_UPDATE_GOLDEN=1 ctest -L golden` writes the files anew.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "support/paths.h"
#include "unit/schedule/lists.h"

namespace zt::schedule {
namespace {

std::map<std::string, Schedule> plans() {
  std::map<std::string, Schedule> all;
  for (bool tied : {false, true})
    for (int micros : {1, 2}) {
      const StepFacts f = test::gpt(4, micros, tied);
      const std::string suffix = cat("_m", micros, tied ? "_tied" : "_untied");
      for (const Policy& policy : {Policy{Recompute::none, 1}, Policy{Recompute::full, 1},
                                   Policy{Recompute::every, 2}, Policy{Recompute::sqrt, 1}}) {
        std::string word = name(policy);
        std::replace(word.begin(), word.end(), ' ', '_');
        all[cat("train_", word, suffix)] = plan_train(f, policy);
      }
      all[cat("eval", suffix)] = plan_eval(f);
    }
  const StepFacts f = test::gpt(2, 1, false);
  const auto add = [&](const std::string& what, const test::OverRanks& o) {
    all[what] = plan_train(o.facts, o.policy);
  };
  const Zero micro{.reduce = ReduceEvery::micro};
  add("zero0_step", test::over_ranks(f, 0));
  add("zero1_step", test::over_ranks(f, 1));
  add("zero1_bf16_gradients", test::over_ranks(f, 1, {.grads_apart = true}));
  add("zero2_micro", test::over_ranks(f, 2, {.zero = micro}));
  add("zero3_micro", test::over_ranks(f, 3, {.zero = micro}));
  add("zero3_micro_full_recompute_m2",
      test::over_ranks(test::gpt(2, 2, true), 3, {Recompute::full, 1, micro}));
  Zero kept = micro;
  kept.prefetch = 2;
  kept.keep_blocks = 1;
  add("zero3_micro_kept_block", test::over_ranks(test::gpt(3, 1, false), 3, {.zero = kept}));
  kept.reshard_after_forward = false;
  add("zero3_micro_never_resharded", test::over_ranks(f, 3, {.zero = kept}));
  add("zero3_frozen_b0_b1", test::over_ranks(test::with_frozen(f, 2), 3, {.zero = micro}));
  const test::OverRanks eval = test::over_ranks(f, 3);
  all["zero3_eval"] = plan_eval(eval.facts, eval.policy.zero);
  return all;
}

// The lines that differ, '-' as stored and '+' as planned now; enough to see what happened.
std::string differences(const std::string& stored, const std::string& now) {
  const auto a = split(stored, '\n'), b = split(now, '\n');
  std::string out;
  int shown = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) && shown < 20; ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    if (i < a.size()) out += cat("- ", a[i], "\n");
    if (i < b.size()) out += cat("+ ", b[i], "\n");
    ++shown;
  }
  return out;
}

TEST_CASE("golden: plans read as they were reviewed") {
  const char* update = std::getenv("ZEROTRAIN_UPDATE_GOLDEN");
  for (const auto& [what, plan] : plans()) {
    const auto path = zt::test::source_dir() / "tests/golden" / (what + ".plan");
    const std::string now = text(plan);
    if (update != nullptr && std::string(update) == "1") write_file(path, now);
    const std::string stored = std::filesystem::exists(path) ? zt::test::read_file(path) : "";
    CHECK_MESSAGE(stored == now, path.string(), " differs:\n", differences(stored, now),
                  "if this is intended: ZEROTRAIN_UPDATE_GOLDEN=1 ctest -L golden, and review the diff");
    CHECK(parse(stored) == plan);
  }
}

}  // namespace
}  // namespace zt::schedule
