// zerotrain report: a run as one page, in a browser, at two widths, light and dark.
#include <cmath>
#include <fstream>
#include <set>

#include "e2e/watching.h"

namespace zt::test {
namespace {

// Words that meet or leave their picture, the size of everything, and what the curves say.
constexpr const char* kLook = R"(
  const box = e => e.getBoundingClientRect(), seen = e => box(e).width > 0 && box(e).height > 0;
  const words = [...page.querySelectorAll('.chart svg text')].filter(seen).map(e => ({
    text: e.textContent, chart: e.closest('.chart').id, box: box(e), svg: e.closest('svg')}));
  const inside = w => w.box.left >= box(w.svg).left - 1 && w.box.right <= box(w.svg).right + 1;
  const meet = (a, b) => a.chart == b.chart && a.box.left < b.box.right - 1 && b.box.left < a.box.right - 1 &&
    a.box.top < b.box.bottom - 3 && b.box.top < a.box.bottom - 3;
  const color = (e, key) => view.getComputedStyle(e)[key].match(/\d+/g).slice(0, 3).map(Number);
  const charts = {};
  page.querySelectorAll('.chart').forEach(f => {
    const d = k => parseFloat(f.dataset[k]);
    charts[f.id] = {width: box(f).width, curves: [...f.querySelectorAll('.plot .line')].map(p => {
      const n = p.getAttribute('d').match(/-?[\d.]+/g).map(Number), s = view.getComputedStyle(p);
      const at = i => ({step: d('first') + n[i] / 1000 * (d('last') - d('first')),
        value: d('high') - n[i + 1] / d('height') * (d('high') - d('low'))});
      return {name: p.dataset.name, stroke: color(p, 'stroke'), dash: s.strokeDasharray, shown: box(p).width > 0,
        length: p.getTotalLength(), points: n.length / 2, first: at(0), last: at(n.length - 2)}; })};
  });
  // The pointer in the middle of the loss.
  const frame = page.querySelector('#loss .area'), b = box(frame);
  frame.dispatchEvent(new view.PointerEvent('pointermove', {clientX: b.left + b.width / 2, clientY: b.top + 50}));
  const tip = page.querySelector('#loss .tip');
  const toggle = page.querySelector('.keys input');
  let hidden = null;
  if (toggle) { toggle.click(); hidden = [...page.querySelectorAll('.plot .line')].filter(e => view.getComputedStyle(e).display == 'none').length;
    toggle.click(); }
  return {charts, width: view.innerWidth, scroll: page.documentElement.scrollWidth, hidden,
    ground: color(page.body, 'backgroundColor'), ink: color(page.querySelector('h1'), 'color'),
    tip: tip ? tip.innerText : null, tip_shown: tip && seen(tip), tip_right: tip ? box(tip).right : 0,
    bars: [...page.querySelectorAll('#gantt .row rect')].filter(seen).length,
    marks: page.querySelectorAll('.mark').length, scripts: page.querySelectorAll('script').length,
    links: page.querySelectorAll('[src],[href],link,iframe').length, text: page.body.innerText,
    outside: words.filter(w => !inside(w)).map(w => w.chart + ': ' + w.text),
    overlaps: words.flatMap((a, i) => words.slice(0, i).filter(b => meet(a, b)).map(b => a.text + ' | ' + b.text))};
)";

plan::Rgb rgb(const nlohmann::json& c) {
  return plan::Rgb(c[0].get<unsigned>() << 16 | c[1].get<unsigned>() << 8 | c[2].get<unsigned>());
}

std::string report_of(const Desk& desk, const Words& folders) {
  Words words = {"report"};
  words.insert(words.end(), folders.begin(), folders.end());
  const Outcome o = desk.run(words);
  REQUIRE_MESSAGE(o.status == 0, o.err);
  return o.out;
}

void check_look(const nlohmann::json& seen, int width, bool dark) {
  CHECK(seen["width"] == width);
  CHECK(seen["scroll"] <= width);
  CHECK((seen["ground"][0] < 128) == dark);
  CHECK(plan::contrast(rgb(seen["ground"]), rgb(seen["ink"])) > 7);
  CHECK(seen["scripts"] == 1);
  CHECK(seen["links"] == 0);
  CHECK_MESSAGE(seen["outside"].empty(), seen["outside"].dump());
  CHECK_MESSAGE(seen["overlaps"].empty(), seen["overlaps"].dump());
  CHECK(seen["tip_shown"] == true);
  CHECK(seen["tip_right"] <= width);
  for (const auto& [id, chart] : seen["charts"].items()) {
    CAPTURE(id);
    CHECK(chart["width"] <= width);
    CHECK(chart["width"] >= (width == 360 ? 320 : id == "loss" ? 1100 : 500));
    for (const auto& curve : chart["curves"]) {
      CHECK(curve["shown"] == true);
      CHECK(plan::contrast(rgb(seen["ground"]), rgb(curve["stroke"])) >= 3);
    }
  }
}

TEST_CASE(
    "report: a run's curves, lanes and events are there at any width, light and dark, and say what was "
    "measured") {
  if (browser().empty()) {
    MESSAGE("skipped: no chromium, chromium-browser or google-chrome in PATH");
    return;
  }
  const WatchDesk desk;
  desk.train({"--ranks", "2"});
  const std::string html = report_of(desk, {"out"});
  CHECK(html.size() < 600'000);
  const auto lines = json_lines(desk.read("out/metrics.jsonl"));
  std::vector<nlohmann::json> steps = lines;
  std::erase_if(steps, [](const nlohmann::json& line) { return !line.contains("loss"); });
  const auto evals = evaluations(desk.read("out/metrics.jsonl"));
  for (const int width : {360, 1400}) {
    for (const bool dark : {false, true}) {
      CAPTURE(width);
      CAPTURE(dark);
      const nlohmann::json seen = seen_by_browser(desk, html, width, dark, kLook);
      check_look(seen, width, dark);
      for (const char* id : {"loss", "learning-rate", "grad-norm", "tokens-per-second", "mfu", "memory",
                             "process-memory", "exposed", "step-seconds"}) {
        CAPTURE(id);
        REQUIRE(seen["charts"].contains(id));
        CHECK(seen["charts"][id]["curves"].size() >= 1);
      }
      const auto near = [](const nlohmann::json& point, std::int64_t step, double value) {
        CHECK(point["step"].get<double>() == doctest::Approx(double(step)).epsilon(0.01));
        CHECK(point["value"].get<double>() == doctest::Approx(value).epsilon(0.01));
      };
      const nlohmann::json& loss = seen["charts"]["loss"]["curves"];
      REQUIRE(loss.size() == 2);
      CHECK(loss[0]["points"] == 40);
      near(loss[0]["first"], 1, steps.front()["loss"]);
      near(loss[0]["last"], 40, steps.back()["loss"]);
      CHECK(loss[1]["points"] == evals.size());
      near(loss[1]["last"], 40, evals.back()["eval_loss"]);
      CHECK(loss[0]["stroke"] != loss[1]["stroke"]);
      near(seen["charts"]["learning-rate"]["curves"][0]["last"], 40, steps.back()["learning_rate"]);
      REQUIRE(seen["charts"]["memory"]["curves"].size() == 2);
      near(seen["charts"]["memory"]["curves"][1]["last"], 40, steps.back()["planned_bytes"]);
      CHECK(contains(seen["tip"], "step"));
      CHECK(contains(seen["tip"], "training"));
      CHECK(seen["bars"] > 30);
      CHECK(seen["marks"] > 0);
      for (const char* word : {"done: step 40 of 40", "Exposed communication by block", "checkpoint",
                               "model.layers", "zerotrain", "llama"})
        CHECK_MESSAGE(contains(seen["text"], word), word);
      CHECK(contains(html, "max_steps: 40"));
    }
  }
}

TEST_CASE(
    "report: several runs are laid over each other, told apart by colour and dashes, and can be hidden") {
  if (browser().empty()) {
    MESSAGE("skipped: no chromium, chromium-browser or google-chrome in PATH");
    return;
  }
  const WatchDesk desk;
  desk.train({"--set", "run.output_dir=a", "--set", "run.name=first"});
  desk.train(
      {"--set", "run.output_dir=b", "--set", "run.name=second", "--set", "optimizer.learning_rate=1e-3"});
  desk.train({"--set", "run.output_dir=c", "--set", "run.name=first", "--set", "train.max_steps=20"});
  const std::string html = report_of(desk, {"a", "b", "c"});
  for (const int width : {360, 1400}) {
    for (const bool dark : {false, true}) {
      CAPTURE(width);
      CAPTURE(dark);
      const nlohmann::json seen = seen_by_browser(desk, html, width, dark, kLook);
      check_look(seen, width, dark);
      const nlohmann::json& rates = seen["charts"]["learning-rate"]["curves"];
      REQUIRE(rates.size() == 3);
      std::set<std::string> strokes, dashes, names;
      for (const auto& curve : rates) {
        strokes.insert(curve["stroke"].dump());
        dashes.insert(curve["dash"]);
        names.insert(curve["name"]);
      }
      CHECK(strokes.size() == 3);
      CHECK(dashes.size() == 3);
      CHECK(names == std::set<std::string>{"a", "b", "c"});  // two have the same name
      CHECK(rates[2]["last"]["step"].get<double>() == doctest::Approx(20).epsilon(0.02));
      CHECK(seen["hidden"].get<int>() == 12);  // all curves of one run
      CHECK(contains(seen["text"], "optimizer.learning_rate"));
      CHECK(contains(seen["text"], "train.max_steps"));
      CHECK_FALSE(contains(seen["text"], "run.seed"));
    }
  }
}

// A line as runs write them.
std::string metrics_line(std::int64_t step, double loss) {
  return fmt::format(
      R"({{"step":{},"epoch":0.001,"loss":{},"supervised_tokens":8192,"tokens":8192,"slots":8192,"learning_rate":0.0003,"grad_norm":1.25,"loss_scale":1.0,"skipped":false,"step_seconds":0.5,"tokens_per_second":16384.0,"mfu":0.41,"cost_imbalance":1.0,"exposed_comm_seconds":0.01,"peak_bytes":1234567890,"planned_bytes":1234567890,"planned_process_bytes":2345678901,"process_peak_bytes":2222222222,"traffic":{{"all_gather":123456789,"reduce_scatter":123456789,"all_reduce":0}},"batch_hash":"0123456789abcdef0123456789abcdef"}})"
      "\n",
      step, loss);
}

TEST_CASE("report: a million steps make a small page in seconds and no loss is hidden, in little memory") {
  const Desk desk;
  std::filesystem::create_directories(desk.path() / "long");
  {
    std::ofstream out(desk.path() / "long/metrics.jsonl");
    for (std::int64_t step = 1; step <= 1'000'000; ++step)
      out << metrics_line(
          step, 2 + 8 / std::sqrt(double(step)) + (step == 700'001 ? 3 : 0.05 * std::sin(double(step))));
  }
  std::ofstream(desk.path() / "long/events.jsonl") << [] {
    std::string text;
    for (int step = 100; step <= 1'000'000; step += 100)
      text += cat(R"({"time":"2026-01-02T03:04:05Z","step":)", step,
                  R"(,"event":"checkpoint","text":"saved"})", "\n");
    return text;
  }();
  const Outcome o = desk.finish(desk.start_command(
      {"/bin/sh", "-c", "ulimit -v 1500000; exec \"$0\" report long --to page.html", Desk::binary()}));
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const std::string html = desk.read("page.html");
  MESSAGE("a million steps: ", o.seconds, " s, ", html.size(), " bytes");
  CHECK(html.size() < 2'000'000);
  CHECK(o.seconds < 20);  // 5 s on an idle machine
  CHECK(contains(html, "1,000,000"));
  CHECK(contains(html, "10,000 checkpoint"));
}

TEST_CASE("report: what is no run, and what is broken, is said in clear words and by its status") {
  const WatchDesk desk;
  std::filesystem::create_directories(desk.path() / "empty");
  desk.write("no_steps/metrics.jsonl", "");
  desk.write("strange/metrics.jsonl", "hello\n{\"a\":1}\n[1,2]\n");
  desk.write("checkpoint/manifest.json", "{}");
  desk.write("a_file", "");
  desk.write("sweep/2/metrics.jsonl", "");
  desk.write("sweep/1/metrics.jsonl", "");
  struct Case {
    Words folders;
    int status;
    const char* words;
  };
  for (const Case& c :
       {Case{{"nowhere"}, 2, "there is no folder nowhere"}, Case{{"a_file"}, 2, "a_file is not a folder"},
        Case{{"empty"}, 3, "empty holds no run: there is no metrics.jsonl"},
        Case{{"sweep"}, 3, "sweep holds no run: there is no metrics.jsonl; name the runs in it, as sweep/1"},
        Case{{"checkpoint"}, 3, "checkpoint is a checkpoint, not a run's folder"},
        Case{{"no_steps"}, 3, "is empty: nothing has been measured yet"},
        Case{{"strange"}, 3, "holds 3 lines and none of them is of a run"},
        Case{{"empty", "strange"}, 3, "strange/metrics.jsonl holds 3 lines"},
        Case{{}, 2, "folders is required"}, Case{Words(25, "empty"), 2, "at most 24 runs"}}) {
    CAPTURE(c.words);
    Words words = {"report"};
    words.insert(words.end(), c.folders.begin(), c.folders.end());
    const Outcome o = desk.run(words);
    CHECK(o.status == c.status);
    CHECK_MESSAGE(contains(o.err, c.words), o.err);
    CHECK(o.out.empty());
  }
  desk.train({"--set", "train.max_steps=12"});
  std::ofstream(desk.path() / "out/metrics.jsonl", std::ios::app)
      << "not a "
         "line\n{\"step\":-3,\"loss\":1}\n{\"step\":13,\"loss\":null,\"grad_norm\":null}\n{\"step\":14,\"lo";
  desk.write("out/metrics.1.jsonl", "{\"step\":1,\"loss\":5.5,\"tokens\":3}\n{\"step\":2,\"loss\":5.25}\n");
  desk.write("out/trace.json", "{\"step\": 3");
  desk.write("out/run.json", "[]");
  std::ofstream(desk.path() / "out/events.jsonl", std::ios::app)
      << "{}\n{\"event\": 5}\n{\"event\":\"skip\",\"te";
  std::filesystem::remove(desk.path() / "out/recipe.yaml");
  const std::string html = report_of(desk, {"out"});
  CHECK(report_of(desk, {"out/"}) == html);  // as shells complete it
  for (const char* words :
       {"2 lines of metrics.jsonl could not be read and are left out", "metrics.jsonl ends in half a line",
        "An earlier attempt of 2 logged steps ended at step 2 before its first checkpoint, with a loss of "
        "5.25",
        "metrics.1.jsonl", "trace.json: is not JSON", "run.json is no JSON object", "there is no recipe.yaml",
        "events.jsonl has 2 broken lines", "2 losses or gradient norms were not finite"})
    CHECK_MESSAGE(contains(html, words), words);
  // A page is written over a page, and over nothing else.
  desk.write("README.md", "# Mine\n");
  const Outcome kept = desk.run({"report", "out", "--to", "README.md"});
  CHECK(kept.status == 2);
  CHECK(contains(kept.err, "README.md exists and is another kind of file; it is kept"));
  CHECK(desk.read("README.md") == "# Mine\n");
  for (int time = 0; time < 2; ++time) CHECK(desk.run({"report", "out", "--to", "page.html"}).status == 0);
  CHECK(desk.read("page.html") == html);
  // Texts of files stay texts.
  desk.write("out/run.json",
             R"({"name": "<script>alert(1)</script>", "data": ["</pre><img src=x onerror=alert(1)>"]})");
  const std::string hostile = report_of(desk, {"out"});
  CHECK_FALSE(contains(hostile, "<script>alert"));
  CHECK_FALSE(contains(hostile, "<img"));
}

}  // namespace
}  // namespace zt::test
