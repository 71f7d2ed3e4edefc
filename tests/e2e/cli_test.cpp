// The command line as a person meets it: what it says, where it says it, and its exit status.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "base/text.h"
#include "e2e/program.h"
#include "exchange/safetensors.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;

const std::string kRecipe = R"(run: {output_dir: out, seed: 7}
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
           num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}
tokenizer: {type: byte}
data:
  sequence_length: 32
  train: [{path: text.txt}]
  validation: {fraction: 0.1}
train: {max_steps: 12, micro_batch_size: 2, global_batch_size: 4, eval_every: 6}
optimizer: {learning_rate: 1e-3}
lr_schedule: {name: cosine, warmup_steps: 4}
)";

std::string lines_of_text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "Line " + std::to_string(i) + " says that the quick brown fox jumps over the lazy dog.\n";
  return text;
}

// A desk with a recipe and a text on it.
struct Workshop : Desk {
  Workshop() {
    write("recipe.yaml", kRecipe);
    write("text.txt", lines_of_text(100));
  }
  Outcome train(Words sets = {}) const { return run(words({"--recipe", "recipe.yaml"}, sets)); }
  // The command's words with each of `sets` as an override.
  static Words words(Words command, const Words& sets) {
    for (const std::string& set : sets) {
      command.push_back("--set");
      command.push_back(set);
    }
    return command;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path())) {
      const std::string name = entry.path().filename();
      if (name[0] != '.' && name != "cache") all.insert(name);
    }
    return all;
  }
};

const Words kCommands = {"plan",   "explain", "check",    "data",     "eval",  "keys",
                         "schema", "manual",  "tokenize", "generate", "export"};

}  // namespace

TEST_CASE("cli: the help of every command has an example and says where its output goes") {
  const Desk desk;
  const Outcome whole = desk.run({"--help"});
  CHECK(whole.status == 0);
  CHECK(whole.err == "");
  CHECK(contains(whole.out, "Example:\n  zerotrain --recipe "));
  CHECK(contains(whole.out, "run.output_dir"));
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    CHECK(contains(whole.out, "\n  " + command + " "));
    const Outcome help = desk.run({command, "--help"});
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK(contains(help.out, "Example:\n  "));
    CHECK(contains(help.out, "zerotrain " + command));
    CHECK((contains(help.out, "To stdout.") || contains(help.out, "To the folder --to.")));
  }
}

TEST_CASE("cli: a wrong command line is status 2, says what is wrong, and prints nothing on stdout") {
  struct Case {
    Words arguments;
    std::string says;
  };
  const std::vector<Case> cases = {
      {{}, "no recipe was given"},
      {{"frobnicate"}, "there is no command 'frobnicate'"},
      {{"genrate", "--model", "x"}, "there is no command 'genrate'; did you mean generate?"},
      {{"--recipes", "x"}, "--recipes"},
      {{"plan"}, "--recipe is required"},
      {{"eval", "--recipe", "recipe.yaml"}, "--model is required"},
      {{"--recipe"}, "--recipe"},
      {{"--recipe", "nothere.yaml"}, "nothere.yaml"},
      {{"--recipe", "."}, "."},
      {{"data", "--recipe", "recipe.yaml", "--rows", "-1"}, "--rows: Value -1 not in range 0 to 1000000000"},
      {{"data", "--recipe", "recipe.yaml", "--rows", "many"}, "many"},
      {{"generate", "--model", "out/export", "--top-p", "2"}, "--top-p"},
      {{"generate", "--model", "out/export", "--temperature", "-1"}, "--temperature"},
      {{"export", "--model", "m", "--to", "t", "--dtype", "int8"}, "--dtype"},
      {{"keys", "optimizr"}, "did you mean optimizer?"},
  };
  const Workshop shop;
  for (const Case& c : cases) {
    CAPTURE(c.says);
    const Outcome o = shop.run(c.arguments);
    CHECK(o.status == 2);
    CHECK(o.out == "");
    CHECK(contains(o.err, "error: "));
    CHECK_MESSAGE(contains(o.err, c.says), o.err);
    if (c.says != ".") CHECK(contains(o.err, "hint: "));
    CHECK(o.err.size() < 700);
  }
  CHECK(shop.names() == std::set<std::string>{"recipe.yaml", "text.txt"});
}

