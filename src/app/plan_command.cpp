// zerotrain plan and explain: a recipe's step on any number of ranks of any device, from a laptop.
#include <chrono>
#include <filesystem>
#include <iostream>

#include "app/commands.h"
#include "app/picture_file.h"
#include "app/plan_report.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "measure/checkup.h"
#include "plan/activation_comparison.h"
#include "plan/estimates.h"
#include "plan/recipe_shape.h"
#include "spec/freeze.h"
#include "train/setup.h"

namespace zt::app {
namespace {

// The shape of a step on one of `ranks` processes, of a node of the cluster or of this machine.
plan::StepShape shape_on(const recipe::Recipe& r, int ranks, const std::optional<plan::Cluster>& cluster) {
  if (cluster && cluster->backend == plan::Backend::cuda) {
    plan::StepShape shape = plan::step_shape(r, true, ranks);
    shape.process.device_libraries = cluster->library_bytes;
    shape.gpu = true;
    shape.kernel_bytes = kernels::kGpuWorkspaceBytes;
    shape.comm_bytes = ranks > 1 ? comm::kGpuBufferBytes : 0;
    return shape;
  }
  plan::StepShape shape = train::step_shape(r, true, ranks);
  if (shape.gpu) return shape;
  // Where nobody says how many share a node: more than this don't.
  constexpr std::int64_t kMostOnANode = 256;
  std::int64_t together = std::min<std::int64_t>(ranks, kMostOnANode);
  if (cluster) {
    const plan::Node& node = cluster->node_for(ranks);
    together = std::min<std::int64_t>(ranks, node.ranks);
    shape.process.threads = static_cast<int>(node.threads);
  }
  shape.comm_bytes = together == ranks ? comm::buffer_bytes_on_one_node(ranks) : comm::kMessageBufferBytes;
  return shape;
}

// This machine, where it is calibrated for so many ranks; else why there are no times.
void find_this_machine(int ranks, PlanReport* report) {
  const std::string path = plan::calibration_path();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    report->no_time = "name a --device, or measure this machine: zerotrain doctor --calibrate";
    return;
  }
  std::string cure = "measure again: zerotrain doctor --calibrate";
  try {
    plan::Cluster cluster = plan::open_cluster(path);
    cure.clear();
    cluster.node_for(ranks);
    report->cluster = std::move(cluster);
  } catch (const Error& e) {
    report->no_time = cat(e.problem(), "; ", cure.empty() ? e.hint() : cure, "; or name a --device");
  }
}

void find_cluster(const PlanArgs& args, PlanReport* report) {
  if (args.device.empty()) {
    if (report->recipe.run.device == recipe::Device::cuda)
      report->no_time = "the recipe asks for GPUs: name them with --device";
    else
      find_this_machine(args.ranks, report);
  } else {
    report->cluster = plan::open_cluster(args.device);
    report->cluster->node_for(args.ranks);
  }
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (report->cluster) report->age = measure::age_text(*report->cluster, now);
}

// What other tools would say of the same states.
std::string estimates_of(const PlanReport& r, const std::vector<std::string>& conventions) {
  plan::EstimateAsk ask;
  ask.conventions = conventions;
  ask.ranks = r.shape.partition.ranks;
  ask.stage = static_cast<int>(r.recipe.zero.stage);
  for (const char* id : {"parameters", "master_copy", "moments", "gradients"})
    ask.ours += static_cast<double>(bytes_of(r.plan.bill, id));
  ask.tokens = static_cast<double>(r.shape.rows * r.shape.sequence_length);
  ask.sequence_length = static_cast<double>(r.shape.sequence_length);
  ask.wire_weight = r.shape.element_bytes;
  ask.wire_gradient = r.shape.wire_bytes;
  ask.recompute = r.recipe.memory.recompute.kind == recipe::Recompute::Kind::full;
  if (r.cluster) {
    const plan::Node& node = r.cluster->node_for(r.shape.partition.ranks);
    ask.ranks_per_node = node.ranks;
    for (const plan::Rate& rate : node.rates)
      if (rate.kernel == plan::Kernel::product && rate.dtype == r.shape.dtype)
        ask.flops = std::max(ask.flops, rate.per_second);
    const bool several = r.shape.partition.ranks > node.ranks;
    ask.bandwidth = several ? std::min(r.cluster->between.bandwidth,
                                       node.ranks > 1 ? node.gather.bandwidth : r.cluster->between.bandwidth)
                            : node.gather.bandwidth;
  }
  return plan::estimates_text(r.model, ask) +
         activation_comparison(r.model, r.shape.train_shape(), r.shape.sequence_length);
}

// A device that doesn't know the recipe's numbers still has a bill.
void find_time(PlanReport* r) {
  if (!r->cluster) return;
  try {
    r->time = step_time(r->model, r->shape, r->plan, *r->cluster);
  } catch (const Error& e) {
    if (e.blame() != Blame::usage) throw;
    r->no_time = cat(e.problem(), "; ", e.hint());
  }
}

PlanReport report_of(const PlanArgs& args) {
  PlanReport r;
  r.recipe = recipe::load(args.recipe.path, args.recipe.sets, args.ranks).recipe;
  r.model = train::open_spec(r.recipe);
  spec::freeze(r.model, r.recipe.train.freeze);
  train::check_context(r.recipe, r.model);
  find_cluster(args, &r);
  r.shape = shape_on(r.recipe, args.ranks, r.cluster);
  r.plan = plan_step(r.model, r.shape);
  r.needed = r.plan.needed_bytes();
  if (r.cluster)
    if (const std::int64_t bytes = r.cluster->memory_of_rank(args.ranks); bytes > 0) r.available = bytes;
  const plan::Room room{r.available,
                        [&](const recipe::Recipe& other) { return shape_on(other, args.ranks, r.cluster); },
                        [](const plan::StepPlan& p) { return p.needed_bytes(); }};
  if (!r.fits()) r.nearest = nearest_fit(r.recipe, r.model, room);
  find_time(&r);
  if (r.time) {
    if (r.fits()) r.advice = best_changes(r.recipe, r.model, *r.cluster, room, r.time->seconds);
    if (args.search) r.search = search(r.recipe, r.model, *r.cluster, room);
  }
  if (args.estimates) r.estimates = estimates_of(r, args.conventions);
  return r;
}

}  // namespace

int plan(const PlanArgs& args) {
  const PlanReport r = report_of(args);
  if (args.search && !r.time)
    throw Error(Blame::usage, "a search compares times, and there is no device to compare them on",
                r.no_time);
  if (args.json)
    std::cout << json(r).dump(2) << "\n";
  else
    std::cout << text(r);
  if (!args.html.empty()) write_picture(args.html, page(r));
  if (!args.svg.empty()) write_picture(args.svg, picture(r));
  return r.fits() ? 0 : exit_status(Blame::machine);
}

int explain(const RecipeArgs& args, int ranks) {
  const recipe::Recipe r = recipe::load(args.path, args.sets, ranks).recipe;
  spec::ModelSpec model = train::open_spec(r);
  spec::freeze(model, r.train.freeze);
  train::check_context(r, model);
  const plan::StepPlan p = plan_step(model, shape_on(r, ranks, std::nullopt));
  std::cout << schedule::text(p.train) << "\n" << plan::text(p);
  return 0;
}

}  // namespace zt::app
