// Real trained models give their published text, logits and losses. The published numbers and where they come
// from stand in the data's own files (numbers/*.json).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "e2e/program.h"
#include "e2e/tinystories.h"
#include "exchange/safetensors.h"
#include "exec/decoder.h"
#include "support/stories260k.h"
#include "train/generate.h"
#include "train/setup.h"

namespace zt::test {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

// The peer that made the numbers adds in another order; its file says to expect about 1e-4 in logits.
constexpr double kLogitBound = 3e-4;
// Of sums over a few hundred tokens, relative.
constexpr double kLossBound = 2e-6;

// A folder read in as the program reads it.
struct RealModel {
  explicit RealModel(const fs::path& folder)
      : source(train::open_model_folder(folder)), tokenizer(text::load_tokenizer(folder)) {}

  Ids with_bos(const std::string& text) const {
    Ids ids = tokenizer->encode(text);
    ids.insert(ids.begin(), tokenizer->bos().value());
    return ids;
  }

  // Summed loss of one document of at most `length` ids, by the path that training and eval take.
  double loss(const Ids& ids, std::int64_t length) const {
    exec::EngineOptions options;
    options.shape.training = false;
    options.shape.sequence_length = length;
    exec::Engine engine(source.spec, options);
    train::load_weights(source, engine.params(), 0);
    const data::Row row{"row", ids, ids, {0, static_cast<std::int32_t>(ids.size())}};
    return engine.evaluate(data::make_batch({&row, 1}, 1, length));
  }

  train::ModelSource source;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

// Logits after `ids`, and the greedy text that follows, against one entry of a reference file.
void check_continuation(const RealModel& model, const nlohmann::json& expected) {
  const Ids ids = expected["ids"], greedy = expected["greedy_ids"];
  exec::Decoder decoder(model.source.spec, Dtype::f32, model.source.spec.max_positions);
  train::load_weights(model.source, decoder.params(), 0);
  std::span<const float> logits;
  for (const std::int32_t id : ids) logits = decoder.step(id);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::abs(logits[i] - expected["logits_first8"][i].get<double>()) < kLogitBound);
  for (const auto& entry : expected["top5"])
    CHECK(std::abs(logits[entry[0].get<std::size_t>()] - entry[1].get<double>()) < kLogitBound);
  const double highest = *std::ranges::max_element(logits);
  const double sum = std::accumulate(logits.begin(), logits.end(), 0.0, [highest](double total, float logit) {
    return total + std::exp(logit - highest);
  });
  CHECK(std::abs(highest + std::log(sum) - expected["logsumexp"].get<double>()) < kLogitBound);

  decoder.clear();
  train::SamplingOptions options;
  options.greedy = true;
  options.max_tokens = static_cast<std::int64_t>(greedy.size());
  CHECK(train::generate(decoder, ids, {}, options, [](std::int32_t) {}) == greedy);
}

// The documents of the sample, as both reference files define them: cut at <|endoftext|>, trimmed.
std::vector<std::string> stories(const fs::path& file) {
  const std::string text = read_file(file), separator = "<|endoftext|>";
  std::vector<std::string> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    const std::string story(trim(std::string_view(text).substr(at, end - at)));
    if (!story.empty()) list.push_back(story);
    at = end + separator.size();
  }
  return list;
}

void check_stories(const RealModel& model, const nlohmann::json& expected, const fs::path& sample) {
  const std::vector<std::string> texts = stories(sample);
  REQUIRE(texts.size() == expected["stories"].size());
  double sum = 0, targets = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i);
    const nlohmann::json& story = expected["stories"][i];
    const Ids ids = model.with_bos(texts[i]);
    CHECK(ids == story["ids"].get<Ids>());
    const double loss = model.loss(ids, 512);
    CHECK(loss == doctest::Approx(story["sum_nll"].get<double>()).epsilon(kLossBound));
    sum += loss;
    targets += static_cast<double>(ids.size()) - 1;
  }
  CHECK(sum / targets == doctest::Approx(expected["mean_nll_all"].get<double>()).epsilon(kLossBound));
}

