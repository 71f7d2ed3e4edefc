// What only shows after many steps.
#include <doctest/doctest.h>

#include <random>

#include "e2e/program.h"

namespace zt::test {

TEST_CASE("long runs: rows of random lengths take no more memory at step 500 than at step 10") {
  const Desk desk;
  std::mt19937 random(76);
  std::string rows;
  for (int i = 0; i < 400; ++i)
    rows += nlohmann::json({{"prompt", std::string(1 + random() % 8, 'p')},
                            {"completion", std::string(1 + random() % 54, char('a' + i % 26))}})
                .dump() +
            "\n";
  desk.write("rows.jsonl", rows);
  desk.write("recipe.yaml", R"(
model:
  config: {model_type: llama, hidden_size: 48, intermediate_size: 96, num_hidden_layers: 3,
           num_attention_heads: 4, max_position_embeddings: 64}
tokenizer: {type: byte}
data: {sequence_length: 64, packing: false, train: [{path: rows.jsonl, format: completion}]}
train: {max_steps: 500, micro_batch_size: 2, global_batch_size: 8}
run: {output_dir: out}
checkpoint: {every_steps: 50, export: never}
)");
  for (const char* const ranks : {"1", "2"}) {
    CAPTURE(ranks);
    const std::string out = std::string("out") + ranks;
    const Outcome o =
        desk.run({"--recipe", "recipe.yaml", "--ranks", ranks, "--set", "run.output_dir=" + out});
    REQUIRE_MESSAGE(o.status == 0, o.err);
    const auto lines = json_lines(desk.read(out + "/metrics.jsonl"));
    const auto at = [&](int step) { return lines[static_cast<std::size_t>(step - 1)]; };
    REQUIRE(at(500)["step"] == 500);
    CHECK(at(10)["peak_bytes"] == at(500)["peak_bytes"]);
    CHECK(at(500)["peak_bytes"] == at(500)["planned_bytes"]);
    // What the system counts also has what first saves and first uses of a length bring in.
    const auto early = at(250)["process_peak_bytes"].get<std::int64_t>(),
               late = at(500)["process_peak_bytes"].get<std::int64_t>();
    CAPTURE(early);
    CAPTURE(late);
    CHECK(late - early <= std::int64_t{1} << 20);
  }
}

}  // namespace zt::test
