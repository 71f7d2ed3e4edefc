#include "report/report_page.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "plan/drawing.h"
#include "plan/exposed_waits.h"
#include "plan/gantt.h"
#include "plan/page.h"
#include "report/chart.h"
#include "report/page_style.h"
#include "report/recipes.h"

namespace zt::report {
namespace {

using plan::PageFact;
using plan::PageSection;
using plan::PageTable;
using plan::xml_text;

// How an event looks on curves and in the table.
const char* css_class(const std::string& kind) {
  for (const char* bad : {"skip", "spike", "rewind", "failed", "save_failed"})
    if (kind == bad) return "bad";
  for (const char* good : {"resume", "stop", "done", "save_requested"})
    if (kind == good) return "good";
  return "calm";
}

std::string count_text(std::int64_t count, const char* one, const char* more) {
  return cat(with_commas(count), " ", count == 1 ? one : more);
}

std::string fact_text(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return with_commas(value.get<std::int64_t>());
  if (value.is_null()) return "none";
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string fact(const Run& run, const char* path) {
  const nlohmann::ordered_json::json_pointer pointer(path);
  return run.facts.is_object() && run.facts.contains(pointer) ? fact_text(run.facts[pointer]) : "";
}

std::int64_t planned_steps(const Run& run) {
  if (!run.facts.is_object()) return 0;
  const auto steps = run.facts.find("steps");
  return steps != run.facts.end() && steps->is_number_integer() ? steps->get<std::int64_t>() : 0;
}

std::int64_t last_step(const Run& run) {
  return std::max(run.curve(Measure::loss).last_step(), run.curve(Measure::eval_loss).last_step());
}

// ---- Curves

class Charts {
 public:
  explicit Charts(const std::vector<Run>& runs) : runs_(runs), several_(runs.size() > 1) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      for (const Curve& curve : runs[i].curves) range_ = range_of({series(i, &curve, 0, "")}, range_);
  }

  std::string html() const {
    return draw("loss", "Loss", "of each step's batch, and of the validation data",
                {{Measure::loss, "training", Stroke::line},
                 {Measure::eval_loss, "validation", Stroke::dotted}},
                Unit::plain, false, 320) +
           draw("learning-rate", "Learning rate", "", {{Measure::learning_rate, "learning rate"}},
                Unit::plain, true) +
           draw("grad-norm", "Gradient norm", "before clipping", {{Measure::grad_norm, "gradient norm"}},
                Unit::plain, true) +
           draw("tokens-per-second", "Tokens a second", "of all ranks",
                {{Measure::tokens_per_second, "tokens a second"}}, Unit::per_second, true) +
           draw("mfu", "MFU", "share of the measured rate of matrix products", {{Measure::mfu, "MFU"}},
                Unit::percent, true) +
           draw("memory", "Memory for the step", "rank 0: what is held, and what was planned",
                {{Measure::peak_bytes, "held"}, {Measure::planned_bytes, "planned", Stroke::plan}},
                Unit::bytes, true) +
           draw("process-memory", "Memory of the process", "rank 0: the system's count, and the estimate",
                {{Measure::process_peak_bytes, "peak"},
                 {Measure::planned_process_bytes, "estimated", Stroke::plan}},
                Unit::bytes, true) +
           draw("exposed", "Exposed communication", "a step's seconds in which computing stood still for it",
                {{Measure::exposed_comm_seconds, "exposed"}}, Unit::seconds, true) +
           draw("step-seconds", "Time of a step", "", {{Measure::step_seconds, "step"}}, Unit::seconds,
                true) +
           loss_scale();
  }

  std::string run_keys() const {
    std::string out = "<p class=\"keys runs\">";
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Series s = series(i, nullptr, 0, "");
      out += cat("<label><input type=\"checkbox\" checked value=\"", i,
                 "\"><svg width=\"34\" height=\"10\" aria-hidden=\"true\"><line class=\"line r", s.color,
                 s.dash > 0 ? cat(" d", s.dash) : "", "\" x1=\"1\" x2=\"33\" y1=\"5\" y2=\"5\"/></svg>",
                 xml_text(runs_[i].name), "</label>");
    }
    return out + "</p>\n";
  }

 private:
  struct What {
    Measure measure;
    const char* name;
    Stroke stroke = Stroke::line;
  };

  // One run's curves differ by colour; of several runs, each has its colour and dashes.
  Series series(std::size_t run, const Curve* curve, std::size_t which, const std::string& name) const {
    Series s;
    s.run = int(run);
    s.color = int(several_ ? run % kColors : which % kColors);
    s.dash = several_ ? int(run % kDashes) : 0;
    s.curve = curve;
    s.name = several_ ? cat(runs_[run].name, name.empty() ? "" : ", " + name) : name;
    return s;
  }