TEST_CASE("cli: a wrong recipe lists all its faults by line, before any file is opened or made") {
  const Workshop shop;
  shop.write("wrong.yaml",
             "model: {base: /no/such/model}\n"
             "data: {train: [{path: /no/such/text}], sequence_lenght: 12}\n"
             "train: {max_steps: 10.5, micro_batch_size: 4, global_batch_size: 6}\n"
             "optimizer: {lr: 1e-5}\n");
  const Outcome o = shop.run({"--recipe", "wrong.yaml"});
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "line 2: unknown key 'data.sequence_lenght'; did you mean sequence_length?"));
  CHECK(contains(o.err, "line 3: train.max_steps"));
  CHECK(contains(o.err, "10.5"));
  CHECK(contains(o.err, "nearest: 4 or 8"));
  CHECK(contains(o.err, "line 4: unknown key 'optimizer.lr': use optimizer.learning_rate"));
  CHECK_FALSE(contains(o.err, "/no/such"));
  CHECK_FALSE(shop.has("runs"));
}

TEST_CASE("cli: a missing, empty or unreadable data file is status 3 and named, and no run is made") {
  const Workshop shop;
  shop.write("empty.txt", "");
  shop.write("blank.txt", " \n\n\t\n");
  shop.write("junk.txt", std::string("good \xFF\xFE bad"));
  fs::create_directories(shop.path() / "nothing");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nothere.txt", "byte"}, {"empty.txt", "byte"}, {"blank.txt", "byte"},
      {"nothing", "byte"},     {"junk.txt", "char"},  {"empty.txt", "char"}};
  for (const auto& [file, tokenizer] : cases) {
    CAPTURE(file);
    CAPTURE(tokenizer);
    const Outcome o = shop.train({"data.train[0].path=" + file, "tokenizer.type=" + tokenizer});
    CHECK(o.status == 3);
    CHECK_MESSAGE(contains(o.err, file), o.err);
    CHECK_FALSE(shop.has("out"));
  }
  const Outcome all = shop.train({"data.train=[{path: gone1.txt}, {path: gone2.txt}]"});
  CHECK(all.status == 3);
  CHECK(contains(all.err, "gone1.txt"));
}

TEST_CASE("cli: a missing or broken model folder is status 4 and named") {
  const Workshop shop;
  shop.write("broken/config.json", "{\"model_type\":");
  for (const std::string folder : {"nofolder", "broken"}) {
    for (const Words& command :
         {Words{"eval", "--model", folder, "--recipe", "recipe.yaml"}, Words{"generate", "--model", folder},
          Words{"export", "--model", folder, "--to", "copy"}, Words{"tokenize", "--tokenizer", folder},
          Words{"--recipe", "recipe.yaml", "--set", "model.config=null", "--set", "model.base=" + folder,
                "--set", "tokenizer=null"}}) {
      CAPTURE(command[0]);
      CAPTURE(folder);
      const Outcome o = shop.run(command);
      CHECK_MESSAGE(o.status == 4, o.err);
      CHECK(o.out == "");
      CHECK(contains(o.err, folder));
      CHECK_FALSE(shop.has("out"));
      CHECK_FALSE(shop.has("copy"));
    }
  }
}

TEST_CASE("cli: an output folder that can't be made is status 7") {
  const Workshop shop;
  const Outcome o = shop.train({"run.output_dir=text.txt/out"});
  CHECK(o.status == 7);
  CHECK(contains(o.err, "text.txt/out"));
  CHECK(contains(o.err, "run.output_dir"));
}

TEST_CASE(
    "cli: a recipe that asks for GPUs is status 7 where there are none, with the reason, and auto trains "
    "on") {
  if (fs::exists("/dev/nvidiactl")) {
    MESSAGE("skipped: this machine may have a GPU");
    return;
  }
  const Workshop shop;
  const Outcome o = shop.train({"run.device=cuda"});
  CHECK(o.status == 7);
  CHECK(contains(o.err, "run.device is cuda, and 1 of 1 ranks can't use a GPU: "));
  CHECK((contains(o.err, "-DZEROTRAIN_CUDA=ON") || contains(o.err, "there is no driver for NVIDIA GPUs")));
  CHECK(contains(o.err, "hint: run.device: auto takes the processor"));
  const Outcome on = shop.train({"run.device=auto", "run.output_dir=auto"});
  CHECK(on.status == 0);
  CHECK(nlohmann::json::parse(shop.read("auto/run.json"))["device"] == "cpu");
}

