// Which pairs of tokens a run trains, seen from outside: a model whose head alone learns is trained for one step on
// instruction rows by the program, and the exported head shows every pair (input -> target) that was trained.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "e2e/program.h"
#include "exchange/model_folder.h"
#include "support/tiny_models.h"
#include "train/model_source.h"

namespace zt::test {
namespace {

using Pairs = std::set<std::pair<int, int>>;  // input, target
constexpr int kVocabulary = 264, kEos = 257, kStart = 259, kEnd = 260;

const nlohmann::json kConfig = {
    {"model_type", "llama"},    {"hidden_size", kVocabulary},  {"num_hidden_layers", 1},
    {"num_attention_heads", 1}, {"num_key_value_heads", 1},    {"head_dim", 4},
    {"intermediate_size", 8},   {"vocab_size", kVocabulary},   {"max_position_embeddings", 256},
    {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", false}};

// The zero-head probe over the byte tokenizer as a Hugging Face folder.
void write_probe(const std::filesystem::path& folder) {
  train::ModelSource source;
  source.spec = spec::from_config(kConfig, "the probe");
  source.config = spec::to_config(source.spec, kConfig);
  shard::ParamStore store(source.spec, Dtype::f32, false);
  fill_probe(store, source.spec);
  train::export_weights(folder, source, store, *text::byte_tokenizer(), Dtype::f32);
}

Floats head_of(const std::filesystem::path& folder) {
  exchange::ModelFolder model(folder);
  Floats head(static_cast<std::size_t>(kVocabulary) * kVocabulary);
  model.bind(spec::from_config(kConfig, "the probe"));
  model.read("lm_head.weight", 0, static_cast<std::int64_t>(head.size()), head.data(), Dtype::f32);
  return head;
}

// After one AdamW step with learning rate 0.01 from a zero head: +0.01 where i -> j was trained, -0.01 elsewhere in the
// columns of trained inputs, and exactly 0 in all others.
void check_head(const Floats& head, const Pairs& trained) {
  std::set<int> inputs;
  for (const auto& [input, target] : trained) inputs.insert(input);
  Pairs found;
  std::set<int> columns;
  for (int i = 0; i < kVocabulary; ++i) {
    for (int j = 0; j < kVocabulary; ++j) {
      const float value = head[static_cast<std::size_t>(j * kVocabulary + i)];
      if (value != 0.f) columns.insert(i);
      if (value > 0.009f) found.insert({i, j});
    }
  }
  CHECK(columns == inputs);
  CHECK(found == trained);
}

struct Probe {
  const char* what;
  std::string rows, data;  // the file, and what else the section says
  int count;               // rows of a step
  Pairs trained;
  int supervised;
};

std::string chat(const std::vector<std::pair<std::string, std::string>>& turns) {
  nlohmann::json messages = nlohmann::json::array();
  for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  return nlohmann::json{{"messages", messages}}.dump() + "\n";
}

std::vector<Probe> probes() {
  const std::string chatml = "format: messages}], chat_template: chatml";
  const std::string two_turns = chat({{"user", "p"}, {"assistant", "A"}, {"user", "q"}, {"assistant", "B"}});
  const std::string completion = "format: completion}]";
  return {
      {"labels are shifted once",
       "{\"text\": \"123\"}\n",
       "format: text}], add_eos: false",
       1,
       {{'1', '2'}, {'2', '3'}},
       2},
      {"the end is trained",
       "{\"prompt\": \"12\", \"completion\": \"x\"}\n",
       completion,
       1,
       {{'2', 'x'}, {'x', kEos}},
       2},
      {"a turn's end is trained once, and nothing behind it",
       chat({{"user", "Hi"}, {"assistant", "Yo"}}),
       chatml,
       1,
       {{'\n', 'Y'}, {'Y', 'o'}, {'o', kEnd}},
       3},
      {"an answer of one byte is trained",
       "{\"instruction\": \"a\", \"output\": \"7\"}\n",
       "format: alpaca}], chat_template: alpaca",
       1,
       {{'\n', '7'}, {'7', kEos}},
       2},
      {"all answers", two_turns, chatml, 1, {{'\n', 'A'}, {'A', kEnd}, {'\n', 'B'}, {'B', kEnd}}, 4},
      {"the last answer", two_turns, chatml + ", train_on: last_answer", 1, {{'\n', 'B'}, {'B', kEnd}}, 2},
      {"turns of one role in a row stay, and the answer is trained",
       "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"human\", \"value\": "
       "\"b\"}, "
       "{\"from\": \"gpt\", \"value\": \"C\"}]}\n",
       "format: sharegpt}], chat_template: chatml",
       1,
       {{'\n', 'C'}, {'C', kEnd}},
       2},
      {"what spells a control token is text",
       "{\"prompt\": \"p\", \"completion\": \"<eos>\"}\n",
       completion,
       1,
       {{'p', '<'}, {'<', 'e'}, {'e', 'o'}, {'o', 's'}, {'s', '>'}, {'>', kEos}},
       6},
      {"packed documents do not train across the joint",
       "{\"text\": \"12\"}\n{\"text\": \"34\"}\n",
       "format: text}], add_eos: false, packing: true",
       1,
       {{'1', '2'}, {'3', '4'}},
       2},
      {"three rows in a window of four are one step",
       "{\"text\": \"12\"}\n{\"text\": \"34\"}\n{\"text\": \"56\"}\n",
       "format: text}], add_eos: false, packing: false",
       4,
       {{'1', '2'}, {'3', '4'}, {'5', '6'}},
       3},
      {"one begin token, nothing learned from it in an answer",
       "{\"prompt\": \"p\", \"completion\": \"x\"}\n",
       completion + ", add_bos: true",
       1,
       {{'p', 'x'}, {'x', kEos}},
       2},
      {"weights of a row: the first answer has none",
       "{\"messages\": [{\"role\": \"user\", \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": "
       "\"A\", \"loss_weight\": 0}, "
       "{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"B\", "
       "\"loss_weight\": 1}]}\n",
       chatml,
       1,
       {{'\n', 'B'}, {'B', kEnd}},
       2}};
}

TEST_CASE(
    "mask probe: the exported head shows that exactly the right pairs were trained, on 1, 2 and 4 ranks") {
  const Desk desk;
  write_probe(desk.path() / "model");
  for (const Probe& probe : probes()) {
    for (const int ranks : {1, 2, 4}) {
      INFO(probe.what);
      CAPTURE(ranks);
      desk.write("rows.jsonl", probe.rows);
      desk.write("recipe.yaml",
                 cat("run: {output_dir: out", ranks, "}\nmodel: {base: model}\n",
                     "data: {sequence_length: 256, train: [{path: rows.jsonl, ", probe.data, "}\n",
                     "train: {epochs: 1, micro_batch_size: 1, global_batch_size: ",
                     std::max(probe.count, ranks), ", max_grad_norm: 0}\n",
                     "optimizer: {learning_rate: 0.01, weight_decay: 0}\nlr_schedule: {name: constant}\n"));
      std::filesystem::remove_all(desk.path() / cat("out", ranks));
      const Outcome o = desk.run({"--recipe", "recipe.yaml", "--ranks", std::to_string(ranks)});
      REQUIRE_MESSAGE(o.status == 0, o.err);
      const auto lines = json_lines(desk.read(cat("out", ranks, "/metrics.jsonl")));
      REQUIRE(lines.size() == 1);
      CHECK(lines[0]["loss"].get<double>() == doctest::Approx(std::log(264.0)).epsilon(1e-6));
      CHECK(lines[0]["supervised_tokens"] == probe.supervised);
      check_head(head_of(desk.path() / cat("out", ranks) / "export"), probe.trained);
    }
  }
}

TEST_CASE("mask probe: places, real tokens and trained tokens are three counts") {
  const Desk desk;
  write_probe(desk.path() / "model");
  // Rows of 5 and 9 ids in places of 16; of each its answer's one byte and the end are trained.
  desk.write(
      "rows.jsonl",
      "{\"prompt\": \"123\", \"completion\": \"x\"}\n{\"prompt\": \"1234567\", \"completion\": \"y\"}\n");
  desk.write("recipe.yaml",
             "run: {output_dir: out}\nmodel: {base: model}\n"
             "data: {sequence_length: 16, packing: false, train: [{path: rows.jsonl, format: completion}]}\n"
             "train: {epochs: 1, micro_batch_size: 2}\n");
  const Outcome o = desk.run({"--recipe", "recipe.yaml"});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  const auto lines = json_lines(desk.read("out/metrics.jsonl"));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["slots"] == 32);
  CHECK(lines[0]["tokens"] == 14);
  CHECK(lines[0]["supervised_tokens"] == 4);
  CHECK(lines[0]["tokens_per_second"].get<double>() ==
        doctest::Approx(14 / lines[0]["step_seconds"].get<double>()).epsilon(1e-6));
}

TEST_CASE("mask probe: a row without a trained token changes nothing, and the loss is finite") {
  const Desk desk;
  write_probe(desk.path() / "model");
  const auto run = [&](const std::string& rows, const std::string& out) {
    desk.write("rows.jsonl", rows);
    desk.write("recipe.yaml", cat("run: {output_dir: ", out, "}\nmodel: {base: model}\n",
                                  "data: {sequence_length: 8, packing: false, overlong: truncate, train: "
                                  "[{path: rows.jsonl, format: completion}]}\n"
                                  "train: {epochs: 1, global_batch_size: 2, max_grad_norm: 0}\n"
                                  "optimizer: {learning_rate: 0.01, weight_decay: 0}\n"));
    return desk.run({"--recipe", "recipe.yaml"});
  };
  const std::string a = "{\"prompt\": \"123456789\", \"completion\": \"x\"}\n",
                    b = "{\"prompt\": \"12\", \"completion\": \"x\"}\n";
  const Outcome both = run(a + b, "both");
  REQUIRE_MESSAGE(both.status == 0, both.err);
  CHECK(contains(both.err, "rows.jsonl:1: cut at data.sequence_length, no trained token is left"));
  REQUIRE(run(b, "alone").status == 0);
  CHECK(head_of(desk.path() / "both/export") == head_of(desk.path() / "alone/export"));
  const Outcome none = run(a, "none");
  CHECK(none.status == 3);
  CHECK(contains(none.err, "has no row with a trained token"));
}

}  // namespace
}  // namespace zt::test