  std::string draw(const char* id, const char* title, const char* about, const std::vector<What>& what,
                   Unit unit, bool from_zero, int height = 200) const {
    Chart chart;
    chart.id = id, chart.title = title, chart.about = about;
    chart.unit = unit, chart.from_zero = from_zero, chart.height = height;
    chart.legend = !several_ && what.size() > 1;
    chart.most_columns = std::max(120, 700 / int(runs_.size()));
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      for (std::size_t k = 0; k < what.size(); ++k) {
        Series s =
            series(i, &runs_[i].curve(what[k].measure), k, several_ && what.size() == 1 ? "" : what[k].name);
        s.stroke = what[k].stroke;
        chart.series.push_back(s);
      }
      for (const Event& event : runs_[i].events)
        if (event.kind != "start" && event.kind != "done")
          chart.marks.push_back({int(i), css_class(event.kind), event.step, words(i, event)});
    }
    return chart_html(chart, range_);
  }

  // Only where it moves: other formats than float16 have none.
  std::string loss_scale() const {
    for (const Run& run : runs_) {
      const Curve& scale = run.curve(Measure::loss_scale);
      if (!scale.empty() && scale.max() > scale.min())
        return draw("loss-scale", "Loss scale", "", {{Measure::loss_scale, "loss scale"}}, Unit::plain, true);
    }
    return "";
  }

  std::string words(std::size_t run, const Event& event) const {
    return cat(several_ ? runs_[run].name + ", " : "", "step ", with_commas(event.step), ": ", event.kind,
               event.text.empty() ? "" : ": ", event.text);
  }

  const std::vector<Run>& runs_;
  bool several_;
  StepRange range_;
};

// ---- Words and tables

std::string status_of(const Run& run) {
  const std::string steps = planned_steps(run) > 0 ? cat("step ", with_commas(last_step(run)), " of ",
                                                         with_commas(planned_steps(run)))
                                                   : cat("step ", with_commas(last_step(run)));
  if (run.events.empty()) return steps;
  const Event& last = run.events.back();
  if (last.kind == "done") return cat("done: ", steps);
  if (last.kind == "failed") return cat("failed at ", steps, ": ", last.text);
  if (last.kind == "stop") return cat("stopped: ", last.text);
  return cat("at ", steps, "; the folder notes no end, so the run goes on or was killed");
}

bool failed(const Run& run) { return !run.events.empty() && run.events.back().kind == "failed"; }

double mean_of(const Curve& curve) {
  double sum = 0;
  std::int64_t count = 0;
  for (const Bin& bin : curve.bins()) sum += bin.sum, count += bin.count;
  return count > 0 ? sum / double(count) : 0;
}

std::string last_text(const Curve& curve, Unit unit) {
  return curve.empty() ? "-" : value_text(curve.last(), unit);
}

std::string best_text(const Run& run) {
  return run.best_eval_step < 0
             ? "-"
             : cat(value_text(run.best_eval, Unit::plain), " at step ", with_commas(run.best_eval_step));
}

std::vector<PageFact> facts_of(const Run& run) {
  std::vector<PageFact> out = {{"Steps", with_commas(last_step(run))},
                               {"Training loss", last_text(run.curve(Measure::loss), Unit::plain)}};
  if (run.best_eval_step >= 0) {
    out.push_back({"Validation loss", last_text(run.curve(Measure::eval_loss), Unit::plain)});
    out.push_back(
        {cat("Best, step ", with_commas(run.best_eval_step)), value_text(run.best_eval, Unit::plain)});
  }
  out.push_back({"Tokens", with_commas(std::llround(run.tokens))});
  out.push_back({"Time in steps", human_seconds(run.seconds)});
  if (run.seconds > 0)
    out.push_back({"Tokens a second", with_commas(std::llround(run.tokens / run.seconds))});
  out.push_back({"MFU", value_text(mean_of(run.curve(Measure::mfu)), Unit::percent)});
  return out;
}

PageSection runs_section(const std::vector<Run>& runs) {
  PageTable table{"",
                  {"run", "steps", "training loss", "validation loss", "best validation loss", "tokens",
                   "time in steps", "tokens a second", "MFU", "status"},
                  {},
                  false,
                  ""};
  for (const Run& run : runs)
    table.rows.push_back({run.name, with_commas(last_step(run)),
                          last_text(run.curve(Measure::loss), Unit::plain),
                          last_text(run.curve(Measure::eval_loss), Unit::plain), best_text(run),
                          with_commas(std::llround(run.tokens)), human_seconds(run.seconds),
                          run.seconds > 0 ? with_commas(std::llround(run.tokens / run.seconds)) : "-",
                          value_text(mean_of(run.curve(Measure::mfu)), Unit::percent), status_of(run)});
  return {"Runs", {}, {table}, "", "", ""};
}