TEST_CASE("cli: a run leaves its folder, talks on stderr only, and is not overwritten") {
  const Workshop shop;
  const Outcome first = shop.train();
  REQUIRE_MESSAGE(first.status == 0, first.err);
  CHECK(first.out == "");
  CHECK(contains(first.err, "step 12/12  loss "));
  CHECK_FALSE(contains(first.err, "\r"));     // no bar without a terminal
  CHECK_FALSE(contains(first.err, "\x1b["));  // and no colours
  for (const char* name : {"recipe.yaml", "plan.txt", "metrics.jsonl", "log.txt", "export/config.json",
                           "export/model.safetensors", "export/tokenizer.json"}) {
    CAPTURE(name);
    CHECK(shop.has(std::string("out/") + name));
  }
  CHECK(contains(shop.read("out/log.txt"), "validation loss"));
  CHECK(contains(shop.read("out/plan.txt"), "fingerprint"));
  const std::string metrics = shop.read("out/metrics.jsonl"),
                    weights = shop.read("out/export/model.safetensors");

  const Outcome second = shop.train();
  CHECK(second.status == 2);
  CHECK(contains(second.err, "run folder out already holds a run"));
  CHECK(contains(second.err, "--set run.output_dir=out-2"));
  CHECK(shop.read("out/metrics.jsonl") == metrics);
  CHECK(shop.read("out/export/model.safetensors") == weights);

  // The resolved recipe that the run left makes the same run again.
  const Outcome again = shop.run({"--recipe", "out/recipe.yaml", "--set", "run.output_dir=again"});
  CHECK(again.status == 0);
  CHECK(shop.read("again/export/model.safetensors") == weights);
}

TEST_CASE("cli: a run folder never takes a person's own files of the same names") {
  const Workshop shop;
  const Outcome o = shop.train({"run.output_dir=."});
  CHECK(o.status == 2);
  CHECK(contains(o.err, "recipe.yaml"));
  CHECK(shop.read("recipe.yaml") == kRecipe);
  CHECK_FALSE(shop.has("metrics.jsonl"));
}

TEST_CASE("cli: a dry run and the looking commands write nothing") {
  const Workshop shop;
  const Outcome dry = shop.run({"--recipe", "recipe.yaml", "--dry-run"});
  CHECK(dry.status == 0);
  CHECK(dry.out == "");
  CHECK(contains(dry.err, "12 steps"));
  CHECK(contains(dry.err, "nothing was written"));
  for (const char* command : {"plan", "explain", "check", "data"}) {
    CAPTURE(command);
    const Outcome o = shop.run({command, "--recipe", "recipe.yaml"});
    CHECK(o.status == 0);
    CHECK(o.out != "");
    if (std::string(command) != "data") CHECK(o.err == "");
  }
  CHECK(shop.names() == std::set<std::string>{"recipe.yaml", "text.txt"});
}

TEST_CASE("cli: metrics lines are JSON with exactly the documented fields, and tell one story") {
  const Workshop shop;
  REQUIRE(shop.train().status == 0);
  const std::set<std::string> step_fields = {"step",
                                             "epoch",
                                             "loss",
                                             "supervised_tokens",
                                             "tokens",
                                             "slots",
                                             "learning_rate",
                                             "grad_norm",
                                             "loss_scale",
                                             "skipped",
                                             "step_seconds",
                                             "tokens_per_second",
                                             "mfu",
                                             "exposed_comm_seconds",
                                             "peak_bytes",
                                             "planned_bytes",
                                             "process_peak_bytes",
                                             "planned_process_bytes",
                                             "traffic",
                                             "batch_hash",
                                             "cost_imbalance"};
  const std::set<std::string> eval_fields = {"step", "eval_loss", "eval_tokens"};
  std::vector<std::int64_t> steps, evals;
  for (const nlohmann::json& line : json_lines(shop.read("out/metrics.jsonl"))) {
    std::set<std::string> fields;
    for (const auto& [name, value] : line.items()) fields.insert(name);
    const std::int64_t step = line["step"];
    if (line.contains("eval_loss")) {
      CHECK(fields == eval_fields);
      evals.push_back(step);
      continue;
    }
    CHECK(fields == step_fields);
    steps.push_back(step);
    CHECK(line["traffic"].size() == 3);
    CHECK(line["slots"] == 4 * 32);
    CHECK(line["tokens"].get<int>() <= 4 * 32);  // the text's last row is short
    CHECK(line["supervised_tokens"].get<int>() == line["tokens"].get<int>() - 4);
    CHECK(line["loss"].get<double>() > 0);
    CHECK(line["loss"].get<double>() < 6);  // ln 264 = 5.58 at the start
    CHECK(line["skipped"] == false);
    CHECK(line["planned_bytes"] == line["peak_bytes"]);
    if (step <= 4) CHECK(line["learning_rate"].get<double>() == 1e-3 * double(step) / 4);
  }
  CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(evals == std::vector<std::int64_t>{0, 6, 12});
}

