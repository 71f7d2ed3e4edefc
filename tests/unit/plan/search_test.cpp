#include "plan/search.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/text.h"
#include "plan/recipe_shape.h"

namespace zt::plan {
namespace {

const char* const kRecipe = R"(model:
  config: {model_type: llama, hidden_size: 512, num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 8,
           intermediate_size: 1408, vocab_size: 2000, max_position_embeddings: 512}
  dtype: bfloat16
tokenizer: {type: byte}
data: {sequence_length: 256, train: [{path: a.txt}]}
train: {max_steps: 1, micro_batch_size: 1, global_batch_size: 64}
zero: {stage: 3, prefetch: 0}
)";
constexpr int kRanks = 8;

recipe::Recipe recipe_with(const std::vector<std::string>& sets = {}) {
  return recipe::parse(kRecipe, "r.yaml", sets, kRanks).recipe;
}

// Links so slow that settings matter.
Cluster cluster() {
  return parse_cluster(R"(name: slow links
backend: cuda
device_memory: 1000000000000
nodes:
  - ranks: 8
    memory_bandwidth: 1e12
    call_seconds: 1e-6
    gather: {bandwidth: 5e9, latency: 1e-5}
    reduce: {bandwidth: 5e9, latency: 1e-5}
    rates: [{kernel: product, dtype: bfloat16, per_second: 2e13}]
)",
                       "slow");
}

Room room_of(std::int64_t bytes) {
  return {bytes, [](const recipe::Recipe& r) { return step_shape(r, true, kRanks); },
          [](const StepPlan& plan) { return plan.total(); }};
}

double seconds_of(const recipe::Recipe& r, const spec::ModelSpec& model, const Cluster& c) {
  const StepShape shape = step_shape(r, true, kRanks);
  return step_time(model, shape, plan_step(model, shape), c).seconds;
}

std::vector<std::string> sets_of(const std::string& settings) {
  std::vector<std::string> sets;
  for (const std::string& word : split(settings, ' ')) {
    if (word == "--set" || word.empty()) continue;
    if (word.find('=') != std::string::npos)
      sets.push_back(word);
    else
      sets.back() += " " + word;
  }
  for (std::string& set : sets) std::erase(set, '\'');
  return sets;
}

TEST_CASE("what is found fits, is faster, and is what its settings say") {
  const recipe::Recipe own = recipe_with();
  const spec::ModelSpec model = spec::from_config(own.model.config, "config");
  const Search s = search(own, model, cluster(), room_of(400'000'000));
  REQUIRE(!s.best.empty());
  CHECK(s.tried > 60);
  int misfits = 0;
  for (const Misfit& m : s.misfits) {
    misfits += m.count;
    CHECK(m.least > 400'000'000);
    CHECK(m.filled_by.find("iB") != std::string::npos);
  }
  CHECK(misfits + s.fitted == s.tried);
  CHECK(misfits > 0);
  CHECK(s.best.front().seconds < 0.95 * seconds_of(own, model, cluster()));
  for (std::size_t i = 0; i < s.best.size(); ++i) {
    const Candidate& c = s.best[i];
    CAPTURE(c.settings);
    const recipe::Recipe typed = recipe_with(sets_of(c.settings));
    CHECK(step_shape(typed, true, kRanks).policy.zero.reduce ==
          step_shape(c.recipe, true, kRanks).policy.zero.reduce);
    // The typed command gives the planned bytes and time, all micro-batches counted.
    const StepPlan plan = plan_step(model, step_shape(typed, true, kRanks));
    CHECK(plan.total() == c.bytes);
    CHECK(seconds_of(typed, model, cluster()) == doctest::Approx(c.seconds).epsilon(0.005));
    CHECK(c.bytes <= 400'000'000);
    if (i > 0) CHECK(c.seconds >= s.best[i - 1].seconds);
  }
}

TEST_CASE("no setting of the whole space is more than 2 % faster than the best found") {
  const recipe::Recipe own = recipe_with();
  const spec::ModelSpec model = spec::from_config(own.model.config, "config");
  constexpr std::int64_t kRoom = 400'000'000;
  const Search s = search(own, model, cluster(), room_of(kRoom));
  double least = 1e30;
  std::string best;
  for (const char* stage : {"0", "1", "2", "3"})
    for (const char* rows : {"1", "2", "4", "8"})
      for (const char* recompute : {"none", "selective", "full", "{every: 2}"})
        for (const char* reduce : {"micro", "step"})
          for (const char* prefetch : {"0", "1", "2", "4"})
            for (const char* kept : {"0", "4"}) {
              if (stage[0] != '3' && (prefetch[0] != '1' || kept[0] != '0')) continue;
              const std::vector<std::string> sets = {
                  cat("zero.stage=", stage),           cat("train.micro_batch_size=", rows),
                  cat("memory.recompute=", recompute), cat("zero.reduce=", reduce),
                  cat("zero.prefetch=", prefetch),     cat("zero.keep_blocks=", kept)};
              const recipe::Recipe r = recipe_with(sets);
              const StepShape shape = step_shape(r, true, kRanks);
              const StepPlan plan = plan_step(model, shape);
              if (plan.total() > kRoom) continue;
              const double seconds = step_time(model, shape, plan, cluster()).seconds;
              if (seconds < least) least = seconds, best = join(sets, " ");
            }
  CAPTURE(best);
  CHECK(s.best.front().seconds <= 1.02 * least);
}

TEST_CASE("single changes are single, help by a hundredth or more, and come best first") {
  const recipe::Recipe own = recipe_with();
  const spec::ModelSpec model = spec::from_config(own.model.config, "config");
  const double seconds = seconds_of(own, model, cluster());
  const std::vector<Candidate> changes = best_changes(own, model, cluster(), room_of(-1), seconds);
  REQUIRE(!changes.empty());
  double before = 0;
  for (const Candidate& c : changes) {
    CHECK(sets_of(c.settings).size() == 1);
    CHECK(c.seconds <= 0.99 * seconds);
    CHECK(c.seconds >= before);
    before = c.seconds;
  }
}

TEST_CASE("where nothing fits the search says so, with the least of each kind") {
  const recipe::Recipe own = recipe_with();
  const spec::ModelSpec model = spec::from_config(own.model.config, "config");
  const Search s = search(own, model, cluster(), room_of(1'000'000));
  CHECK(s.best.empty());
  CHECK(s.fitted == 0);
  const std::string all = text(s, 1.0);
  CHECK(all.find("search: 0 of ") == 0);
  CHECK(all.find("stage 3, micro-batch 1") != std::string::npos);
}

}  // namespace
}  // namespace zt::plan
