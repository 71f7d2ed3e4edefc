// Any bytes as the files of a run's folder, up to its page: parts between bytes 0xFF are metrics.jsonl, events.jsonl,
// run.json, trace.json and recipe.yaml. The first byte leaves files out.
#include <cmath>

#include "exec/trace.h"
#include "hostile.h"
#include "report/recipes.h"
#include "report/report_page.h"
#include "report/run.h"

using namespace zt;

namespace {

constexpr const char* kFiles[] = {"metrics.jsonl", "events.jsonl", "run.json", "trace.json", "recipe.yaml"};
// Lines are read by the megabyte, and a page has its style and pictures.
constexpr fuzz::Bound kBound{16 << 20, 4096};

void check_run(const report::Run& run) {
  FUZZ_CHECK(run.steps_logged + run.evaluations > 0);
  for (int i = 0; i < report::kMeasures; ++i) {
    const report::Curve& curve = run.curves[std::size_t(i)];
    std::int64_t values = 0;
    double before = -1;
    for (const report::Bin& bin : curve.bins()) {
      FUZZ_CHECK(bin.count > 0 && bin.min <= bin.max);
      FUZZ_CHECK(bin.min >= curve.min() && bin.max <= curve.max());
      FUZZ_CHECK(bin.step() > before);
      before = bin.step();
      values += bin.count;
    }
    FUZZ_CHECK(values == curve.count());
  }
  if (!run.trace) return;
  const auto ops = run.trace->list.ops.size();
  FUZZ_CHECK(ops > 0 && run.trace->time.spans.size() == ops);
  for (const plan::Span& span : run.trace->time.spans)
    FUZZ_CHECK(span.start <= span.end && span.blocker < int(ops) && std::isfinite(span.waited));
}

// Only what the page itself brings is a tag: nothing of a file becomes one.
void check_page(const std::string& page) {
  FUZZ_CHECK(!text::first_invalid_utf8(page));
  FUZZ_CHECK(page.find("<hostile") == std::string::npos);
  for (const char* const number : {"\"nan\"", "\"inf\"", "\"-nan\"", "\"-inf\""})
    FUZZ_CHECK(page.find(number) == std::string::npos);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [choice, bytes] = fuzz::input_of(data, size);
  const fuzz::Folder& folder = fuzz::scratch();
  folder.clear();
  const std::vector<std::string> parts = fuzz::parts(bytes, std::size(kFiles));
  for (std::size_t i = 0; i < parts.size(); ++i)
    if ((choice >> i & 1) == 0) folder.write(kFiles[i], parts[i]);
  fuzz::survives(size, kBound, Blame::data, [&] {
    std::vector<report::Run> runs = {report::read_run(folder.path())};
    check_run(runs[0]);
    report::name_apart(&runs);
    check_page(report::report_page(runs));
    (void)report::recipe_values(runs[0].recipe);
  });
  return 0;
}
