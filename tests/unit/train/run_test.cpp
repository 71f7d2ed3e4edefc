// What a run says and keeps: metrics lines, the bar, the run folder, and whether its plan fits.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "comm/mpi.h"
#include "plan/fit.h"
#include "recipe/recipe.h"
#include "support/paths.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/setup.h"

namespace zt::train {

namespace fs = std::filesystem;

static StepMetrics some_step() {
  StepMetrics m;
  m.step = 120;
  m.loss = 2.345;
  m.tokens_per_second = 1234.5;
  m.mfu = 0.61;
  m.grad_norm = 1.5;
  m.batch_hash = "0123456789abcdef";
  return m;
}

TEST_CASE("metrics: a line is one JSON object, and a number that isn't finite is null") {
  StepMetrics m = some_step();
  const auto good = nlohmann::json::parse(json_line(m));
  CHECK(good["step"] == 120);
  CHECK(good["loss"] == 2.345);
  CHECK(good["traffic"]["all_gather"] == 0);
  m.loss = std::nan("");
  m.grad_norm = INFINITY;
  m.skipped = true;
  const std::string line = json_line(m);
  CHECK(line.find('\n') == std::string::npos);
  const auto bad = nlohmann::json::parse(line);
  CHECK(bad["loss"].is_null());
  CHECK(bad["grad_norm"].is_null());
  CHECK(bad["skipped"] == true);
}

TEST_CASE(
    "metrics: every line is on disk as soon as it is written, and a folder that is not there is an error") {
  const test::ScratchDir scratch;
  MetricsLog log(scratch.path() / "metrics.jsonl");
  log.step(some_step());
  log.evaluation(120, 2.5, 1000);
  const std::string text = test::read_file(scratch.path() / "metrics.jsonl");
  CHECK(text == json_line(some_step()) + "\n{\"step\":120,\"eval_loss\":2.5,\"eval_tokens\":1000}\n");
  CHECK_THROWS_AS(MetricsLog{scratch.path() / "none/metrics.jsonl"}, Error);
}

TEST_CASE(
    "metrics: a resumed run keeps whole lines of steps before it, whatever else a broken disk put there") {
  const test::ScratchDir scratch;
  const std::string good = "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":2.25}\n";
  const auto path = scratch.write(
      "metrics.jsonl", good + "{\"step\":\"1\"}\n{\"step\":1.5}\n{\"step\":null}\n[1]\n{}\n\n" +
                           std::string("\0\0\xff\n", 4) + "{\"step\":3,\"loss\":2.0}\n{\"step\":2,\"lo");
  {
    const MetricsLog resumed(path, 2);
  }
  CHECK(test::read_file(path) == good);
}

TEST_CASE(
    "metrics: a long run's file is cut at its step, wherever its lines lie, and the rest of its bytes stay") {
  const test::ScratchDir scratch;
  constexpr std::int64_t kLines = 4000;
  std::string text;
  std::vector<std::size_t> ends = {0};  // of the lines of each step
  for (std::int64_t step = 1; step <= kLines; ++step) {
    const std::size_t filler = step == 1500 ? 200000 : static_cast<std::size_t>(step * 37 % 211);
    text += cat("{\"step\":", step, ",\"loss\":2,\"filler\":\"", std::string(filler, 'x'), "\"}\n");
    if (step % 100 == 0) text += cat("{\"step\":", step, ",\"eval_loss\":2}\n");
    ends.push_back(text.size());
  }
  for (const std::int64_t last : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1499}, std::int64_t{1500},
                                  std::int64_t{3999}, kLines, 2 * kLines}) {
    CAPTURE(last);
    const auto path = scratch.write("metrics.jsonl", text + "{\"step\":4001,\"lo");
    {
      const MetricsLog resumed(path, last);
    }
    CHECK(test::read_file(path) == text.substr(0, ends[static_cast<std::size_t>(std::min(last, kLines))]));
  }
  const auto no_lines = scratch.write("none.jsonl", std::string(std::size_t{32} << 20, 'x'));
  {
    const MetricsLog resumed(no_lines, 5);
  }
  CHECK(fs::file_size(no_lines) == 0);
}

