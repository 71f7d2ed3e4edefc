// The report as a page: tables and pictures.
#include "app/plan_report.h"
#include "base/text.h"
#include "plan/drawing.h"
#include "plan/exposed_waits.h"
#include "plan/gantt.h"
#include "plan/memory_picture.h"
#include "plan/page.h"

namespace zt::app {

using plan::PageSection;
using plan::PageTable;

static std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

static PageTable bill_table(const plan::StepPlan& p, plan::Place place, const char* title) {
  PageTable table{title, {"what", "bytes", "", "share"}, {}, true, ""};
  const std::int64_t total = sum(p.bill, place);
  for (const plan::BillRow& row : p.bill)
    if (row.place == place)
      table.rows.push_back({row.what, with_commas(row.bytes), human_bytes(row.bytes),
                            share_text(static_cast<double>(row.bytes), static_cast<double>(total))});
  table.rows.push_back({"total", with_commas(total), human_bytes(total), "100.0 %"});
  return table;
}

static PageSection memory_section(const PlanReport& r) {
  PageSection section{
      "Memory",
      {},
      {},
      picture(r),
      "What is there while each operation runs. The plan is what the run claims at its start."};
  if (r.nearest)
    section.paragraphs.push_back(r.nearest->settings.empty()
                                     ? "No settings fit: take more ranks, or a device with more memory."
                                     : cat("The nearest settings that fit:", r.nearest->settings));
  section.tables = {bill_table(r.plan, plan::Place::device, "A rank"),
                    bill_table(r.plan, plan::Place::host, "Its process besides"),
                    bill_table(r.plan, plan::Place::disk, "Disk of the run, all ranks")};
  std::erase_if(section.tables, [](const PageTable& t) { return t.rows.size() < 2; });
  return section;
}

static PageSection traffic_section(const PlanReport& r) {
  PageTable table{"",
                  {"collective", "bytes a step", ""},
                  {},
                  true,
                  cat("The ZeRO paper's formula gives ", with_commas(r.plan.paper_traffic), " bytes.")};
  const auto add = [&](const std::string& what, std::int64_t bytes) {
    if (bytes > 0) table.rows.push_back({what, with_commas(bytes), human_bytes(bytes)});
  };
  const auto level = [&](const std::string& where, const plan::Traffic& t) {
    add("all_gather" + where, t.all_gather);
    add("reduce_scatter" + where, t.reduce_scatter);
    add("all_reduce" + where, t.all_reduce);
  };
  if (r.time) {
    level(", inside a node", r.time->traffic.inside);
    level(", between nodes", r.time->traffic.between);
  } else {
    level("", r.plan.traffic);
  }
  add("total", r.plan.traffic.total());
  return {"Traffic", {"Sent by each rank."}, {table}, "", ""};
}

static PageSection time_section(const PlanReport& r) {
  const plan::StepTime& t = *r.time;
  PageSection section{"Time",
                      t.words,
                      {},
                      gantt_svg(r.plan.train, t.simulation),
                      "One step as every rank plays it: a lane for computing, one for communication."};
  PageTable parts{"What a step's time goes to", {"what", "time", "share"}, {}, true, ""};
  for (const plan::TimePart& part : t.parts)
    if (part.seconds > 0)
      parts.rows.push_back({part.what, plan::time_text(part.seconds), share_text(part.seconds, t.seconds)});
  parts.rows.push_back({"step", plan::time_text(t.seconds), "100.0 %"});
  section.tables.push_back(std::move(parts));
  if (r.shape.partition.ranks > 1) {
    PageTable waits = exposed_waits_table(r.plan.train, t.simulation);
    waits.title = "Waits by block";
    section.tables.push_back(std::move(waits));
  }
  return section;
}

static PageTable candidates_table(const char* title, const std::vector<plan::Candidate>& list, double own) {
  PageTable table{title, {"step", "of the recipe's", "memory", "settings"}, {}, false, ""};
  for (const plan::Candidate& c : list)
    table.rows.push_back({plan::time_text(c.seconds), share_text(c.seconds, own), human_bytes(c.bytes),
                          c.settings.empty() ? "the recipe's own" : c.settings});
  return table;
}

static PageSection change_section(const PlanReport& r) {
  const double own = r.time ? r.time->seconds : 0;
  PageSection section{"What would help", {}, {}, "", ""};
  if (!r.advice.empty()) section.tables.push_back(candidates_table("One change", r.advice, own));
  if (!r.search) return section;
  section.tables.push_back(candidates_table("The fastest settings that fit", r.search->best, own));
  PageTable misfits{"What does not fit", {"settings", "tried", "least memory", "filled by"}, {}, false, ""};
  for (const plan::Misfit& m : r.search->misfits)
    misfits.rows.push_back({m.what, with_commas(m.count), human_bytes(m.least), m.filled_by});
  if (!misfits.rows.empty()) section.tables.push_back(std::move(misfits));
  return section;
}

std::string picture(const PlanReport& r) {
  plan::MemoryPicture how;
  how.device_bytes = std::max<std::int64_t>(0, r.available);
  if (r.time) how.time = &r.time->simulation;
  return memory_svg(memory_of(r), r.plan.train, how);
}

std::string page(const PlanReport& r) {
  plan::PlanPage page;
  page.title = cat("Plan of ", r.recipe.run.name);
  page.subtitle =
      cat(with_commas(r.model.parameters()), " parameters, ", with_commas(r.shape.partition.ranks),
          r.shape.partition.ranks == 1 ? " rank" : " ranks", ", ZeRO stage ", r.recipe.zero.stage, ", ",
          r.shape.micros, " micro-batches of ", r.shape.rows, " x ", r.shape.sequence_length, " tokens");
  page.verdict = r.verdict();
  page.good = r.fits();
  page.facts = {{"Memory of a rank", human_bytes(r.plan.total())}};
  if (r.time) {
    const plan::StepTime& t = *r.time;
    page.facts.push_back({"Step", plan::time_text(t.seconds)});
    page.facts.push_back({"Tokens a second", with_commas(std::llround(t.tokens_per_second))});
    if (t.mfu > 0) page.facts.push_back({"MFU", fmt::format("{:.1f} %", 100 * t.mfu)});
    page.facts.push_back({"Exposed communication", plan::time_text(t.simulation.exposed)});
  }
  page.sections.push_back(memory_section(r));
  if (r.time) page.sections.push_back(time_section(r));
  if (r.plan.traffic.total() > 0) page.sections.push_back(traffic_section(r));
  if (!r.advice.empty() || r.search) page.sections.push_back(change_section(r));
  page.footer = r.cluster
                    ? cat("Rates of '", r.cluster->name, "'",
                          r.cluster->calibrated ? cat(", measured ", *r.cluster->calibrated, ", ", r.age)
                                                : cat(", as described: ", r.cluster->about),
                          ".")
                    : cat("No times: ", r.no_time, ".");
  return plan_page(page);
}

}  // namespace zt::app