TEST_CASE("cli: log_every thins the step lines but keeps the last step") {
  const Workshop shop;
  REQUIRE(shop.train({"train.log_every=5"}).status == 0);
  std::vector<std::int64_t> steps;
  for (const nlohmann::json& line : json_lines(shop.read("out/metrics.jsonl")))
    if (line.contains("loss")) steps.push_back(line["step"]);
  CHECK(steps == std::vector<std::int64_t>{5, 10, 12});
}

TEST_CASE(
    "cli: two runs of one recipe give the same metrics and weights, byte for byte, except for what the "
    "system measures") {
  const Workshop shop;
  REQUIRE(shop.train({"run.output_dir=a", "model.dropout=0.1"}).status == 0);
  REQUIRE(shop.train({"run.output_dir=b", "model.dropout=0.1"}).status == 0);
  REQUIRE(shop.train({"run.output_dir=c", "model.dropout=0.1", "run.seed=8"}).status == 0);
  const auto timeless = [&shop](const std::string& name) {
    std::string text;
    for (nlohmann::json& line : json_lines(shop.read(name + "/metrics.jsonl"))) {
      for (const char* measured : {"step_seconds", "tokens_per_second", "mfu", "process_peak_bytes"})
        line.erase(measured);
      text += line.dump() + "\n";
    }
    return text;
  };
  CHECK(timeless("a") == timeless("b"));
  CHECK(shop.read("a/export/model.safetensors") == shop.read("b/export/model.safetensors"));
  CHECK(timeless("a") != timeless("c"));
}

TEST_CASE("cli: policy never changes the numbers: recompute gives the same bits") {
  const Workshop shop;
  REQUIRE(shop.train({"run.output_dir=none", "model.dropout=0.1"}).status == 0);
  for (const std::string recompute : {"full", "sqrt", "{every: 2}"}) {
    CAPTURE(recompute);
    const std::string folder = "r" + std::string(1, recompute[0]);
    REQUIRE(shop.train({"run.output_dir=" + folder, "model.dropout=0.1", "memory.recompute=" + recompute})
                .status == 0);
    CHECK(shop.read(folder + "/export/model.safetensors") == shop.read("none/export/model.safetensors"));
  }
}

TEST_CASE("cli: an export is evaluated, generates, is exported again and is trained on") {
  const Workshop shop;
  REQUIRE(shop.train().status == 0);
  const nlohmann::json last = evaluations(shop.read("out/metrics.jsonl")).back();
  const Outcome eval = shop.run({"eval", "--model", "out/export", "--recipe", "recipe.yaml"});
  REQUIRE_MESSAGE(eval.status == 0, eval.err);
  const nlohmann::json line = nlohmann::json::parse(eval.out);
  CHECK(line["eval_tokens"] == last["eval_tokens"]);
  CHECK(line["eval_loss"].get<double>() == last["eval_loss"].get<double>());
  // Validation data of its own is all that eval opens: the training text may be gone.
  const Outcome alone =
      shop.run({"eval", "--model", "out/export", "--recipe", "recipe.yaml", "--set",
                "data.train=[{path: gone.txt}]", "--set", "data.validation=[{path: recipe.yaml}]"});
  CHECK_MESSAGE(alone.status == 0, alone.err);

  // Its weights unchanged through another export, tensor by tensor.
  REQUIRE(shop.run({"export", "--model", "out/export", "--to", "copy"}).status == 0);
  const exchange::SafetensorsFile before(shop.path() / "out/export/model.safetensors");
  const exchange::SafetensorsFile after(shop.path() / "copy/model.safetensors");
  REQUIRE(before.tensors().size() == after.tensors().size());
  CHECK(shop.read("copy/model.safetensors") == shop.read("out/export/model.safetensors"));
  CHECK(nlohmann::json::parse(shop.read("copy/config.json")) ==
        nlohmann::json::parse(shop.read("out/export/config.json")));

  // As the base of another run it starts where the first one ended.
  const Outcome more = shop.train({"model.config=null", "model.base=out/export", "tokenizer=null",
                                   "run.output_dir=more", "optimizer.learning_rate=1e-4"});
  REQUIRE_MESSAGE(more.status == 0, more.err);
  const auto evals = evaluations(shop.read("more/metrics.jsonl"));
  CHECK(evals.front()["eval_loss"].get<double>() == last["eval_loss"].get<double>());
  CHECK(evals.back()["eval_loss"].get<double>() < last["eval_loss"].get<double>());
  CHECK(nlohmann::json::parse(shop.read("more/export/config.json")) ==
        nlohmann::json::parse(shop.read("out/export/config.json")));
}