TEST_CASE("progress: the bar fits any width and grows with the steps") {
  StepMetrics m = some_step();
  for (int width = 0; width < 200; ++width) {
    for (const std::int64_t step : {0, 1, 120, 499, 500}) {
      m.step = step;
      CAPTURE(width);
      CHECK(static_cast<int>(bar_line(m, 500, 185, width).size()) <= width);
    }
  }
  m.step = 250;
  const std::string half = bar_line(m, 500, 185, 120);
  CHECK(half.size() == 120);
  CHECK(half.find("250/500  loss 2.3450  1,234 tok/s  MFU 61 %") != std::string::npos);
  CHECK(half.find("3m 05s left") != std::string::npos);
  const auto filled = [](const std::string& bar) { return std::count(bar.begin(), bar.end(), '='); };
  m.step = 500;
  const std::string full = bar_line(m, 500, 0, 120);
  CHECK(filled(full) > 1.8 * static_cast<double>(filled(half)));
  CHECK(full.find('>') == std::string::npos);
}

TEST_CASE("run folder: a run waits a little for one that is ending") {
  const test::ScratchDir scratch;
  int pipe[2] = {};
  REQUIRE(::pipe(pipe) == 0);
  const pid_t ending = ::fork();
  REQUIRE(ending >= 0);
  if (ending == 0) {
    const int lock = ::open((scratch.path() / ".lock").c_str(), O_RDWR | O_CREAT, 0644);
    if (::flock(lock, LOCK_EX) != 0 || ::write(pipe[1], "x", 1) != 1) ::_exit(1);
    ::usleep(400000);
    ::_exit(0);
  }
  char locked = 0;
  REQUIRE(::read(pipe[0], &locked, 1) == 1);
  CHECK_NOTHROW(RunFolder{scratch.path()});
  ::waitpid(ending, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("run folder: one run owns it; it is free again when its owner ends, until it holds a run") {
  const test::ScratchDir scratch;
  const fs::path path = scratch.path() / "a/b";
  {
    const RunFolder first(path);
    CHECK(fs::is_directory(path));
    char host[256] = {};
    REQUIRE(::gethostname(host, sizeof host - 1) == 0);
    const std::string says = cat(
        "run folder ", path.string(), " is in use by another process (process ", ::getpid(), " on ", host,
        ")\n", "  hint: end that one first, or choose another folder: --set run.output_dir=", path.string(),
        "-3");
    fs::create_directories(cat(path.string(), "-2"));
    CHECK_THROWS_WITH_AS(RunFolder{path}, says.c_str(), Error);
  }
  {
    const RunFolder again(path);
  }
  std::ofstream(path / "metrics.jsonl") << "one\n";
  const RunFolder used(path);
  CHECK(used.used());
  CHECK_THROWS_AS(used.require_fresh(), Error);
  used.set_metrics_aside();
  CHECK_FALSE(used.used());
  CHECK(test::read_file(path / "metrics.1.jsonl") == "one\n");
  std::ofstream(path / "metrics.jsonl") << "two\n";
  used.set_metrics_aside();
  CHECK(test::read_file(path / "metrics.1.jsonl") == "one\n");
  CHECK(test::read_file(path / "metrics.2.jsonl") == "two\n");
}

TEST_CASE("run folder: links where a run writes or removes are refused, the folder itself may be one") {
  const test::ScratchDir scratch;
  scratch.write("elsewhere/step-00000001/mine.txt", "kept");
  for (const char* const name :
       {"checkpoints", "export", "metrics.jsonl", "log.txt", ".lock", "tensorboard"}) {
    CAPTURE(name);
    const fs::path path = scratch.path() / cat("run-", name);
    fs::create_directory(path);
    fs::create_symlink(scratch.path() / "elsewhere", path / name);
    const std::string says =
        cat((path / name).string(), " is a link; a run writes and removes files in its own");
    try {
      const RunFolder folder(path);
      FAIL("the link was taken");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::usage);
      CHECK(e.problem().starts_with(says));
      CHECK(e.hint().find("run.output_dir") != std::string::npos);
    }
  }
  CHECK(fs::exists(scratch.path() / "elsewhere/step-00000001/mine.txt"));
  fs::create_directory(scratch.path() / "real");
  fs::create_directory_symlink("real", scratch.path() / "alias");
  const RunFolder folder(scratch.path() / "alias");
  CHECK(fs::exists(scratch.path() / "real/.lock"));
}

TEST_CASE("run folder: the lock ends with its process, and a stale name in it means nothing") {
  const test::ScratchDir scratch;
  const fs::path path = scratch.path() / "run";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder mine(path);
    (void)!::write(ready[1], "r", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  try {
    const RunFolder second(path);
    FAIL("two had the folder");
  } catch (const Error& e) {
    CHECK(e.problem().find(cat("(process ", child, " on ")) != std::string::npos);
  }
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(test::read_file(path / ".lock").starts_with(cat("process ", child, " on ")));
  const RunFolder again(path);
  CHECK(test::read_file(path / ".lock").starts_with(cat("process ", ::getpid(), " on ")));
  scratch.write("run/.lock", "process \x1b[31m1\n");  // nothing that a terminal would obey is shown
  try {
    const RunFolder third(path);
    FAIL("two had the folder");
  } catch (const Error& e) {
    CHECK(e.problem() == cat("run folder ", path.string(), " is in use by another process"));
  }
}

TEST_CASE("run folder: a person's own file of a name that a run writes is kept") {
  for (const char* name : {"recipe.yaml", "plan.txt", "log.txt"}) {
    const test::ScratchDir scratch;
    scratch.write(name, "mine");
    try {
      const RunFolder folder(scratch.path());
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::usage);
      CHECK(e.problem().find(name) != std::string::npos);
    }
    CHECK(test::read_file(scratch.path() / name) == "mine");
  }
}

TEST_CASE("setup: the number of steps counts a last, short batch, and fractions of an epoch") {
  recipe::Train train;
  train.global_batch_size = 4;
  const auto steps = [&train](double epochs, std::int64_t rows) {
    train.epochs = epochs;
    return steps_of(train, rows);
  };
  CHECK(steps(1, 8) == 2);
  CHECK(steps(1, 5) == 2);
  CHECK(steps(1, 3) == 1);  // fewer rows than a batch still train
  CHECK(steps(3, 5) == 4);  // 15 samples
  CHECK(steps(0.5, 16) == 2);
  CHECK(steps(0.1, 30) == 1);  // 3 samples, in spite of 0.1 * 30 > 3 in binary
  train.epochs.reset();
  train.max_steps = 7;
  CHECK(steps_of(train, 5) == 7);
}

static recipe::Recipe recipe_of(const std::string& train) {
  return recipe::parse(
             "model: {config: {model_type: llama, hidden_size: 64, intermediate_size: 128, "
             "num_hidden_layers: 8, num_attention_heads: 4, num_key_value_heads: 2, "
             "max_position_embeddings: 2048, vocab_size: 300}}\n"
             "tokenizer: {type: byte}\n"
             "data: {sequence_length: 2048, train: [{path: x.txt}]}\n"
             "train: {max_steps: 5, global_batch_size: 64, " +
                 train + "}\n",
             "r.yaml")
      .recipe;
}

static std::int64_t planned(const recipe::Recipe& r) {
  return plan::plan_step(open_spec(r), step_shape(r, true)).process_bytes();
}

TEST_CASE("fit: what fits is accepted to the byte; one byte less is refused with a change that fits") {
  const recipe::Recipe r = recipe_of("micro_batch_size: 8");
  const spec::ModelSpec model = open_spec(r);
  const std::int64_t needed = planned(r);
  CHECK_NOTHROW(require_fit(r, model, true, needed));
  CHECK_NOTHROW(require_fit(r, model, true, -1));  // unknown
  try {
    require_fit(r, model, true, needed - 1);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::machine);
    CHECK(e.problem().find(human_bytes(needed)) != std::string::npos);
    CHECK(e.hint().find("--set train.micro_batch_size=4") != std::string::npos);
  }
}