struct Stories260K : Desk {
  bool ready() {
    const auto bin = test_data("models/stories260K/stories260K.bin");
    const auto tok = test_data("models/stories260K/tok512.bin");
    if (!bin || !tok) return false;
    write_stories260k(*bin, *tok, path() / "model");
    return true;
  }
};

const std::string kEvalRecipe = R"(model: {base: model}
data:
  sequence_length: 512
  add_bos: true
  add_eos: false
  train: [{path: story0.txt}]
  validation: [{path: story0.txt}]
train: {max_steps: 1}
)";

}  // namespace

TEST_CASE("stories260K: the greedy text is the published one, character for character") {
  Stories260K desk;
  const auto numbers = test_data("numbers/stories260k_reference.json");
  if (!desk.ready() || !numbers) return;
  const nlohmann::json reference = nlohmann::json::parse(read_file(*numbers));
  const Outcome o = desk.run({"generate", "--model", "model", "--greedy", "--max-tokens", "200"});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  CHECK(o.err == "");
  CHECK(o.out == reference["published"]["greedy_200_steps_from_BOS"].get<std::string>() + "\n");
}

TEST_CASE("stories260K: logits, greedy ids and losses equal the peer's") {
  Stories260K desk;
  const auto numbers = test_data("numbers/stories260k_reference.json");
  const auto sample = test_data("text/tinystories_v2_sample.txt");
  if (!desk.ready() || !numbers || !sample) return;
  const nlohmann::json reference = nlohmann::json::parse(read_file(*numbers));
  const RealModel model(desk.path() / "model");
  CHECK(model.source.spec.parameters() == reference["published"]["trainable_parameters"]);
  const nlohmann::json& peer = reference["peer_run"];
  check_continuation(model, peer["from_BOS"]);
  CHECK(model.with_bos(peer["from_prompt"]["text"]) == peer["from_prompt"]["ids"].get<Ids>());
  check_continuation(model, peer["from_prompt"]);
  check_stories(model, peer["tinystories_v2_sample"], *sample);
}

TEST_CASE("stories260K: `zerotrain eval` on the five stories gives 1.2664 nats a token") {
  Stories260K desk;
  const auto sample = test_data("text/tinystories_v2_sample.txt");
  if (!desk.ready() || !sample) return;
  desk.write("recipe.yaml", kEvalRecipe);
  double sum = 0, tokens = 0;
  const std::vector<std::string> texts = stories(*sample);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = "story" + std::to_string(i) + ".txt";
    desk.write(name, texts[i]);
    const Outcome o = desk.run({"eval", "--model", "model", "--recipe", "recipe.yaml", "--set",
                                "data.validation=[{path: " + name + "}]"});
    REQUIRE_MESSAGE(o.status == 0, o.err);
    const nlohmann::json line = nlohmann::json::parse(o.out);
    sum += line["eval_loss"].get<double>() * line["eval_tokens"].get<double>();
    tokens += line["eval_tokens"].get<double>();
  }
  CHECK(std::abs(sum / tokens - 1.2664) < 5e-5);
}

TEST_CASE("tinystories-656K: both weight files give the published values, the peer's logits and losses") {
  const auto numbers = test_data("numbers/tinystories656k_reference.json");
  const auto sample = test_data("text/tinystories_v2_sample.txt");
  if (!numbers || !sample) return;
  const nlohmann::json reference = nlohmann::json::parse(read_file(*numbers));
  std::vector<std::vector<float>> weights;  // of each file, all of them in the model's order
  for (const std::string file : {"model.safetensors", "model.f32-lm_head.safetensors"}) {
    CAPTURE(file);
    const ScratchDir scratch;
    if (!copy_tinystories(file, scratch.path() / "model")) return;
    const RealModel model(scratch.path() / "model");
    CHECK(model.source.spec.parameters() == reference["published"]["parameters"]);
    CHECK(model.source.spec.tied);
    std::vector<float>& all = weights.emplace_back();
    for (const spec::BlockSpec& block : model.source.spec.blocks) {
      for (const spec::TensorSpec& tensor : block.tensors) {
        const std::size_t start = all.size();
        all.resize(start + static_cast<std::size_t>(tensor.elements()));
        model.source.folder->read(tensor, 0, std::span(all).subspan(start));
        for (const auto& [key, value] : reference["published"]["weight_values"].items()) {
          if (!starts_with(key, tensor.name + "[") || !value.is_number()) continue;
          const auto index = static_cast<std::size_t>(std::stol(key.substr(tensor.name.size() + 1)));
          CHECK(std::abs(all[start + index] - value.get<float>()) < 1e-6f);
        }
      }
    }
    const nlohmann::json& peer = reference["peer_run"];
    for (const nlohmann::json& prompt : peer["prompts"]) {
      CHECK(model.with_bos(prompt["text"]) == prompt["ids"].get<Ids>());
      check_continuation(model, prompt);
    }
    check_stories(model, peer["tinystories_v2_sample"], *sample);
  }
  REQUIRE(weights.size() == 2);
  CHECK(weights[0] == weights[1]);
}