TEST_CASE("cli: generate is a function of its seed, greedy needs none, and a text ends after --max-tokens") {
  const Workshop shop;
  REQUIRE(shop.train().status == 0);
  const auto generate = [&shop](Words more) {
    Words words = {"generate", "--model", "out/export", "--prompt", "Line 1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = shop.run(words);
    CHECK(o.status == 0);
    CHECK(o.err == "");
    return o.out;
  };
  const std::string a = generate({"--max-tokens", "24", "--seed", "1"});
  CHECK(a.substr(0, 6) == "Line 1");
  CHECK(a.size() <= 6 + 24 * 14 + 1);
  CHECK(a == generate({"--max-tokens", "24", "--seed", "1"}));
  CHECK(a != generate({"--max-tokens", "24", "--seed", "2"}));
  const std::string greedy = generate({"--max-tokens", "24", "--greedy"});
  CHECK(greedy == generate({"--max-tokens", "24", "--greedy", "--seed", "5"}));
  CHECK(greedy == generate({"--max-tokens", "24", "--temperature", "0"}));
  CHECK(greedy == generate({"--max-tokens", "24", "--top-p", "0"}));
  CHECK(generate({"--max-tokens", "0"}) == "Line 1\n");
  // The model's context is 64 tokens, here bytes: a text may grow beyond it, a prompt may not.
  CHECK(generate({"--greedy", "--max-tokens", "100"}).size() > 64);
  const Outcome o = shop.run({"generate", "--model", "out/export", "--prompt", std::string(65, 'x')});
  CHECK(o.status == 2);
  CHECK(o.out == "");
  CHECK(contains(o.err, "the prompt has 65 tokens; the model's context is 64"));
}

TEST_CASE("cli: tokenize and its way back give the line again") {
  const Workshop shop;
  REQUIRE(shop.train({"tokenizer.type=char", "data.add_eos=false"}).status == 0);
  for (const std::string tokenizer : {"byte", "out/export"}) {
    CAPTURE(tokenizer);
    const std::string line =
        tokenizer == "byte" ? "na\xC3\xAFve text\n\nof three lines\n" : "says that\nthe fox\n";
    const Outcome ids = shop.run({"tokenize", "--tokenizer", tokenizer}, line);
    CHECK(ids.status == 0);
    CHECK(ids.err == "");
    CHECK(ids.out.find_first_not_of("0123456789 \n") == std::string::npos);
    CHECK(shop.run({"tokenize", "--tokenizer", tokenizer, "--decode"}, ids.out).out == line);
  }
  const Outcome wrong = shop.run({"tokenize", "--tokenizer", "byte", "--decode"}, "1 2\n3 x\n");
  CHECK(wrong.status == 3);
  CHECK(contains(wrong.err, "stdin:2: 'x'"));
  CHECK(shop.run({"tokenize", "--tokenizer", "byte", "--decode"}, "99999\n").status == 3);
}

TEST_CASE("cli: data shows the rows as they will be trained") {
  const Workshop shop;
  shop.write("tiny.txt",
             "\xEF\xBB\xBF"
             "ab\r\ncd\r\n");
  const Outcome o = shop.run(
      Workshop::words({"data", "--recipe", "recipe.yaml", "--rows", "5"},
                      {"data.train[0].path=tiny.txt", "data.validation=null", "train.eval_every=0"}));
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const auto rows = json_lines(o.out);
  REQUIRE(rows.size() == 1);
  // The byte-order mark is no text; line ends stay as they are; <eos> is 257.
  CHECK(rows[0]["ids"] == nlohmann::json({97, 98, 13, 10, 99, 100, 13, 10, 257}));
  CHECK(rows[0]["labels"] == rows[0]["ids"]);
  CHECK(rows[0]["documents"] == nlohmann::json({0, 9}));
  CHECK(rows[0]["id"].get<std::string>().substr(0, 8) == "tiny.txt");
  CHECK(contains(o.err, "training tiny.txt: 1 document; 9 tokens, 88.9 % trained, in 1 row of up to"));

  // The first rows shown are the first rows trained: their hash is the first step's.
  CHECK(shop.run({"data", "--recipe", "recipe.yaml", "--rows", "0"}).out == "");
}

TEST_CASE("cli: plan, explain, check, keys and schema print what they promise on stdout") {
  const Workshop shop;
  const nlohmann::json plan =
      nlohmann::json::parse(shop.run({"plan", "--recipe", "recipe.yaml", "--json"}).out);
  std::int64_t sum = 0;
  for (const nlohmann::json& row : plan["rows"])
    if (row["place"] == "device") sum += row["bytes"].get<std::int64_t>();
  CHECK(plan["total_bytes"] == sum);
  const std::string fingerprint = plan["train_fingerprint"];
  CHECK(contains(shop.run({"plan", "--recipe", "recipe.yaml"}).out, fingerprint));
  const std::string list = shop.run({"explain", "--recipe", "recipe.yaml"}).out;
  for (const char* op : {"forward b1 m0", "head b3 m1", "backward b2 m1", "update"})
    CHECK(contains(list, op));
  const std::string resolved = shop.run({"check", "--recipe", "recipe.yaml", "--set", "run.seed=9"}).out;
  CHECK(contains(resolved, "seed: 9  # command line"));
  CHECK(contains(resolved, "sequence_length: 32  # recipe.yaml:7"));
  CHECK(contains(resolved, "weight_decay: 0.1  # default"));
  CHECK(contains(shop.run({"keys", "optimizer"}).out, "learning_rate"));
  const nlohmann::json schema = nlohmann::json::parse(shop.run({"schema"}).out);
  CHECK(schema["properties"].contains("optimizer"));
  CHECK(contains(shop.run({"manual"}).out, "| `learning_rate` |"));
  CHECK(contains(shop.run({"--version"}).out, "zerotrain "));
}

TEST_CASE("cli: results that can't be written are an error, not a silent success") {
  const Workshop shop;
  if (!fs::exists("/dev/full")) return;
  const pid_t child = shop.start({"keys"}, "", "1", "/dev/full");
  const Outcome o = shop.finish(child, 60);
  CHECK(o.status == 7);
  CHECK(contains(o.err, "stdout"));
}

TEST_CASE("cli: SIGINT and SIGTERM stop after the step at hand, with a checkpoint and status 75") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const Workshop shop;
    const pid_t child = shop.start(
        {"--recipe", "recipe.yaml", "--set", "train.max_steps=1000000", "--set", "train.eval_every=0"});
    REQUIRE(shop.wait_for("out/metrics.jsonl", "\"step\":3,"));
    ::kill(child, signal);
    const Outcome o = shop.finish(child, 60);
    CHECK(o.status == 75);
    CHECK(contains(
        o.err, signal == SIGINT ? "SIGINT ended the run after step " : "SIGTERM ended the run after step "));
    CHECK(contains(o.err, "it goes on from there when it is started again"));
    CHECK_FALSE(shop.has("out/export"));
    // Every metrics line is whole, and the checkpoint is good.
    const auto lines = json_lines(shop.read("out/metrics.jsonl"));
    CHECK(lines.size() > 3);
    const int stopped = lines.back().at("step");
    const std::string checkpoint = zt::cat("out/checkpoints/step-", fmt::format("{:08}", stopped));
    CHECK(shop.run({"checkpoint", "verify", checkpoint}).status == 0);
    CHECK(shop.run({"generate", "--model", checkpoint, "--max-tokens", "3"}).status == 0);
    const Outcome again = shop.train({zt::cat("train.max_steps=", stopped + 2), "train.eval_every=0"});
    CHECK(again.status == 0);
    CHECK(contains(again.err, zt::cat("going on after step ", stopped)));
    CHECK(json_lines(shop.read("out/metrics.jsonl")).at(std::size_t(stopped) + 1).at("step") == stopped + 1);
    CHECK(shop.has("out/export/model.safetensors"));
    for (const auto& entry : fs::directory_iterator(shop.path() / "out")) {
      const std::string name = entry.path().filename();
      CAPTURE(name);
      CHECK_FALSE(contains(name, "partial"));
      CHECK_FALSE(contains(name, "tmp"));
    }
  }
}