TEST_CASE("fit: batches shrink first, then blocks are recomputed, then numbers get shorter") {
  const recipe::Recipe r = recipe_of("micro_batch_size: 8");
  const spec::ModelSpec model = open_spec(r);
  const auto advice = [&](const recipe::Recipe& least) {
    const std::int64_t bytes = planned(least);
    try {
      require_fit(r, model, true, bytes);
    } catch (const Error& e) {
      CHECK(e.hint().find(human_bytes(bytes)) != std::string::npos);  // it needs what it says
      return e.hint().substr(e.hint().find("--set"));
    }
    return std::string("accepted");
  };
  recipe::Recipe least = recipe_of("micro_batch_size: 1");
  CHECK(advice(least) == "--set train.micro_batch_size=1 --set train.eval_batch_size=1");
  least.memory.recompute.kind = recipe::Recompute::Kind::selective;
  CHECK(advice(least) ==
        "--set memory.recompute=selective --set train.micro_batch_size=1 --set train.eval_batch_size=1");
  least.memory.recompute.kind = recipe::Recompute::Kind::full;
  const std::string recomputed = advice(least);
  CHECK(recomputed.find("memory.recompute=") != std::string::npos);
  CHECK(recomputed.find("bfloat16") == std::string::npos);
  least.model.dtype = recipe::ModelDtype::bfloat16;
  CHECK(advice(least).find("--set model.dtype=bfloat16") != std::string::npos);
}

