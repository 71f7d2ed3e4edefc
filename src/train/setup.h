// Everything a recipe stands for, opened and checked in the order in which people can mend it: tokenizer and
// model config, then data, then the plan. Nothing is written.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "data/open_data.h"
#include "exec/backend.h"
#include "recipe/recipe.h"
#include "text/tokenizer.h"
#include "train/model_source.h"

namespace zt::train {

// How many ranks there are, how many of them share this node's memory, and how many this process. Where each has a GPU
// of its own: how much is free there.
struct Ranks {
  int count = 1, on_this_node = 1, in_process = 1;
  std::optional<std::int64_t> gpu_bytes = {};
};

// Ranks::gpu_bytes of who computes there. What its communicator has claimed already is in every plan, so it counts as free.
std::optional<std::int64_t> free_gpu_bytes(exec::Backend& backend);

Dtype dtype_of(const recipe::Model& model);
// plan::step_shape, and what the kernels hold for themselves where the ranks or the recipe say they run.
plan::StepShape step_shape(const recipe::Recipe& recipe, bool training, const Ranks& ranks);
exec::EngineOptions engine_options(const recipe::Recipe& recipe, bool training, const Ranks& ranks);
// The same for so many processes on one node.
inline plan::StepShape step_shape(const recipe::Recipe& recipe, bool training, int ranks = 1) {
  return step_shape(recipe, training, {ranks, ranks, 1});
}
inline exec::EngineOptions engine_options(const recipe::Recipe& recipe, bool training, int ranks = 1) {
  return engine_options(recipe, training, {ranks, ranks, 1});
}

struct Setup {
  std::unique_ptr<text::Tokenizer> tokenizer;
  ModelSource source;
  std::unique_ptr<text::ChatTemplate> chat;   // of conversations; null where the recipe has none
  std::unique_ptr<text::ChatTemplate> plain;  // of prompts and completions; null where the recipe has none
  data::DataSets data;

  data::Rendering rendering() const { return {tokenizer.get(), chat.get(), plain.get(), source.spec.vocab}; }
};

// What the setup is for: only steps need memory.
enum class Use { training, evaluation, looking };

// All but the data. A plan that does not fit the memory is Error(machine).
Setup open_without_data(const recipe::Recipe& recipe, Use use, const Ranks& ranks = {});
// All of it, on one rank.
Setup open(const recipe::Recipe& recipe, Use use, const Ranks& ranks = {});
// All of it. Ranks share the tokenizing and wait for each other without a time limit. Throws the same error on every
// rank, also where they have opened different things. Nothing where `stops` ended the tokenizing of any rank: what
// is tokenized by then is kept. Collective.
std::optional<Setup> open_on_all(const recipe::Recipe& recipe, Use use, const Ranks& ranks,
                                 comm::Communicator& comm, const std::function<bool()>& stops = {});

// The recipe's model by its config alone: no weights and, where the config says vocab_size, no other file are
// opened.
spec::ModelSpec open_spec(const recipe::Recipe& recipe);

// Throws Error(machine) when the recipe's plan, with what processes hold beside it, needs more than `available` bytes
// (negative: unknown), which the ranks of this node share; or on GPUs more than each has. See plan/fit.h.
void require_fit(const recipe::Recipe& recipe, const spec::ModelSpec& model, bool training,
                 std::int64_t available, const Ranks& ranks = {});

// A row longer than the model's context is an error before anything runs (unless rotary scaling is named).
void check_context(const recipe::Recipe& recipe, const spec::ModelSpec& model);

// Samples in `epochs` passes over `rows` rows; 0 for a run that counts steps.
std::int64_t samples_in(const recipe::Train& train, std::int64_t rows);
// Optimizer steps of the run: max_steps, or as many as `epochs` passes over `rows` rows take, the last one
// perhaps short.
std::int64_t steps_of(const recipe::Train& train, std::int64_t rows);

}  // namespace zt::train