std::string titled(const char* title, const Run& run, bool several) {
  return several ? cat(title, " of ", run.name) : title;
}

// What is bigger than this of one step would make a page that is slow to open.
constexpr std::size_t kMostGantt = 700'000;

void add_step(const Run& run, std::size_t number, bool several, std::size_t* room,
              std::vector<PageSection>* sections) {
  if (!run.trace) return;
  const exec::PlayedStep& played = *run.trace;
  PageSection section{titled("One step", run, several), {}, {}, "", "", ""};
  const double share = played.time.seconds > 0 ? played.time.exposed / played.time.seconds : 0;
  section.paragraphs.push_back(cat("Step ", with_commas(played.step), " as rank ", played.rank, " of ",
                                   played.ranks, " played it: ", plan::time_text(played.time.seconds),
                                   ", in which computing stood still for communication for ",
                                   plan::time_text(played.time.exposed),
                                   fmt::format(" ({:.1f} %).", 100 * share)));
  std::string svg =
      gantt_svg(played.list, played.time,
                {"Measured: one step, lane by lane", number == 0 ? "gantt" : cat("gantt-", number)});
  if (svg.size() <= *room) {
    *room -= svg.size();
    section.svg = std::move(svg);
    section.caption = "Each bar is an operation; point at it to read it. Hatched: computing waits.";
  } else {
    section.paragraphs.push_back(
        "The picture of its operations is left out: it would be too big. trace.json has them.");
  }
  if (played.ranks > 1) {
    PageTable waits = exposed_waits_table(played.list, played.time, 12);
    waits.title = "Exposed communication by block";
    if (played.time.tail > 0)
      waits.note += cat(waits.note.empty() ? "" : " ", "At the end of the step computing waited ",
                        plan::time_text(played.time.tail), " more for the other lanes.");
    section.tables.push_back(std::move(waits));
  }
  sections->push_back(std::move(section));
}

std::string event_counts(const Run& run) {
  std::string out;
  for (const auto& [kind, count] : run.event_counts)
    out += cat(out.empty() ? "" : ", ", with_commas(count), " ", kind);
  return out;
}

// Checkpoints are many and alike; where the table gets long, the oldest of them are only counted.
PageTable event_table(const Run& run) {
  constexpr std::size_t kShown = 120;
  PageTable table{"", {"when", "step", "event", "what"}, {}, false, ""};
  std::vector<const Event*> shown;
  std::size_t room = run.events.size() > kShown ? kShown : run.events.size();
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    const bool calm = event->kind == "checkpoint";
    if (calm && run.events.size() > kShown && shown.size() >= 20) continue;
    if (room-- == 0) break;
    shown.push_back(&*event);
  }
  std::ranges::reverse(shown);
  for (const Event* event : shown)
    table.rows.push_back({event->time, with_commas(event->step), event->kind, event->text});
  if (std::int64_t(shown.size()) < run.events_in_all)
    table.note =
        cat(with_commas(run.events_in_all - std::int64_t(shown.size())), " more are in events.jsonl.");
  return table;
}

void add_events(const Run& run, bool several, std::vector<PageSection>* sections) {
  PageSection section{titled("Events", run, several), {}, {}, "", "", ""};
  if (!run.events.empty()) {
    section.paragraphs.push_back(cat(event_counts(run), "."));
    section.tables.push_back(event_table(run));
  }
  for (const SetAside& aside : run.set_aside)
    section.paragraphs.push_back(cat(
        "An earlier attempt of ", count_text(aside.lines, "logged step", "logged steps"), " ended at step ",
        with_commas(aside.last_step), " before its first checkpoint",
        std::isfinite(aside.last_loss) ? cat(", with a loss of ", value_text(aside.last_loss, Unit::plain))
                                       : "",
        "; its measurements are in ", aside.file, "."));
  if (run.broken_lines > 0)
    section.paragraphs.push_back(cat(count_text(run.broken_lines, "line", "lines"),
                                     " of metrics.jsonl could not be read and ",
                                     run.broken_lines == 1 ? "is" : "are", " left out."));
  if (run.half_a_line)
    section.paragraphs.push_back(
        "metrics.jsonl ends in half a line, which is left out: the run is writing it, or was killed there.");
  const std::int64_t not_finite =
      run.curve(Measure::loss).not_finite() + run.curve(Measure::grad_norm).not_finite();
  if (not_finite > 0)
    section.paragraphs.push_back(
        cat(count_text(not_finite, "loss or gradient norm was", "losses or gradient norms were"),
            " not finite; curves leave them out."));
  for (const std::string& note : run.notes) section.paragraphs.push_back(cat(note, "."));
  if (!section.paragraphs.empty()) sections->push_back(std::move(section));
}

