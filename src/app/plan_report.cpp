#include "app/plan_report.h"

#include "base/text.h"
#include "plan/drawing.h"
#include "plan/spark.h"

namespace zt::app {

using Json = nlohmann::ordered_json;

std::string PlanReport::verdict() const {
  if (available < 0) return "";
  if (fits()) return cat("fits: ", human_bytes(needed), " of ", human_bytes(available), " a rank may use");
  return cat("does not fit: a rank needs ", human_bytes(needed), " and may use ", human_bytes(available),
             ", ", human_bytes(needed - available), " too much");
}

plan::MemoryStack memory_of(const PlanReport& r) {
  return plan::stack_of(plan::memory_timeline(r.plan.train), r.plan.total() - r.plan.arena);
}

static std::string nearest_text(const plan::NearestFit& nearest) {
  return nearest.settings.empty()
             ? cat("no stage, batch size, recomputation or number format is enough, the least is ",
                   human_bytes(nearest.bytes), ": take more ranks, or a device with more memory")
             : cat("the nearest that fits needs ", human_bytes(nearest.bytes), ":", nearest.settings);
}

static std::string advice_text(const PlanReport& r) {
  constexpr std::size_t kShown = 3;
  std::string out = r.advice.empty() ? "" : "what helps most, one change at a time\n";
  for (std::size_t i = 0; i < std::min(kShown, r.advice.size()); ++i) {
    const plan::Candidate& c = r.advice[i];
    out += fmt::format("  {:>10}  {:+.1f} %  {:>11}  {}\n", plan::time_text(c.seconds),
                       100 * (c.seconds / r.time->seconds - 1), human_bytes(c.bytes), c.settings);
  }
  return out;
}

static std::string origin_text(const PlanReport& r) {
  const plan::Cluster& c = *r.cluster;
  return c.calibrated ? cat("rates: '", c.name, "', measured ", *c.calibrated, ", ", r.age)
                      : cat("rates: '", c.name, "', as described: ", c.about);
}

std::string text(const PlanReport& r) {
  std::string out = plan::text(r.plan);
  const plan::MemoryStack stack = memory_of(r);
  out += "memory over a step\n" + plan::spark_line(stack, r.plan.train.ops);
  if (r.time) out += plan::text(*r.time);
  if (r.cluster) out += origin_text(r) + "\n";
  if (!r.no_time.empty()) out += cat("no times: ", r.no_time, "\n");
  if (!r.verdict().empty()) out += r.verdict() + "\n";
  if (r.nearest) out += nearest_text(*r.nearest) + "\n";
  out += advice_text(r);
  if (r.search) out += plan::text(*r.search, r.time ? r.time->seconds : 0);
  return out + r.estimates;
}

static Json traffic_json(const plan::Traffic& t) {
  return {{"all_gather", t.all_gather}, {"reduce_scatter", t.reduce_scatter}, {"all_reduce", t.all_reduce}};
}

static Json candidate_json(const plan::Candidate& c) {
  return {{"settings", c.settings}, {"step_seconds", c.seconds}, {"bytes", c.bytes}};
}

static Json time_json(const plan::StepTime& t) {
  Json out = {{"cluster", t.cluster},
              {"calibrated", t.calibrated ? Json(*t.calibrated) : Json()},
              {"nodes", t.nodes},
              {"step_seconds", t.seconds},
              {"tokens_per_second", t.tokens_per_second},
              {"mfu", t.mfu > 0 ? Json(t.mfu) : Json()},
              {"model_flops", t.model_flops},
              {"exposed_comm_seconds", t.simulation.exposed}};
  for (const plan::TimePart& part : t.parts) out["parts"][part.id] = part.seconds;
  for (int lane = 0; lane < schedule::kLanes; ++lane)
    out["busy"][name(static_cast<schedule::Lane>(lane))] = t.simulation.busy[static_cast<std::size_t>(lane)];
  out["waits"] = Json::array();
  for (const plan::WaitGroup& g : t.waits)
    out["waits"].push_back({{"op", name(g.waiter)},
                            {"waits_for", g.of_step_before ? "step before" : name(g.blocker)},
                            {"count", g.count},
                            {"seconds", g.seconds},
                            {"longest_seconds", g.longest},
                            {"tokens_to_hide", g.tokens_to_hide > 0 ? Json(g.tokens_to_hide) : Json()}});
  out["words"] = t.words;
  return out;
}

static Json search_json(const plan::Search& s) {
  Json out = {{"tried", s.tried}, {"fitted", s.fitted}, {"best", Json::array()}, {"misfits", Json::array()}};
  for (const plan::Candidate& c : s.best) out["best"].push_back(candidate_json(c));
  for (const plan::Misfit& m : s.misfits)
    out["misfits"].push_back(
        {{"what", m.what}, {"count", m.count}, {"least_bytes", m.least}, {"filled_by", m.filled_by}});
  return out;
}

// The rank's bytes while each op runs, in the order of the list.
static Json timeline_json(const plan::StepPlan& p) {
  Json out = {{"constant_bytes", p.total() - p.arena}, {"live_bytes", Json::array()}};
  for (const plan::MemoryPoint& point : plan::memory_timeline(p.train))
    out["live_bytes"].push_back(point.live());
  return out;
}

Json json(const PlanReport& r) {
  const plan::StepPlan& p = r.plan;
  Json out = {{"ranks", r.shape.partition.ranks}, {"parameters", r.model.parameters()}};
  for (const plan::BillRow& row : p.bill) out["bytes"][row.id] = row.bytes;
  out["rows"] = Json::array();
  for (const plan::BillRow& row : p.bill)
    out["rows"].push_back(
        {{"id", row.id}, {"what", row.what}, {"place", recipe::word_of(row.place)}, {"bytes", row.bytes}});
  out["total_bytes"] = p.total();
  out["arena_bytes"] = p.arena;
  out["process_bytes"] = p.process_bytes();
  out["busiest_op"] = p.busiest;
  out["timeline"] = timeline_json(p);
  out["traffic"] = traffic_json(p.traffic);
  out["paper_traffic"] = p.paper_traffic;
  if (r.time) {
    out["traffic_inside_node"] = traffic_json(r.time->traffic.inside);
    out["traffic_between_nodes"] = traffic_json(r.time->traffic.between);
  }
  out["train_ops"] = p.train.ops.size();
  out["train_fingerprint"] = fingerprint(p.train);
  out["available_bytes"] = r.available >= 0 ? Json(r.available) : Json();
  out["needed_bytes"] = r.needed;
  out["fits"] = r.available >= 0 ? Json(r.fits()) : Json();
  if (r.nearest) out["nearest_fit"] = {{"settings", trim(r.nearest->settings)}, {"bytes", r.nearest->bytes}};
  if (r.time) out["time"] = time_json(*r.time);
  if (!r.no_time.empty()) out["no_time"] = r.no_time;
  if (!r.advice.empty()) {
    out["advice"] = Json::array();
    for (const plan::Candidate& c : r.advice) out["advice"].push_back(candidate_json(c));
  }
  if (r.search) out["search"] = search_json(*r.search);
  return out;
}

}  // namespace zt::app