TEST_CASE(
    "fit: with several ranks a higher ZeRO stage is offered before anything else, and they share a node's "
    "memory") {
  recipe::Recipe r = recipe_of("micro_batch_size: 2");
  r.zero.stage = 0;
  const spec::ModelSpec model = open_spec(r);
  const auto planned_at = [&](int stage, int ranks_here = 4) {
    recipe::Recipe other = r;
    other.zero.stage = stage;
    plan::StepShape shape = step_shape(other, true, 4);
    shape.comm_bytes = ranks_here > 1 ? comm::buffer_bytes_on_one_node(4) : 0;
    return plan::plan_step(model, shape).process_bytes();
  };
  CHECK_NOTHROW(require_fit(r, model, true, 4 * planned_at(0), {4, 4}));
  CHECK_NOTHROW(require_fit(r, model, true, planned_at(0, 1), {4, 1}));
  for (const int stage : {1, 2, 3}) {
    if (planned_at(stage) >= planned_at(stage - 1)) continue;
    try {
      require_fit(r, model, true, 4 * planned_at(stage), {4, 4});
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.problem().find("are free for each rank") != std::string::npos);
      CHECK(e.hint().ends_with(cat(" --set zero.stage=", stage)));
    }
  }
}

TEST_CASE("fit: before batches shrink, checkpoints are written without a copy of the state") {
  recipe::Recipe r = recipe_of("micro_batch_size: 8");
  r.checkpoint.every_steps = 10;
  const spec::ModelSpec model = open_spec(r);
  recipe::Recipe plain = r;
  plain.checkpoint.async = false;
  REQUIRE(planned(plain) < planned(r));
  try {
    require_fit(r, model, true, planned(plain));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint().ends_with(": --set checkpoint.async=false"));
  }
}

TEST_CASE("fit: where nothing helps, the least that is possible is named") {
  const recipe::Recipe r = recipe_of("micro_batch_size: 8");
  try {
    require_fit(r, open_spec(r), true, 1000);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.hint().find("the least is ") != std::string::npos);
    CHECK(e.hint().find("--set") == std::string::npos);
  }
}

TEST_CASE("setup: a row longer than the model's context is refused") {
  const recipe::Recipe r = recipe_of("micro_batch_size: 8");
  spec::ModelSpec model = open_spec(r);
  CHECK_NOTHROW(check_context(r, model));
  model.max_positions = 2047;
  CHECK_THROWS_AS(check_context(r, model), Error);
}

}  // namespace zt::train