void add_facts(const nlohmann::ordered_json& value, const std::string& path, PageTable* table) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      if (path.empty() && name == "data") continue;  // has paragraphs of its own
      add_facts(member, path.empty() ? name : path + "." + name, table);
    }
    return;
  }
  std::string text;
  if (value.is_array())
    for (const auto& one : value) text += (text.empty() ? "" : ", ") + fact_text(one);
  else if (path == "product_rate" && value.is_number())
    text = fmt::format("{:.1f} GFLOP/s", value.get<double>() / 1e9);
  else
    text = fact_text(value);
  table->rows.push_back({path, text});
}

void add_data(const Run& run, bool several, std::vector<PageSection>* sections) {
  if (!run.facts.is_object() || !run.facts.contains("data") || !run.facts["data"].is_array()) return;
  PageSection section{titled("Data", run, several), {}, {}, "", "", ""};
  for (const auto& line : run.facts["data"]) section.paragraphs.push_back(fact_text(line));
  sections->push_back(std::move(section));
}

void add_place(const Run& run, bool several, std::vector<PageSection>* sections) {
  if (!run.facts.is_object()) return;
  PageTable table{"", {"what", ""}, {}, false, ""};
  add_facts(run.facts, "", &table);
  sections->push_back({titled("Where and how it ran", run, several), {}, {table}, "", "", ""});
}

PageSection recipe_section(const std::vector<Run>& runs) {
  PageSection section{runs.size() == 1 ? "Recipe" : "Recipes", {}, {}, "", "", ""};
  if (runs.size() > 1) section.tables.push_back(recipe_differences(runs));
  for (const Run& run : runs) {
    if (run.recipe.empty()) continue;
    section.html += cat("<details", "><summary>",
                        runs.size() == 1 ? "Every value and where it came from" : xml_text(run.name),
                        "</summary><pre tabindex=\"0\">", xml_text(run.recipe), "</pre></details>\n");
  }
  return section;
}

std::string subtitle_of(const Run& run) {
  std::vector<std::string> parts;
  if (const std::string parameters = fact(run, "/model/parameters"); !parameters.empty())
    parts.push_back(
        cat(fact(run, "/model/type"), " of ", parameters, " parameters, ", fact(run, "/model/dtype")));
  if (const std::string ranks = fact(run, "/ranks"); !ranks.empty())
    parts.push_back(cat(ranks, ranks == "1" ? " rank" : " ranks", ", ZeRO stage ", fact(run, "/stage")));
  parts.push_back(run.folder.string());
  return join(parts, "; ");
}

}  // namespace

std::string report_page(const std::vector<Run>& runs) {
  if (runs.empty() || runs.size() > kMostRuns)
    throw Error(Blame::usage, cat("a report is of 1 to ", kMostRuns, " runs, not of ", runs.size()));
  const bool several = runs.size() > 1;
  plan::PlanPage page;
  page.title = several ? cat("Report of ", runs.size(), " runs") : cat("Report of ", runs[0].name);
  page.style = report_style();
  page.script = report_script();
  const Charts charts(runs);
  PageSection curves{"Curves", {}, {}, "", "", ""};
  curves.html = cat(several ? charts.run_keys() : "", "<div class=\"charts\">\n", charts.html(), "</div>\n");
  if (several) {
    page.sections.push_back(runs_section(runs));
  } else {
    page.subtitle = subtitle_of(runs[0]);
    page.verdict = status_of(runs[0]);
    page.good = !failed(runs[0]);
    page.facts = facts_of(runs[0]);
  }
  page.sections.push_back(std::move(curves));
  std::size_t room = kMostGantt;
  for (std::size_t i = 0; i < runs.size(); ++i) add_step(runs[i], i, several, &room, &page.sections);
  for (const Run& run : runs) add_data(run, several, &page.sections);
  for (const Run& run : runs) add_events(run, several, &page.sections);
  page.sections.push_back(recipe_section(runs));
  for (const Run& run : runs) add_place(run, several, &page.sections);
  page.footer =
      "Curves of long runs show the mean of neighbouring steps, in a band from the lowest to the highest of "
      "them. "
      "Short lines at the bottom of a curve are checkpoints, red ones trouble, green ones where the run "
      "stopped or went on.";
  return plan_page(page);
}

}  // namespace zt::report
