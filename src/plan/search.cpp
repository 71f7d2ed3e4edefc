#include "plan/search.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"
#include "recipe/words.h"

namespace zt::plan {
namespace {

using recipe::Recipe;
using Kind = recipe::Recompute::Kind;

std::string recompute_text(const recipe::Recompute& r) {
  return r.kind == Kind::every ? cat("{every: ", r.every, "}") : recipe::word_of(r.kind);
}

// Evaluation's rows follow the micro-batch where they are as many, as in recipes that don't give them.
void set_rows(Recipe* recipe, std::int64_t rows) {
  if (recipe->train.eval_batch_size == recipe->train.micro_batch_size) recipe->train.eval_batch_size = rows;
  recipe->train.micro_batch_size = rows;
}

// What `auto` stands for.
recipe::Reduce effective(recipe::Reduce reduce, std::int64_t stage) {
  if (reduce != recipe::Reduce::automatic) return reduce;
  return stage >= 2 ? recipe::Reduce::micro : recipe::Reduce::step;
}

// How a command line makes `to` of `from`.
std::string settings_text(const Recipe& from, const Recipe& to) {
  std::vector<std::string> sets;
  const auto set = [&](const char* key, const auto& old_value, const auto& value, const std::string& shown) {
    if (!(old_value == value)) sets.push_back(cat("--set ", key, "=", shown));
  };
  set("zero.stage", from.zero.stage, to.zero.stage, cat(to.zero.stage));
  set("train.micro_batch_size", from.train.micro_batch_size, to.train.micro_batch_size,
      cat(to.train.micro_batch_size));
  const std::string recompute = recompute_text(to.memory.recompute);
  set("memory.recompute", from.memory.recompute, to.memory.recompute,
      to.memory.recompute.kind == Kind::every ? cat("'", recompute, "'") : recompute);
  set("zero.prefetch", from.zero.prefetch, to.zero.prefetch, cat(to.zero.prefetch));
  set("zero.reshard_after_forward", from.zero.reshard_after_forward, to.zero.reshard_after_forward,
      to.zero.reshard_after_forward ? "true" : "false");
  set("zero.keep_blocks", from.zero.keep_blocks, to.zero.keep_blocks, cat(to.zero.keep_blocks));
  const std::int64_t stage = to.zero.stage;
  set("zero.reduce", effective(from.zero.reduce, stage), effective(to.zero.reduce, stage),
      recipe::word_of(to.zero.reduce));
  return join(sets, " ");
}

// Plans and plays candidates of one recipe.
class Trials {
 public:
  Trials(const Recipe& own, const spec::ModelSpec& model, const Cluster& cluster, const Room& room)
      : own_(own), model_(model), cluster_(cluster), room_(room) {}

  void add(const Recipe& recipe) {
    const std::string settings = settings_text(own_, recipe);
    if (!seen_.insert(settings).second) return;
    Candidate c{recipe, settings, 0, 0};
    StepShape shape = room_.shape_of(recipe);
    const std::int64_t micros = shape.micros;
    const StepPlan plan = plan_of(&shape, kPlayed);
    c.bytes = bytes_of(plan, shape, micros);
    ++result.tried;
    if (room_.bytes >= 0 && c.bytes > room_.bytes) return note_misfit(c, plan);
    c.seconds = seconds_of(shape, plan, micros);
    ++result.fitted;
    result.best.push_back(std::move(c));
  }

  Search finish() {
    sort();
    keep_unbeaten();
    if (result.best.size() > kBestShown) result.best.resize(kBestShown);
    count_exactly();
    return std::move(result);
  }
  void sort() {
    std::ranges::stable_sort(result.best, [](const Candidate& a, const Candidate& b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
    });
  }

  Search result;

 private:
  static constexpr std::int64_t kPlayed = 3, kPlanned = 16;  // micro-batches at most

