// What a plan says of memory is what a run takes: exactly of its arenas, and within 3 % of the whole process.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "e2e/program.h"

namespace zt::test {
namespace {

enum class Start { alone, launcher, threads };

struct Run {
  int stage;
  const char* recompute;
  int accumulation;
  const char* dtype;
  int ranks;
  Start start = Start::launcher;
  const char* accumulate_dtype = "float32";
  bool gpt2 = false;
  bool saves = false;
};

// Every stage, recomputation, dtype and number of ranks several times, with others than in the row before.
const std::vector<Run> kRuns = {
    {0, "none", 1, "float32", 1, Start::alone},
    {0, "full", 2, "float32", 1, Start::alone},
    {0, "selective", 4, "float32", 1, Start::alone},
    {0, "sqrt", 1, "bfloat16", 1, Start::alone},
    {0, "none", 3, "bfloat16", 1, Start::alone},
    {0, "selective", 2, "float16", 1, Start::alone},
    {0, "full", 1, "bfloat16", 1, Start::alone, "bfloat16"},
    {0, "none", 2, "float32", 1, Start::alone, "float32", true},
    {0, "none", 1, "bfloat16", 1, Start::alone, "float32", false, true},
    {0, "none", 1, "float32", 2},
    {1, "full", 2, "float32", 2},
    {2, "selective", 1, "float32", 2},
    {3, "sqrt", 3, "float32", 2},
    {0, "full", 2, "bfloat16", 2},
    {1, "none", 1, "bfloat16", 2},
    {2, "sqrt", 2, "bfloat16", 2, Start::launcher, "bfloat16"},
    {3, "none", 1, "bfloat16", 2},
    {3, "full", 4, "float16", 2},
    {2, "none", 1, "float16", 2, Start::launcher, "float32", true},
    {0, "none", 1, "float32", 4},
    {1, "selective", 1, "float32", 4},
    {2, "full", 2, "float32", 4},
    {3, "none", 1, "float32", 4},
    {1, "sqrt", 1, "bfloat16", 4},
    {2, "none", 2, "bfloat16", 4},
    {3, "selective", 1, "bfloat16", 4},
    {2, "none", 2, "float32", 2, Start::threads},
    {3, "full", 1, "float32", 2, Start::threads},
    {1, "none", 1, "bfloat16", 4, Start::threads},
    {3, "selective", 2, "bfloat16", 4, Start::threads},
};

constexpr int kLength = 256;

// Slices get smaller with more ranks, so models get larger: 3 % must be much.
std::string recipe_of(const Run& run) {
  const int layers = run.stage == 0 ? 7 : run.ranks == 4 ? 12 : 9;
  const std::string sizes =
      run.gpt2 ? fmt::format("model_type: gpt2, n_embd: 512, n_head: 8, n_layer: {}, n_positions: {}", layers,
                             kLength)
               : fmt::format(
                     "model_type: llama, hidden_size: 512, intermediate_size: 1536, num_attention_heads: 8, "
                     "num_key_value_heads: 4, num_hidden_layers: {}, max_position_embeddings: {}",
                     layers, kLength);
  return fmt::format(
      "run: {{output_dir: out}}\n"
      "model: {{config: {{{}, vocab_size: 264}}, dtype: {}}}\n"
      "tokenizer: {{type: byte}}\n"
      "data: {{sequence_length: {}, train: [{{path: text.txt}}]}}\n"
      "train: {{max_steps: 2, micro_batch_size: 2, global_batch_size: {}}}\n"
      "zero: {{stage: {}}}\nmemory: {{recompute: {}}}\nprecision: {{accumulate_dtype: {}}}\n"
      "checkpoint: {{every_steps: {}, export: never}}\n",
      sizes, run.dtype, kLength, 2 * run.ranks * run.accumulation, run.stage, run.recompute,
      run.accumulate_dtype, run.saves ? "1" : "null");
}

Words command_of(const Run& run) {
  Words words;
  if (run.start == Start::launcher) words = {Desk::launcher(), "-n", std::to_string(run.ranks)};
  words.insert(words.end(), {Desk::binary(), "--recipe", "recipe.yaml"});
  if (run.start == Start::threads) words.insert(words.end(), {"--ranks", std::to_string(run.ranks)});
  return words;
}

double error_of(const nlohmann::json& line) {
  const double measured = line["process_peak_bytes"].get<double>();
  return (line["planned_process_bytes"].get<double>() - measured) / measured;
}

nlohmann::json last_step(const Run& run, const std::string& text) {
  const Desk desk;
  desk.write("text.txt", text);
  desk.write("recipe.yaml", recipe_of(run));
  const Outcome o = desk.finish(desk.start_command(command_of(run)));
  REQUIRE_MESSAGE(o.status == 0, o.err);
  nlohmann::json last;
  for (const nlohmann::json& line : json_lines(desk.read("out/metrics.jsonl")))
    if (line.contains("peak_bytes")) last = line;
  return last;
}

std::string row_of(const Run& run, double planned, double process, double measured) {
  const char* const how = run.start == Start::threads    ? "threads"
                          : run.start == Start::launcher ? "mpirun"
                                                         : "alone";
  return fmt::format(
      "{} x {:<8} {:>5}  {:<9} {:>4}  {:<9} {:<8}{:<6}{:>9.1f} {:>9.1f} {:>9.1f} {:>+7.2f} %\n", run.ranks,
      how, run.stage, run.recompute, run.accumulation, run.dtype, run.accumulate_dtype,
      run.gpt2 ? "gpt2" : "llama", planned, process, measured, 100 * (process - measured) / measured);
}

TEST_CASE("plan: 30 recipes hold exactly the planned bytes, and their processes what is planned within 3 %") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("skipped: a sanitizer's own memory is in what the system counts");
  return;
#endif
  REQUIRE(kRuns.size() == 30);
  std::string text = read_file(source_dir() / "docs/RUNNING.md");
  std::string table =
      "ranks        stage  recompute  acc  dtype     sums    model  planned   process  measured  error\n"
      "                                                            MiB/rank       MiB       MiB\n";
  double worst = 0;
  int repeated = 0;
  for (const Run& run : kRuns) {
    nlohmann::json line = last_step(run, text);
    // Where freed operands of fp32 products lie in the heap is chance, worth up to 24 MiB in one run of about 20.
    for (int again = 0; again < 2 && std::abs(error_of(line)) > 0.03; ++again, ++repeated)
      line = last_step(run, text);
    const double mib = 1 << 20, measured = line["process_peak_bytes"].get<double>(),
                 process = line["planned_process_bytes"].get<double>();
    const std::string row =
        row_of(run, line["planned_bytes"].get<double>() / mib, process / mib, measured / mib);
    table += row;
    CHECK_MESSAGE(line["planned_bytes"] == line["peak_bytes"], row);
    CHECK_MESSAGE(measured >= 150 * mib, row);  // else 3 % would be noise of the program
    CHECK_MESSAGE(std::abs(error_of(line)) <= 0.03, row);
    worst = std::max(worst, std::abs(error_of(line)));
  }
  std::cout << table << fmt::format("worst error {:.2f} %, {} runs repeated\n", 100 * worst, repeated);
  CHECK(repeated <= 4);
}

// Bytes of the files below a folder whose path does not hold `without`.
double bytes_below(const std::filesystem::path& folder, const std::string& without) {
  double sum = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().string().find(without) == std::string::npos)
      sum += double(entry.file_size());
  return sum;
}

