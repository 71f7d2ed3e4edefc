// A dry run plans on every rank, compares, and touches neither weights nor disk.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>

#include "e2e/program.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;

std::string config_of(int layers) {
  return nlohmann::json{{"model_type", "llama"},        {"hidden_size", 64},        {"intermediate_size", 96},
                        {"num_hidden_layers", layers},  {"num_attention_heads", 4}, {"vocab_size", 264},
                        {"max_position_embeddings", 64}}
      .dump();
}

// `model` is a folder with a config and no weights.
const std::string kRecipe =
    "run: {output_dir: out}\nmodel: {base: model}\ntokenizer: {type: byte}\n"
    "data: {sequence_length: 32, train: [{path: text.txt}]}\n"
    "train: {max_steps: 7, micro_batch_size: 1, global_batch_size: 12}\ncheckpoint: {every_steps: 2}\n";

void furnish(const Desk& desk, const std::string& folder = "", int layers = 3) {
  fs::create_directories(desk.path() / folder / "model");
  std::ofstream(desk.path() / folder / "model/config.json") << config_of(layers);
  std::ofstream(desk.path() / folder / "text.txt") << "Some words to train on.\n";
  std::ofstream(desk.path() / folder / "recipe.yaml") << kRecipe;
}

std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.path().filename().string().starts_with(".")) names.insert(entry.path().string());
  return names;
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Between the words and the end of their line.
std::string after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? "" : text.substr(at + words.size(), 16);
}

TEST_CASE(
    "dry run: without weights, alone, as threads and under a launcher, all plan and nothing is written") {
  const Desk desk;
  furnish(desk);
  const std::set<std::string> before = names(desk.path());
  std::string list;
  for (const Words& start : {Words{Desk::binary()}, Words{Desk::launcher(), "-n", "1", Desk::binary()},
                             Words{Desk::launcher(), "-n", "4", Desk::binary()}}) {
    Words words = start;
    words.insert(words.end(), {"--recipe", "recipe.yaml", "--dry-run"});
    const Outcome o = desk.finish(desk.start_command(words));
    INFO(o.err);
    CHECK(o.status == 0);
    CHECK(count(o.err, "memory of a rank") == 1);
    CHECK(contains(o.err, "good for 7 steps"));
    CHECK(contains(o.err, "weights and the contents of data files were not looked at; nothing was written"));
    CHECK(names(desk.path()) == before);
    if (contains(o.err, "ranks 0 to 3")) list = after(o.err, "ranks 0 to 3 agree on step list ");
  }
  CHECK(list.size() == 16);
  const Outcome threads = desk.run({"--recipe", "recipe.yaml", "--dry-run", "--ranks", "4"});
  CHECK(threads.status == 0);
  CHECK(after(threads.err, "ranks 0 to 3 agree on step list ") == list);
  CHECK(names(desk.path()) == before);
}

TEST_CASE("dry run: a run for GPUs is planned where there is none, and so does `plan`") {
  const Desk desk;
  furnish(desk);
  const Words gpu = {"--set", "run.device=cuda"};
  const Outcome dry = desk.run({"--dry-run", "--recipe", "recipe.yaml", gpu[0], gpu[1]});
  CHECK(dry.status == 0);
  CHECK(contains(dry.err, "workspace of the kernels"));
  CHECK(contains(dry.err, "memory of the host for the process"));
  const Outcome plan = desk.run({"plan", "--recipe", "recipe.yaml", gpu[0], gpu[1]});
  CHECK(plan.status == 0);
  CHECK(contains(plan.out, "workspace of the kernels"));
  CHECK(contains(plan.out, "the recipe asks for GPUs: name them with --device"));
}

TEST_CASE("dry run: weights that cannot be read do not matter to it, and end the run itself") {
  const Desk desk;
  furnish(desk);
  std::ofstream(desk.path() / "model/model.safetensors") << "no weights";
  CHECK(desk.run({"--recipe", "recipe.yaml", "--dry-run"}).status == 0);
  CHECK(desk.run({"--recipe", "recipe.yaml"}).status == 4);
}

TEST_CASE("dry run: ranks that plan different steps end with status 6, which two is said once") {
  const Desk desk;
  furnish(desk, "a", 3);
  furnish(desk, "b", 4);
  const std::set<std::string> before = names(desk.path());
  const Words dry = {Desk::binary(), "--recipe", "recipe.yaml", "--dry-run"};
  Words words = {Desk::launcher(), "-n", "2", "--wdir", (desk.path() / "a").string()};
  words.insert(words.end(), dry.begin(), dry.end());
  for (const std::string& word : {std::string(":"), std::string("-n"), std::string("1"),
                                  std::string("--wdir"), (desk.path() / "b").string()})
    words.push_back(word);
  words.insert(words.end(), dry.begin(), dry.end());
  const Outcome o = desk.finish(desk.start_command(words));
  INFO(o.err);
  CHECK(o.status == 6);
  CHECK(count(o.err, "ranks 0 and 2 planned different steps (fingerprints ") == 1);
  CHECK_FALSE(contains(o.err, "agree on"));
  CHECK(names(desk.path()) == before);
}

TEST_CASE("dry run: data files that are not there are a fault, all at once") {
  const Desk desk;
  furnish(desk);
  fs::remove(desk.path() / "text.txt");
  const Outcome o = desk.run({"--recipe", "recipe.yaml", "--dry-run"});
  CHECK(o.status == 3);
  CHECK(contains(o.err, "text.txt"));
}

// Puts a calibration of this machine, of one rank, where the program looks for it.
void calibrate(const Desk& desk) {
  std::array<char, 256> host{};
  REQUIRE(::gethostname(host.data(), host.size() - 1) == 0);
  fs::create_directories(desk.path() / "xdg/zerotrain");
  std::ofstream(desk.path() / "xdg/zerotrain" / (std::string(host.data()) + ".yaml"))
      << "name: here\ncalibrated: 2020-01-01T00:00:00Z\nhost_memory: 1000000000000\nnodes:\n"
         "  - ranks: 1\n    memory_bandwidth: 1e18\n    step_seconds: 2.5\n"
         "    rates: [{kernel: product, dtype: float32, per_second: 1e18}]\n";
}

TEST_CASE("a calibrated machine: runs and dry runs say what a step will take, and for how old a reason") {
  const Desk desk;
  furnish(desk);
  CHECK_FALSE(contains(desk.run({"--recipe", "recipe.yaml", "--dry-run"}).err, "planned: "));
  calibrate(desk);
  // 12 rows of 32 tokens in 2.5 seconds.
  const std::string words = "planned: 2.5 s a step, 154 tokens/s, by this machine's calibration, ";
  const Outcome dry = desk.run({"--recipe", "recipe.yaml", "--dry-run"});
  INFO(dry.err);
  CHECK(contains(dry.err, words));
  CHECK(contains(dry.err, " days old"));
  CHECK(contains(dry.err, "time of a step on 'here', 1 rank"));
  // Two ranks were not measured.
  CHECK_FALSE(contains(desk.run({"--recipe", "recipe.yaml", "--dry-run", "--ranks", "2"}).err, "planned: "));
  const std::string config = "model.config=" + config_of(2);
  const Outcome run = desk.run({"--recipe", "recipe.yaml", "--set", "model.base=null", "--set", config,
                                "--set", "train.max_steps=1", "--set", "checkpoint.export=never"});
  INFO(run.err);
  CHECK(run.status == 0);
  CHECK(contains(run.err, words));
  CHECK(contains(read_file(desk.path() / "out/plan.txt"), "time of a step on 'here', 1 rank"));
}

}  // namespace
}  // namespace zt::test