  // Plans the shape with at most so many micro-batches; with more, only the copies of the batch grow.
  StepPlan plan_of(StepShape* shape, std::int64_t most) const {
    shape->micros = std::min(shape->micros, most);
    return plan_step(model_, *shape);
  }
  std::int64_t bytes_of(const StepPlan& plan, const StepShape& shape, std::int64_t micros) const {
    return room_.needs(plan) +
           (micros - shape.micros) * shape.process.ranks * batch_bytes(shape.train_shape());
  }
  double seconds_of(StepShape shape, const StepPlan& plan, std::int64_t micros) const {
    const double seconds = simulated(shape, plan.train);
    if (shape.micros == micros) return seconds;
    shape.micros = kPlayed - 1;
    const double fewer = simulated(shape, plan_train(train_facts(model_, shape), shape.policy));
    return seconds + (seconds - fewer) * static_cast<double>(micros - kPlayed);
  }
  double simulated(const StepShape& shape, const schedule::Schedule& list) const {
    const Node& node = cluster_.node_for(shape.partition.ranks);
    return simulate(list, op_seconds(list, model_, shape, cluster_), sharing_of(cluster_, node)).seconds +
           node.step_seconds;
  }
  // Places in the arena may differ a little with the number of micro-batches, where they are few.
  void count_exactly() {
    for (Candidate& c : result.best) {
      StepShape shape = room_.shape_of(c.recipe);
      const std::int64_t micros = shape.micros;
      const StepPlan plan = plan_of(&shape, kPlanned);
      c.bytes = bytes_of(plan, shape, micros);
    }
    std::erase_if(result.best, [&](const Candidate& c) { return room_.bytes >= 0 && c.bytes > room_.bytes; });
  }
  // Who is as slow as another, or slower, and takes as much memory teaches nothing.
  void keep_unbeaten() {
    constexpr double kAsSlow = 0.999;
    std::vector<Candidate> kept;
    for (Candidate& c : result.best)
      if (std::ranges::none_of(kept, [&](const Candidate& k) {
            return k.bytes <= c.bytes && k.seconds <= c.seconds / kAsSlow;
          }))
        kept.push_back(std::move(c));
    // Near-ties of the fastest, sorted behind it, may take less.
    const std::vector<Candidate> all = kept;
    std::erase_if(kept, [&](const Candidate& c) {
      return std::ranges::any_of(
          all, [&](const Candidate& k) { return k.bytes < c.bytes && k.seconds * kAsSlow <= c.seconds; });
    });
    result.best = std::move(kept);
  }
  void note_misfit(const Candidate& c, const StepPlan& plan) {
    const std::string what =
        cat("stage ", c.recipe.zero.stage, ", micro-batch ", c.recipe.train.micro_batch_size);
    const auto it = std::ranges::find(result.misfits, what, &Misfit::what);
    Misfit& m = it == result.misfits.end() ? result.misfits.emplace_back(Misfit{what, 0, 0, ""}) : *it;
    if (m.count++ > 0 && c.bytes >= m.least) return;
    m.least = c.bytes;
    m.filled_by = largest_rows(plan.bill, 2);
  }

  const Recipe& own_;
  const spec::ModelSpec& model_;
  const Cluster& cluster_;
  const Room& room_;
  std::set<std::string> seen_;
};

// The values of each setting that are worth a try.
struct Choices {
  std::vector<std::int64_t> stages, micro_batches, prefetches, kept;
  std::vector<recipe::Recompute> recomputes;
  std::vector<bool> reshards;
  std::vector<recipe::Reduce> reduces;