// The tokenizer's and config files that travel along (6 kB here) are not in the rows.
TEST_CASE(
    "plan: a checkpoint and the exported model take what the bill says within 1 %, over one rank and four") {
  for (const int ranks : {1, 4}) {
    CAPTURE(ranks);
    const Run run{ranks == 1 ? 0 : 3, "none", 1, "bfloat16", ranks, Start::threads, "float32", false, true};
    const Desk desk;
    desk.write("text.txt", read_file(source_dir() / "docs/RUNNING.md"));
    desk.write("recipe.yaml", recipe_of(run));
    const Words words = {
        "--recipe", "recipe.yaml", "--ranks", std::to_string(ranks), "--set", "checkpoint.export=at_end"};
    Words plan = {"plan", "--json"};
    plan.insert(plan.end(), words.begin(), words.end());
    const Outcome planned = desk.run(plan), trained = desk.run(words);
    REQUIRE_MESSAGE(planned.status == 0, planned.err);
    REQUIRE_MESSAGE(trained.status == 0, trained.err);
    const nlohmann::json bytes = nlohmann::json::parse(planned.out)["bytes"];
    for (const char* step : {"step-00000001", "step-00000002"})
      CHECK(bytes_below(desk.path() / "out/checkpoints" / step, "/hf/") ==
            doctest::Approx(bytes["checkpoint"].get<double>()).epsilon(0.01));
    CHECK(bytes["checkpoints_beside"] == bytes["checkpoint"]);  // two are written
    CHECK(bytes_below(desk.path() / "out/export", ".json") ==
          doctest::Approx(bytes["export"].get<double>()).epsilon(0.01));
  }
}

}  // namespace
}  // namespace zt::test
