// Commands about a recipe: checking it, its keys, evaluating a model on its data.
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "base/log.h"
#include "base/text.h"
#include "exec/backend.h"
#include "recipe/recipe.h"
#include "train/evaluate.h"
#include "train/setup.h"

namespace zt::app {

using Json = nlohmann::ordered_json;

static recipe::Loaded load(const RecipeArgs& args, int ranks = 1) {
  return recipe::load(args.path, args.sets, ranks);
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
  const exec::LoneBackend backend(r.run.device);
  const train::Ranks alone{.gpu_bytes = train::free_gpu_bytes(*backend)};
  const train::Setup s = train::open(r, train::Use::evaluation, alone);
  exec::Engine engine(s.source.spec, exec::on(*backend, train::engine_options(r, false, alone)),
                      &backend->comm());
  train::load_weights(s.source, engine.params(), 0);
  const train::Evaluation e = train::evaluate(engine, *s.data.validation, r.train.eval_batch_size);
  std::cout << Json{{"eval_loss", e.loss()}, {"eval_tokens", e.tokens}}.dump() << "\n";
  return 0;
}

}  // namespace zt::app
