#include "plan/fit.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "recipe/words.h"

namespace zt::plan {
namespace {

// One way to need less: the changed recipe, and how a command line says the change.
struct Change {
  recipe::Recipe recipe;
  std::string words;
};

// The least of a recipe's bytes in this room.
std::int64_t needed(const recipe::Recipe& r, const spec::ModelSpec& model, const Room& room) {
  StepShape shape = room.shape_of(r);
  // Only the copies of the batch grow with the number of micro-batches, so two tell about all.
  const std::int64_t left_out = shape.training ? std::max<std::int64_t>(0, shape.micros - 2) : 0;
  shape.micros -= left_out;
  return room.needs(plan_step(model, shape)) +
         left_out * (shape.gpu ? 1 : shape.process.ranks) * batch_bytes(shape.train_shape());
}

// What the run can give up, from the cheapest.
std::vector<Change> changes(const recipe::Recipe& from, bool training, int ranks) {
  std::vector<Change> list;
  const auto add = [&list](const Change& start, std::int64_t stage, std::int64_t rows,
                           recipe::Recompute recompute, recipe::ModelDtype dtype, bool async) {
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
    if (c.recipe.checkpoint.async != async) say("checkpoint.async=false");
    c.recipe.checkpoint.async = async;
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
  // Checkpoints written between steps instead of beside them need no copy of the state.
  std::vector<bool> asyncs = {from.checkpoint.async};
  if (training && from.checkpoint.every_steps && from.checkpoint.async) asyncs.push_back(false);
  for (const recipe::ModelDtype dtype : dtypes)
    for (const recipe::Recompute& recompute : recomputes)
      for (const std::int64_t r : rows)
        for (const bool async : asyncs)
          for (std::int64_t stage = from.zero.stage; stage <= (ranks > 1 ? 3 : from.zero.stage); ++stage)
            add({from, ""}, stage, r, recompute, dtype, async);
  return list;
}

}  // namespace

NearestFit nearest_fit(const recipe::Recipe& r, const spec::ModelSpec& model, const Room& room) {
  const StepShape shape = room.shape_of(r);
  NearestFit nearest{"", needed(r, model, room)};
  for (const Change& change : changes(r, shape.training, shape.partition.ranks)) {
    const std::int64_t bytes = needed(change.recipe, model, room);
    if (bytes <= room.bytes) return {change.words, bytes};
    nearest.bytes = std::min(nearest.bytes, bytes);
  }
  return nearest;
}

void require_fit(const recipe::Recipe& r, const spec::ModelSpec& model, const Room& room,
                 const std::string& of_whom) {
  const StepPlan plan = plan_step(model, room.shape_of(r));
  const std::int64_t needs = room.needs(plan);
  if (room.bytes < 0 || needs <= room.bytes) return;
  const std::string problem =
      cat("not enough memory: the plan needs ", human_bytes(needs), " (", largest_rows(plan.bill, 4), "), ",
          human_bytes(room.bytes), " are free", of_whom);
  const NearestFit nearest = nearest_fit(r, model, room);
  const std::string bytes = human_bytes(nearest.bytes);
  throw Error(Blame::machine, problem,
              nearest.settings.empty()
                  ? cat("no batch size, recomputation or number format is enough: the least is ", bytes,
                        "; take a smaller model, or a machine with more memory")
                  : cat("this needs ", bytes, ":", nearest.settings));
}

}  // namespace zt::plan
