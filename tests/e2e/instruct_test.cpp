// Instruction tuning as a user does it: the shipped recipes' small twins on a real model and real files, what `data` shows,
// and what a run has consumed.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <set>

#include "base/text.h"
#include "e2e/program.h"
#include "e2e/tinystories.h"

namespace zt::test {
namespace {

constexpr const char* kTraining =
    "train: {max_steps: 4, micro_batch_size: 2, global_batch_size: 8, eval_every: 2}\n"
    "optimizer: {learning_rate: 1e-3, weight_decay: 0.0}\n"
    "lr_schedule: {name: constant}\n"
    "zero: {stage: 3}\n";

// `data` is the inside of the recipe's section.
std::string twin(const std::string& data) {
  return cat("run: {output_dir: out}\nmodel: {base: model}\ndata:\n  sequence_length: 256\n", data,
             kTraining);
}

std::string source(const std::filesystem::path& path, const std::string& rest) {
  return cat("    - {path: ", path.string(), ", ", rest, "}\n");
}

struct Files {
  std::filesystem::path alpaca, sharegpt, glaive, messages, weighted, gsm8k, text;
};

std::optional<Files> files() {
  const auto alpaca = test_data("instruct/alpaca/instruction-data.json");
  const auto sharegpt = test_data("instruct/sharegpt/fastchat_dummy_conversation.json");
  const auto glaive = test_data("instruct/sharegpt/glaive_toolcall_en_demo.json");
  const auto messages = test_data("instruct/messages/oasst_en_100_best_thread.messages.jsonl");
  const auto weighted = test_data("instruct/messages/v1_sft_demo.jsonl");
  const auto gsm8k = test_data("instruct/gsm8k/test.jsonl");
  const auto text = test_data("text/tinystories_v1_head.txt");
  if (!alpaca || !sharegpt || !glaive || !messages || !weighted || !gsm8k || !text) return std::nullopt;
  return Files{*alpaca, *sharegpt, *glaive, *messages, *weighted, *gsm8k, *text};
}

void check_run(const Desk& desk, const Words& more, const std::string& what) {
  INFO(what);
  Words words = {"--recipe", "recipe.yaml"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = desk.run(words);
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const auto evals = evaluations(desk.read("out/metrics.jsonl"));
  REQUIRE(evals.size() == 3);
  CHECK(evals.back()["eval_loss"].get<double>() < evals.front()["eval_loss"].get<double>());
  CHECK(desk.has("out/export/model.safetensors"));
  CHECK(contains(desk.read("out/recipe.yaml"), "tokens are trained (train_on: "));
}

TEST_CASE("instruct: small twins of the shipped recipes train a real model on real files") {
  const auto f = files();
  if (!f) return;
  struct Twin {
    const char* recipe;
    std::string data;
    Words ranks;
  };
  const std::vector<Twin> twins = {
      {"alpaca-style-sft",
       cat("  train:\n", source(f->alpaca, "format: alpaca"),
           "  validation: {fraction: 0.05}\n  chat_template: alpaca\n"),
       {}},
      {"sharegpt-sft",
       cat("  train:\n", source(f->sharegpt, "format: sharegpt"),
           "  validation: {fraction: 0.05}\n  chat_template: vicuna\n  overlong: truncate\n"),
       {"--ranks", "2"}},
      {"mixture-sft",
       cat("  train:\n", source(f->alpaca, "format: alpaca, weight: 0.5"),
           source(f->sharegpt, "format: sharegpt, weight: 0.3"),
           source(f->weighted, "format: messages, weight: 0.2"), "  validation:\n",
           source(f->messages, "format: messages"), "  chat_template: vicuna\n"),
       {"--ranks", "4"}},
      {"llama70b-ft",
       cat("  train:\n", source(f->alpaca, "format: alpaca, weight: 0.7"),
           source(f->sharegpt, "format: sharegpt, weight: 0.3"),
           "  validation: {fraction: 0.05}\n  chat_template: llama2\n"),
       {"--ranks", "2"}},
      {"longcontext-32k",
       cat("  train:\n", source(f->text, "format: text, weight: 0.6"),
           source(f->messages, "format: messages, weight: 0.4"),
           "  validation: {fraction: 0.1}\n  chat_template: mistral\n  overlong: truncate\n"),
       {}}};
  for (const Twin& t : twins) {
    const Desk desk;
    if (!copy_tinystories("model.safetensors", desk.path() / "model")) return;
    desk.write("recipe.yaml", twin(t.data));
    check_run(desk, t.ranks, t.recipe);
    CHECK(std::filesystem::exists(source_dir() / "recipes" / cat(t.recipe, ".yaml")));
  }
}

TEST_CASE("instruct: without packing the same rows train, and padding is not counted as tokens") {
  const auto f = files();
  const Desk desk;
  if (!f || !copy_tinystories("model.safetensors", desk.path() / "model")) return;
  desk.write("recipe.yaml", twin(cat("  packing: false\n  train:\n", source(f->alpaca, "format: alpaca"),
                                     "  validation: {fraction: 0.05}\n  chat_template: alpaca\n")));
  check_run(desk, {}, "unpacked");
  for (const auto& line : json_lines(desk.read("out/metrics.jsonl"))) {
    if (!line.contains("loss")) continue;
    CHECK(line["slots"] == 8 * 256);
    CHECK(line["tokens"].get<std::int64_t>() < 8 * 256);
    CHECK(line["supervised_tokens"].get<std::int64_t>() < line["tokens"].get<std::int64_t>());
  }
}

TEST_CASE("instruct: `data` sums up, and shows rows as ids and labels or as text with trained parts marked") {
  const Desk desk;
  desk.write(
      "rows.jsonl",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
      "\"content\": \"Yo\"}]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"\\u001b[31m\\u009b1m\\t<|im_end|>\"}, {\"role\": "
      "\"assistant\", "
      "\"content\": \"ok\"}]}\n");
  desk.write(
      "recipe.yaml",
      "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
      "intermediate_size: 32, max_position_embeddings: 128}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 128, packing: false, chat_template: chatml, train: [{path: rows.jsonl, "
      "format: messages}]}\n"
      "train: {max_steps: 1}\n");
  const Outcome json = desk.run({"data", "--recipe", "recipe.yaml", "--rows", "2"});
  REQUIRE_MESSAGE(json.status == 0, json.err);
  CHECK(contains(json.err, "training rows.jsonl: 2 of 2 rows used; "));
  CHECK(contains(json.err, "chat template: chatml"));
  CHECK(contains(json.err, "tokens are trained (train_on: all_answers)"));
  const auto lines = json_lines(json.out);
  REQUIRE(lines.size() == 2);
  for (const auto& line : lines) {
    if (line["id"] != "rows.jsonl#0") continue;
    // <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n, of which "Yo" and its end are trained.
    CHECK(line["labels"].size() == line["ids"].size());
    std::vector<int> trained;
    for (const auto& label : line["labels"])
      if (label >= 0) trained.push_back(label);
    CHECK(trained == std::vector<int>{'Y', 'o', 260});
    CHECK(line["documents"] == std::vector<int>{0, static_cast<int>(line["ids"].size())});
  }
  const Outcome text = desk.run({"data", "--recipe", "recipe.yaml", "--rows", "2", "--text"});
  REQUIRE(text.status == 0);
  CHECK(contains(text.out, "user\nHi<|im_end|>\n<|im_start|>assistant\n\u27e6Yo<|im_end|>\u27e7"));
  // Data may hold anything; a terminal must not obey it.
  CHECK_FALSE(contains(text.out, "\x1b"));
  // U+009B is ESC [ in one character.
  CHECK_FALSE(contains(text.out, "\xc2\x9b"));
  CHECK(contains(text.out, "\\u001b[31m\\u009b1m\t<|im_end|><|im_end|>"));
}

TEST_CASE("instruct: a template without marks, or none for a chat, ends with the choice of names") {
  const Desk desk;
  desk.write("rows.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
             "\"content\": \"b\"}, "
             "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n");
  const auto recipe = [&](const std::string& form) {
    return cat(
        "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
        "intermediate_size: 32, max_position_embeddings: 128}}\n"
        "tokenizer: {type: byte}\n"
        "data: {sequence_length: 128, chat_template: ",
        form, ", train: [{path: rows.jsonl, format: messages}]}\ntrain: {max_steps: 1}\n");
  };
  desk.write("auto.yaml", recipe("auto"));
  const Outcome automatic = desk.run({"--recipe", "auto.yaml"});
  CHECK(automatic.status == 2);
  CHECK(contains(automatic.err, "auto finds no chat_template"));
  CHECK(contains(automatic.err, "chatml"));
  desk.write("none.yaml", recipe("none"));
  const Outcome none = desk.run({"--recipe", "none.yaml"});
  CHECK(none.status == 3);
  CHECK(contains(none.err, "rows.jsonl:1:1: chat template none has no marks between turns"));
  desk.write("llama3.yaml", recipe("llama3"));
  const Outcome llama3 = desk.run({"--recipe", "llama3.yaml"});
  CHECK(llama3.status == 4);
  CHECK(contains(llama3.err, "<|start_header_id|>"));
  CHECK_FALSE(desk.has("runs"));
}

// The ids a run consumed, from the audit of its newest checkpoint.
std::map<std::string, int> consumed(const Desk& desk, const std::string& checkpoint) {
  const Outcome o = desk.run({"data", "--recipe", "recipe.yaml", "--audit", checkpoint});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  std::map<std::string, int> times;
  for (const auto& line : json_lines(o.out))
    for (const auto& id : line["sources"]) ++times[id.get<std::string>()];
  return times;
}

TEST_CASE(
    "instruct: stopped and resumed on other numbers of ranks, a run consumes every row exactly once an "
    "epoch") {
  const Desk desk;
  std::string rows;
  for (int i = 0; i < 48; ++i)
    rows += cat("{\"prompt\": \"", std::string(static_cast<std::size_t>(1 + i % 7), 'p'),
                "\", \"completion\": \"", i, "\"}\n");
  desk.write("rows.jsonl", rows);
  desk.write(
      "recipe.yaml",
      "run: {output_dir: out}\n"
      "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, "
      "intermediate_size: 32, max_position_embeddings: 16}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 16, packing: false, train: [{path: rows.jsonl, format: completion}]}\n"
      "train: {epochs: 1, micro_batch_size: 1, global_batch_size: 12}\n"
      "checkpoint: {every_steps: 1, keep_last: 10}\n");
  const auto run = [&](const std::string& ranks, const std::string& steps) {
    // A run's length is not its schedule here: the rate is constant enough for two steps.
    const Outcome o =
        desk.run({"--recipe", "recipe.yaml", "--ranks", ranks, "--set", "train.epochs=" + steps});
    REQUIRE_MESSAGE(o.status == 0, o.err);
  };
  run("4", "0.25");
  CHECK(consumed(desk, "out/checkpoints/step-00000001").size() == 12);
  run("2", "0.5");
  run("3", "0.75");
  run("1", "1");
  const auto times = consumed(desk, "out/checkpoints/step-00000004");
  CHECK(times.size() == 48);
  for (const auto& [id, count] : times) CHECK_MESSAGE(count == 1, id);
  // Straight on one rank the batches are the same.
  const auto stopped = json_lines(desk.read("out/metrics.jsonl"));
  const Outcome straight = desk.run({"--recipe", "recipe.yaml", "--set", "run.output_dir=straight"});
  REQUIRE(straight.status == 0);
  const auto lines = json_lines(desk.read("straight/metrics.jsonl"));
  REQUIRE(lines.size() == 4);
  REQUIRE(stopped.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(lines[i]["batch_hash"] == stopped[i]["batch_hash"]);
  // Another recipe's data are not audited by mistake.
  const Outcome other = desk.run({"data", "--recipe", "recipe.yaml", "--set", "data.packing=true", "--audit",
                                  "out/checkpoints/step-00000004"});
  CHECK(other.status == 2);
  CHECK(contains(other.err, "the recipe's data are not those of"));
}

// Whether a token file is being written.
bool tokenizes(const Desk& desk) {
  std::error_code none;
  for (std::filesystem::recursive_directory_iterator entry(desk.path() / "cache", none), end;
       !none && entry != end; entry.increment(none))
    if (entry->path().extension() == ".partial") return true;
  return false;
}

TEST_CASE("instruct: a signal while the data are prepared ends the run at once, and it goes on from there") {
  const Desk desk;
  std::string rows;
  for (int i = 0; rows.size() < (std::size_t{160} << 20); ++i)
    rows += cat("{\"prompt\": \"", i, "\", \"completion\": \"", std::string(1000, 'c'), "\"}\n");
  desk.write("rows.jsonl", rows);
  desk.write(
      "recipe.yaml",
      "run: {output_dir: out}\n"
      "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
      "intermediate_size: 32, max_position_embeddings: 16}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 16, overlong: truncate, train: [{path: rows.jsonl, format: completion}]}\n"
      "train: {max_steps: 1, micro_batch_size: 1, global_batch_size: 2}\n");
  for (const Words& ranks : {Words{}, Words{"--ranks", "2"}}) {
    for (const int signal : {SIGINT, SIGTERM}) {
      CAPTURE(ranks.size());
      CAPTURE(signal);
      std::filesystem::remove_all(desk.path() / "cache");
      Words words = {"--recipe", "recipe.yaml"};
      words.insert(words.end(), ranks.begin(), ranks.end());
      const pid_t run = desk.start(words);
      for (int tries = 0; tries < 12000 && !tokenizes(desk); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      REQUIRE(tokenizes(desk));
      ::kill(run, signal);
      const Outcome o = desk.finish(run, 60);
      INFO(o.err);
      CHECK(o.status == 75);
      CHECK(contains(o.err, cat(signal == SIGINT ? "SIGINT" : "SIGTERM",
                                " ended the run while its data were prepared; it goes on from there")));
      CHECK_FALSE(desk.has("out"));
      CHECK_FALSE(tokenizes(desk));
    }
  }
  const Outcome again = desk.run({"--recipe", "recipe.yaml"});
  CHECK_MESSAGE(again.status == 0, again.err);
}

TEST_CASE("instruct: a text that is cut while it is tokenized ends the run with a reason") {
  const Desk desk;
  std::string text;
  while (text.size() < (std::size_t{160} << 20)) text += "once upon a time there was a cat\n";
  desk.write("text.txt", text);
  desk.write(
      "recipe.yaml",
      "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, "
      "intermediate_size: 32, max_position_embeddings: 16}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 16, train: [{path: text.txt, format: text}]}\n"
      "train: {max_steps: 1}\n");
  const pid_t run = desk.start({"data", "--recipe", "recipe.yaml"});
  for (int tries = 0; tries < 12000 && !tokenizes(desk); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::filesystem::resize_file(desk.path() / "text.txt", 0);
  const Outcome o = desk.finish(run, 60);
  INFO(o.err);
  // It is noticed at the next page that is gone, or where the chunk is finished.
  const bool at_page = o.status == 7 && contains(o.err, "error: a file was cut while it was read");
  const bool at_end = o.status == 3 && contains(o.err, "text.txt changed while it was read");
  CHECK((at_page || at_end));
}

TEST_CASE("instruct: five rows on four ranks end with the supervised tokens of one rank") {
  const Desk desk;
  std::string rows;
  for (int i = 0; i < 5; ++i)
    rows += cat("{\"prompt\": \"p\", \"completion\": \"", std::string(static_cast<std::size_t>(i + 1), 'c'),
                "\"}\n");
  desk.write("rows.jsonl", rows);
  desk.write(
      "recipe.yaml",
      "model: {config: {model_type: llama, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, "
      "intermediate_size: 32, max_position_embeddings: 16}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 16, packing: false, train: [{path: rows.jsonl, format: completion}]}\n"
      "train: {epochs: 1, micro_batch_size: 1, global_batch_size: 4}\n");
  std::map<std::string, std::int64_t> supervised;
  for (const std::string ranks : {"1", "2", "4"}) {
    const Outcome o =
        desk.run({"--recipe", "recipe.yaml", "--ranks", ranks, "--set", "run.output_dir=out" + ranks});
    REQUIRE_MESSAGE(o.status == 0, o.err);
    for (const auto& line : json_lines(desk.read(cat("out", ranks, "/metrics.jsonl"))))
      supervised[ranks] += line["supervised_tokens"].get<std::int64_t>();
  }
  // Completions of 1 to 5 bytes and an end token each.
  CHECK(supervised == std::map<std::string, std::int64_t>{{"1", 20}, {"2", 20}, {"4", 20}});
}

TEST_CASE("instruct: the export of a chat run is asked as it was trained") {
  const Desk desk;
  desk.write("rows.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
             "\"content\": \"Yo\"}]}\n");
  desk.write(
      "recipe.yaml",
      "run: {output_dir: out}\n"
      "model: {config: {model_type: llama, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2, "
      "intermediate_size: 128, max_position_embeddings: 64}}\n"
      "tokenizer: {type: byte}\n"
      "data: {sequence_length: 64, chat_template: chatml, train: [{path: rows.jsonl, format: messages}]}\n"
      "train: {max_steps: 40}\n"
      "optimizer: {learning_rate: 5e-3}\n");
  const Outcome trained = desk.run({"--recipe", "recipe.yaml"});
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  CHECK(desk.has("out/export/chat_template.jinja"));
  const Outcome answer =
      desk.run({"generate", "--model", "out/export", "--chat", "--greedy", "--prompt", "Hi"});
  REQUIRE_MESSAGE(answer.status == 0, answer.err);
  CHECK(answer.out == "Yo\n");
}

}  // namespace
}  // namespace zt::test