TEST_CASE("tinystories-656K: import and export without training is byte-identical, tensor by tensor") {
  const Desk desk;
  if (!copy_tinystories("model.safetensors", desk.path() / "model")) return;
  const Outcome o = desk.run({"export", "--model", "model", "--to", "copy"});
  REQUIRE_MESSAGE(o.status == 0, o.err);
  CHECK(o.out == "");
  const exchange::SafetensorsFile before(desk.path() / "model/model.safetensors");
  const exchange::SafetensorsFile after(desk.path() / "copy/model.safetensors");
  REQUIRE(before.tensors().size() == after.tensors().size());
  for (const exchange::StoredTensor& tensor : before.tensors()) {
    CAPTURE(tensor.name);
    const exchange::StoredTensor* const copy = after.find(tensor.name);
    REQUIRE(copy != nullptr);
    CHECK(copy->dtype_name == tensor.dtype_name);
    CHECK(copy->shape == tensor.shape);
    CHECK(std::ranges::equal(before.bytes(tensor), after.bytes(*copy)));
  }
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"})
    CHECK(desk.read(std::string("copy/") + name) == desk.read(std::string("model/") + name));
  // What the original config says is still said; torch_dtype now tells the truth.
  const nlohmann::json config = nlohmann::json::parse(desk.read("copy/config.json"));
  const nlohmann::json original = nlohmann::json::parse(desk.read("model/config.json"));
  for (const auto& [key, value] : original.items()) {
    CAPTURE(key);
    if (key != "torch_dtype") CHECK(config[key] == value);
  }
  CHECK(config["torch_dtype"] == "bfloat16");
}

TEST_CASE("tinystories-656K: fine-tuning on stories improves the held-out loss, and the export keeps it") {
  const Desk desk;
  const auto text = test_data("text/tinystories_v1_head.txt");
  if (!text || !copy_tinystories("model.safetensors", desk.path() / "model")) return;
  desk.write("recipe.yaml", fine_tuning_recipe(text->string(), 4));
  const auto eval = [&desk](const std::string& model) {
    const Outcome o = desk.run({"eval", "--model", model, "--recipe", "recipe.yaml"});
    REQUIRE_MESSAGE(o.status == 0, o.err);
    return nlohmann::json::parse(o.out);
  };
  const nlohmann::json base = eval("model");
  const Outcome trained = desk.run({"--recipe", "recipe.yaml"});
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  const auto lines = evaluations(desk.read("out/metrics.jsonl"));
  REQUIRE(lines.size() == 3);
  CHECK(lines.front()["eval_loss"].get<double>() == base["eval_loss"].get<double>());
  CHECK(lines.front()["eval_tokens"] == base["eval_tokens"]);
  CHECK(lines[1]["eval_loss"].get<double>() < lines[0]["eval_loss"].get<double>());
  CHECK(lines[2]["eval_loss"].get<double>() < lines[0]["eval_loss"].get<double>() - 0.1);
  CHECK(eval("out/export")["eval_loss"].get<double>() == lines[2]["eval_loss"].get<double>());
}

}  // namespace zt::test
