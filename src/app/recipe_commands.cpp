// Commands about a recipe: training, its plan, its data.
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "recipe/recipe.h"
#include "spec/freeze.h"
#include "train/evaluate.h"
#include "train/setup.h"

namespace zt::app {

using Json = nlohmann::ordered_json;

static recipe::Loaded load(const RecipeArgs& args, int ranks = 1) {
  return recipe::load(args.path, args.sets, ranks);
}

static plan::StepPlan plan_of(const RecipeArgs& args, int ranks) {
  const recipe::Loaded loaded = load(args, ranks);
  spec::ModelSpec model = train::open_spec(loaded.recipe);
  spec::freeze(model, loaded.recipe.train.freeze);
  train::check_context(loaded.recipe, model);
  plan::StepShape shape = train::step_shape(loaded.recipe, true, ranks);
  shape.comm_bytes = comm::buffer_bytes_on_one_node(ranks);
  return plan::plan_step(model, shape);
}

int plan(const RecipeArgs& args, int ranks, bool json) {
  const plan::StepPlan p = plan_of(args, ranks);
  if (!json) {
    std::cout << plan::text(p);
    return 0;
  }
  Json out;
  for (const plan::BillRow& row : p.bill) out["bytes"][row.id] = row.bytes;
  out["total_bytes"] = p.total();
  out["traffic"] = {{"all_gather", p.traffic.all_gather},
                    {"reduce_scatter", p.traffic.reduce_scatter},
                    {"all_reduce", p.traffic.all_reduce}};
  out["paper_traffic"] = p.paper_traffic;
  out["train_ops"] = p.train.ops.size();
  out["train_fingerprint"] = fingerprint(p.train);
  std::cout << out.dump(2) << "\n";
  return 0;
}

int explain(const RecipeArgs& args, int ranks) {
  const plan::StepPlan p = plan_of(args, ranks);
  std::cout << schedule::text(p.train) << "\n" << plan::text(p);
  return 0;
}

int check(const RecipeArgs& args) {
  std::cout << recipe::resolved_text(load(args));
  return 0;
}

int keys(const std::string& section) {
  std::cout << recipe::keys_text(section);
  return 0;
}

int schema() {
  std::cout << recipe::schema().dump(2) << "\n";
  return 0;
}

int manual() {
  std::cout << recipe::manual_markdown();
  return 0;
}

int evaluate(const std::string& model, RecipeArgs args) {
  recipe::Recipe r = load(args).recipe;
  if (r.data.validation.absent())
    throw Error(Blame::usage, "the recipe has no data.validation to evaluate on",
                "add --set data.validation.fraction=0.1");
  r.model.base = model;
  r.model.config = nullptr;
  r.tokenizer = {std::nullopt, train::tokenizer_folder(model).string()};
  const train::Setup s = train::open(r, train::Use::evaluation);
  exec::Engine engine(s.source.spec, train::engine_options(r, false));
  train::load_weights(s.source, engine.params(), 0);
  const train::Evaluation e = train::evaluate(engine, *s.data.validation, r.train.eval_batch_size);
  std::cout << Json{{"eval_loss", e.loss()}, {"eval_tokens", e.tokens}}.dump() << "\n";
  return 0;
}

}  // namespace zt::app
