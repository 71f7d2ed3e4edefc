#include "train/fit.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "recipe/words.h"
#include "train/setup.h"

namespace zt::train {
namespace {

// One way to need less: the changed recipe, and how a command line says the change.
struct Change {
  recipe::Recipe recipe;
  std::string words;
};

std::int64_t bytes_of(const recipe::Recipe& r, const spec::ModelSpec& model, bool training, int ranks) {
  plan::StepShape shape = step_shape(r, training, ranks);
  // Only the copies of the batch grow with the number of micro-batches, so two tell about all.
  const std::int64_t left_out = std::max<std::int64_t>(0, shape.micros - 2);
  shape.micros -= left_out;
  return plan::plan_step(model, shape).total() +
         (training ? left_out * plan::batch_bytes(shape.train_shape()) : 0);
}

// What the run can give up, from the cheapest: first what other ranks can hold, then nothing of a step's
// arithmetic, then time, then precision.
std::vector<Change> changes(const recipe::Recipe& from, bool training, int ranks) {
  std::vector<Change> list;
  const auto add = [&list](const Change& start, std::int64_t stage, std::int64_t rows,
                           recipe::Recompute recompute, recipe::ModelDtype dtype) {
    Change c = start;
    const auto say = [&c](const std::string& set) { c.words += cat(" --set ", set); };
    if (c.recipe.zero.stage != stage) say(cat("zero.stage=", stage));
    c.recipe.zero.stage = stage;
    if (c.recipe.memory.recompute != recompute) {
      say(cat("memory.recompute=", recipe::word_of(recompute.kind)));
      c.recipe.memory.recompute = recompute;
    }
    if (c.recipe.train.micro_batch_size != rows) say(cat("train.micro_batch_size=", rows));
    if (c.recipe.train.eval_batch_size > rows) say(cat("train.eval_batch_size=", rows));
    c.recipe.train.micro_batch_size = rows;
    c.recipe.train.eval_batch_size = std::min(c.recipe.train.eval_batch_size, rows);
    if (c.recipe.model.dtype != dtype) say("model.dtype=bfloat16");
    c.recipe.model.dtype = dtype;
    if (!c.words.empty()) list.push_back(std::move(c));
  };
  std::vector<std::int64_t> rows;  // every smaller size that divides the global batch, largest first
  for (std::int64_t r = training ? from.train.micro_batch_size : from.train.eval_batch_size; r >= 1; r /= 2)
    if (!training || from.train.global_batch_size % (r * ranks) == 0) rows.push_back(r);
  if (rows.empty() || rows.back() != 1) rows.push_back(1);
  std::vector<recipe::Recompute> recomputes = {from.memory.recompute};
  using Kind = recipe::Recompute::Kind;
  if (training) {  // those that come after the recipe's own, from the one that costs the least time
    const bool none = from.memory.recompute.kind == Kind::none;
    if (none) recomputes.push_back({Kind::selective, 0});
    // sqrt takes longer than full, and less memory only in models of very many blocks.
    for (const Kind kind : {Kind::full, Kind::sqrt})
      if (from.memory.recompute.kind != kind) recomputes.push_back({kind, 0});
  }
  std::vector<recipe::ModelDtype> dtypes = {from.model.dtype};
  if (from.model.dtype == recipe::ModelDtype::float32) dtypes.push_back(recipe::ModelDtype::bfloat16);
  for (const recipe::ModelDtype dtype : dtypes)
    for (const recipe::Recompute& recompute : recomputes)
      for (const std::int64_t r : rows)
        for (std::int64_t stage = from.zero.stage; stage <= (ranks > 1 ? 3 : from.zero.stage); ++stage)
          add({from, ""}, stage, r, recompute, dtype);
  return list;
}

std::string largest_entries(const plan::StepPlan& plan) {
  auto bill = plan.bill;
  std::ranges::stable_sort(bill, [](const auto& a, const auto& b) { return a.second > b.second; });
  bill.resize(std::min<std::size_t>(bill.size(), 4));
  std::vector<std::string> words;
  for (const auto& [purpose, bytes] : bill) words.push_back(cat(purpose, " ", human_bytes(bytes)));
  return join(words, ", ");
}

}  // namespace

void require_fit(const recipe::Recipe& r, const spec::ModelSpec& model, bool training, std::int64_t available,
                 const Ranks& ranks) {
  if (available >= 0) available /= ranks.on_this_node;
  const plan::StepPlan plan = plan::plan_step(model, step_shape(r, training, ranks.count));
  if (available < 0 || plan.total() <= available) return;
  const std::string problem =
      cat("not enough memory: the plan needs ", human_bytes(plan.total()), " (", largest_entries(plan), "), ",
          human_bytes(available), " are free", ranks.on_this_node > 1 ? " for each rank" : "");
  std::int64_t least = plan.total();
  for (const Change& change : changes(r, training, ranks.count)) {
    const std::int64_t bytes = bytes_of(change.recipe, model, training, ranks.count);
    if (bytes <= available)
      throw Error(Blame::machine, problem, cat("this needs ", human_bytes(bytes), ":", change.words));
    least = std::min(least, bytes);
  }
  throw Error(Blame::machine, problem,
              cat("no batch size, recomputation or number format is enough: the least is ",
                  human_bytes(least), "; take a smaller model, or a machine with more memory"));
}

}  // namespace zt::train