  Choices(const Recipe& r, const spec::ModelSpec& model, int ranks) {
    constexpr std::int64_t kMostRows = 64;
    stages = ranks > 1 ? std::vector<std::int64_t>{3, 2, 1, 0} : std::vector<std::int64_t>{r.zero.stage};
    const std::int64_t rows = std::max<std::int64_t>(1, r.train.global_batch_size / ranks);
    std::set<std::int64_t> sizes = {r.train.micro_batch_size};
    for (std::int64_t m = 1; m <= std::min(rows, kMostRows); m *= 2)
      if (rows % m == 0) sizes.insert(m);
    micro_batches.assign(sizes.begin(), sizes.end());
    recomputes = {{Kind::none, 0}, {Kind::selective, 0}, {Kind::full, 0}};
    if (model.layers >= 4) recomputes.insert(recomputes.begin() + 2, {Kind::every, 2});
    if (model.layers >= 16) recomputes.push_back({Kind::sqrt, 0});
    prefetches = {0, 1, 2, 4};
    kept = {0, model.layers / 4, model.layers / 2};
    reshards = {true, false};
    reduces = {recipe::Reduce::micro, recipe::Reduce::step};
  }
};

// Calls take(changed) for every value of the transfers' settings that mean something at the recipe's stage.
template <typename Take>
void each_transfer(const Recipe& from, const Choices& choices, int ranks, Take take) {
  if (ranks == 1) return;
  for (const recipe::Reduce reduce : choices.reduces) {
    Recipe r = from;
    r.zero.reduce = reduce;
    take(r);
    if (r.zero.stage < 3) continue;
    for (const std::int64_t prefetch : choices.prefetches) {
      r.zero.prefetch = prefetch;
      r.zero.reshard_after_forward = false;
      r.zero.keep_blocks = 0;
      take(r);
      r.zero.reshard_after_forward = true;
      for (const std::int64_t kept : choices.kept) {
        r.zero.keep_blocks = kept;
        take(r);
      }
    }
  }
}

int ranks_of(const Recipe& recipe, const Room& room) { return room.shape_of(recipe).partition.ranks; }

}  // namespace

Search search(const Recipe& recipe, const spec::ModelSpec& model, const Cluster& cluster, const Room& room) {
  constexpr std::size_t kRefined = 4;
  const int ranks = ranks_of(recipe, room);
  const Choices choices(recipe, model, ranks);
  Trials trials(recipe, model, cluster, room);
  trials.add(recipe);
  for (const std::int64_t stage : choices.stages)
    for (const std::int64_t rows : choices.micro_batches)
      for (const recipe::Recompute& recompute : choices.recomputes) {
        Recipe r = recipe;
        r.zero.stage = stage;
        set_rows(&r, rows);
        r.memory.recompute = recompute;
        trials.add(r);
      }
  trials.sort();
  std::vector<Recipe> fastest;
  for (std::size_t i = 0; i < std::min(kRefined, trials.result.best.size()); ++i)
    fastest.push_back(trials.result.best[i].recipe);
  for (const Recipe& from : fastest)
    each_transfer(from, choices, ranks, [&](const Recipe& r) { trials.add(r); });
  return trials.finish();
}

std::vector<Candidate> best_changes(const Recipe& recipe, const spec::ModelSpec& model,
                                    const Cluster& cluster, const Room& room, double own) {
  constexpr double kWorthIt = 0.99;
  constexpr int kMostLayers = 512;  // planning dozens of steps of more would take minutes
  if (model.layers > kMostLayers) return {};
  const int ranks = ranks_of(recipe, room);
  const Choices choices(recipe, model, ranks);
  Trials trials(recipe, model, cluster, room);
  const auto with = [&](auto change) {
    Recipe r = recipe;
    change(r);
    trials.add(r);
  };
  for (const auto& rows : choices.micro_batches) with([&](Recipe& r) { set_rows(&r, rows); });
  for (const auto& recompute : choices.recomputes) with([&](Recipe& r) { r.memory.recompute = recompute; });
  for (const auto& stage : choices.stages) with([&](Recipe& r) { r.zero.stage = stage; });
  if (ranks > 1) {
    for (const auto& reduce : choices.reduces) with([&](Recipe& r) { r.zero.reduce = reduce; });
    if (recipe.zero.stage == 3) {
      for (const auto& prefetch : choices.prefetches) with([&](Recipe& r) { r.zero.prefetch = prefetch; });
      for (const auto& kept : choices.kept) with([&](Recipe& r) { r.zero.keep_blocks = kept; });
      for (const bool reshard : choices.reshards)
        with([&](Recipe& r) { r.zero.reshard_after_forward = reshard; });
    }
  }
  Search found = trials.finish();
  std::erase_if(found.best,
                [&](const Candidate& c) { return c.settings.empty() || c.seconds > kWorthIt * own; });
  return found.best;
}

std::string text(const Search& s, double own_seconds) {
  std::string out = fmt::format("search: {} of {} settings fit\n", s.fitted, s.tried);
  if (!s.best.empty())
    out += fmt::format("  {:>10}  {:>9}  {:>11}  {}\n", "step", "of yours", "memory", "settings");
  for (const Candidate& c : s.best)
    out += fmt::format("  {:>10}  {:>9}  {:>11}  {}\n", time_text(c.seconds),
                       own_seconds > 0 ? fmt::format("{:.1f} %", 100 * c.seconds / own_seconds) : "-",
                       human_bytes(c.bytes), c.settings.empty() ? "the recipe's own" : c.settings);
  if (!s.misfits.empty()) out += "what does not fit, and the least it needs\n";
  for (const Misfit& m : s.misfits)
    out += fmt::format("  {:<26} {:>3} settings, at least {:>11}: {}\n", m.what, m.count,
                       human_bytes(m.least), m.filled_by);
  return out;
}

}  // namespace zt::plan