TEST_CASE("cli: a second SIGINT ends at once with status 130, and no half export is left") {
  const Workshop shop;
  // One step takes seconds, so that the second signal comes inside it.
  const pid_t child = shop.start(
      Workshop::words({"--recipe", "recipe.yaml"},
                      {"train.max_steps=1000", "train.eval_every=0", "train.global_batch_size=20000",
                       "train.micro_batch_size=20", "data.validation=null"}));
  REQUIRE(shop.wait_for(".err1", "steps of 20000 rows"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(child, SIGINT);
  REQUIRE(shop.wait_for(".err1", "stopping after this step"));
  ::kill(child, SIGINT);
  const Outcome o = shop.finish(child, 60);
  CHECK(o.status == 130);
  CHECK_FALSE(shop.has("out/export"));
}

TEST_CASE(
    "cli: a run folder in use by a running process is refused; after that process died it is not locked") {
  const Workshop shop;
  const pid_t child =
      shop.start({"--recipe", "recipe.yaml", "--set", "train.max_steps=1000000"}, "", "background");
  REQUIRE(shop.wait_for("out/metrics.jsonl", "\"step\":1,"));
  const Outcome o = shop.train();
  CHECK(o.status == 2);
  CHECK(contains(o.err, "run folder out is in use by another process"));
  CHECK(contains(o.err, "run.output_dir=out-2"));
  ::kill(child, SIGKILL);
  CHECK(shop.finish(child, 60, "background").status == 128 + SIGKILL);
  // What the killed run measured is whole to the last line but one, and the folder still counts as used.
  const Outcome after = shop.train();
  CHECK(after.status == 2);
  CHECK(contains(after.err, "already holds a run"));
}

TEST_CASE("cli: a model that can't fit is refused in no time, with numbers and the nearest policy") {
  const Workshop shop;
  const Words huge = {
      "model.config={model_type: llama, hidden_size: 8192, intermediate_size: 28672, num_hidden_layers: "
      "80, num_attention_heads: 64, num_key_value_heads: 8, max_position_embeddings: 4096}"};
  const Outcome o = shop.train(huge);
  CHECK(o.status == 7);
  CHECK(o.seconds < 2);
  CHECK(contains(o.err, "not enough memory: the plan needs "));
  CHECK(contains(o.err, "GiB are free"));
  CHECK(contains(o.err, "the least is "));
  CHECK_FALSE(shop.has("out"));
  const Outcome dry = shop.run(Workshop::words({"--recipe", "recipe.yaml", "--dry-run"}, huge));
  CHECK(dry.status == 7);

  // Only the batch is too large: a smaller one is named, and the named settings fit. Nothing is trained here.
  const Words wide = {"train.micro_batch_size=4000000", "train.global_batch_size=4000000"};
  const Outcome batch = shop.train(wide);
  CHECK(batch.status == 7);
  CHECK(contains(batch.err, "activations"));
  const std::string flag = "--set train.micro_batch_size=";
  REQUIRE(contains(batch.err, flag));
  const std::int64_t fits = std::stoll(batch.err.substr(batch.err.find(flag) + flag.size()));
  CHECK(fits < 4000000);
  CHECK(4000000 % fits == 0);
  const Outcome plan = shop.run(Workshop::words({"plan", "--recipe", "recipe.yaml"},
                                                {"train.micro_batch_size=" + std::to_string(fits),
                                                 "train.global_batch_size=" + std::to_string(2 * fits)}));
  CHECK(plan.status == 0);
}

TEST_CASE("cli: numbers that are not finite end the run with status 5 and advice") {
  const Workshop shop;
  const Outcome o = shop.train({"optimizer.learning_rate=10", "optimizer.weight_decay=1e12",
                                "train.max_steps=100", "lr_schedule.name=constant"});
  CHECK(o.status == 5);
  CHECK(contains(o.err, "was skipped: "));
  CHECK(contains(o.err, "is not finite; 5 steps in a row"));
  CHECK(contains(o.err, "optimizer.learning_rate"));
  CHECK_FALSE(shop.has("out/export"));
  const auto lines = json_lines(shop.read("out/metrics.jsonl"));
  int skipped = 0;
  for (const nlohmann::json& line : lines) skipped += line.contains("skipped") && line["skipped"] == true;
  CHECK(skipped == 5);
}

// Micikevicius et al. 2018, section 3.2: a scale that is too large is halved until the step fits.
TEST_CASE("cli: in float16, steps that overflow are skipped: the scale falls, and nothing else moves") {
  const Workshop shop;
  const Outcome o = shop.train({"model.dtype=float16", "precision.loss_scale_init=4294967296",
                                "train.max_steps=40", "lr_schedule.warmup_steps=5", "train.log_every=1"});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  CHECK(contains(o.err, "; the loss scale is now 2147483648"));
  double scale = 4294967296;
  int skipped = 0, updates = 0;
  std::vector<double> rates;
  for (const nlohmann::json& line : json_lines(shop.read("out/metrics.jsonl"))) {
    if (!line.contains("loss")) continue;
    CHECK(line["loss_scale"].get<double>() == scale);
    const bool skip = line["skipped"];
    skipped += skip ? 1 : 0;
    if (skip) scale /= 2;
    // The rate belongs to the number of updates, not of steps.
    if (updates < int(rates.size()))
      CHECK(line["learning_rate"].get<double>() == rates[std::size_t(updates)]);
    else
      rates.push_back(line["learning_rate"]);
    updates += skip ? 0 : 1;
  }
  CHECK(skipped > 5);
  CHECK(updates > 10);
  CHECK(rates[1] == doctest::Approx(2 * rates[0]));
}

// Rows that are no multiple of the batch.
TEST_CASE("cli: the last, short batch of the last epoch is trained by its own count of tokens") {
  const Workshop shop;
  // 5 rows: four of 32 ids that share an id with their neighbour, and a short one.
  shop.write("five.txt", lines_of_text(10).substr(0, 4 * 31 + 20));
  for (const std::string micro : {"1", "2", "4"}) {
    CAPTURE(micro);
    const std::string folder = "m" + micro;
    REQUIRE(shop.train({"data.train[0].path=five.txt", "data.validation=null", "train.eval_every=0",
                        "data.add_eos=false", "train.max_steps=null", "train.epochs=1",
                        "run.output_dir=" + folder, "train.micro_batch_size=" + micro,
                        "train.global_batch_size=4", "lr_schedule.warmup_steps=0"})
                .status == 0);
    const auto lines = json_lines(shop.read(folder + "/metrics.jsonl"));
    REQUIRE(lines.size() == 2);
    // Every step from one byte to the next is trained once: 143 over both steps.
    const std::int64_t first = lines[0]["supervised_tokens"], second = lines[1]["supervised_tokens"];
    CHECK(first + second == 4 * 31 + 19);
    CHECK((second == 31 || second == 19));
    CHECK(lines[1]["epoch"] == doctest::Approx(1.0));
    CHECK(lines[1]["loss"].get<double>() > 4);  // a mean over 8 rows' worth of slots would be far lower
  }
  const auto tail = [&shop](const std::string& folder) {
    return json_lines(shop.read(folder + "/metrics.jsonl"))[1]["loss"].get<double>();
  };
  CHECK(tail("m1") == doctest::Approx(tail("m4")).epsilon(1e-5));
  CHECK(tail("m2") == doctest::Approx(tail("m4")).epsilon(1e-5));
}

// The order is a fresh one each epoch, and a function of the seed alone.
TEST_CASE("cli: each epoch trains every row once, in an order of its own") {
  const Workshop shop;
  std::string numbers;  // no two rows are equal
  for (int i = 100; numbers.size() < 400; ++i) numbers += std::to_string(i) + " ";
  shop.write("ten.txt", numbers.substr(0, 10 * 31 + 1));
  const auto hashes = [&shop](const std::string& folder, const std::string& seed) {
    REQUIRE(shop.train({"data.train[0].path=ten.txt", "data.validation=null", "train.eval_every=0",
                        "data.add_eos=false", "train.max_steps=null", "train.epochs=3",
                        "run.output_dir=" + folder, "train.micro_batch_size=1", "train.global_batch_size=1",
                        "run.seed=" + seed})
                .status == 0);
    std::vector<std::string> list;
    for (const nlohmann::json& line : json_lines(shop.read(folder + "/metrics.jsonl")))
      list.push_back(line["batch_hash"]);
    return list;
  };
  const std::vector<std::string> all = hashes("a", "7");
  REQUIRE(all.size() == 30);
  std::set<std::vector<std::string>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::string> one(all.begin() + 10 * epoch, all.begin() + 10 * (epoch + 1));
    CHECK(std::set<std::string>(one.begin(), one.end()).size() == 10);
    orders.insert(one);
  }
  CHECK(orders.size() == 3);
  CHECK(hashes("b", "7") == all);
  CHECK(hashes("c", "8") != all);
}

}  // namespace zt::test
