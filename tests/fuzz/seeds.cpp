// Makes the small sound files from which fuzzing starts, with the project's own writers. Usage: fuzz_seeds CORPUS SOURCE
// (tests/fuzz/corpus and the project's folder). What fuzzing adds to the corpus stays.
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "data/token_file.h"
#include "exchange/safetensors.h"
#include "exec/trace.h"
#include "fuzz.h"
#include "plan/cluster.h"
#include "text/wire_format.h"
#include "train/events.h"
#include "train/metrics.h"

using namespace zt;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path corpus, source;

void seed(const std::string& target, const std::string& name, const std::string& bytes) {
  fs::create_directories(corpus / target);
  write_file(corpus / target / name, bytes);
}

std::string choosing(int choice, const std::string& bytes) {
  return cat(std::string(1, char(choice)), bytes);
}

json config_of(const std::string& type) {
  if (type == "gpt2")
    return {{"model_type", type}, {"n_embd", 8},      {"n_layer", 2},
            {"n_head", 2},        {"vocab_size", 16}, {"n_positions", 8}};
  return {{"model_type", type},       {"hidden_size", 8},
          {"intermediate_size", 12},  {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"vocab_size", 16},         {"max_position_embeddings", 8}};
}

void configs() {
  for (const char* const type : {"gpt2", "llama", "mistral", "qwen2", "qwen3"}) {
    json config = config_of(type);
    if (config["model_type"] == "qwen3") config["head_dim"] = 2;
    seed("config_fuzz", type, config.dump(1));
  }
  json scaled = config_of("llama");
  scaled["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 4}};
  scaled["eos_token_id"] = {1, 2};
  scaled["tie_word_embeddings"] = true;
  seed("config_fuzz", "llama3_rope", scaled.dump());
  json yarn = config_of("qwen2");
  yarn["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4}};
  yarn["sliding_window"] = 4;
  yarn["use_sliding_window"] = true;
  yarn["max_window_layers"] = 1;
  seed("config_fuzz", "qwen2_yarn", yarn.dump());
}

void recipes() {
  for (const char* const name : {"tiny", "mixture-sft", "finetune", "gpt2-124m", "longcontext-32k"})
    seed("recipe_fuzz", name,
         choosing(0, read_text_file(source / "recipes" / cat(name, ".yaml"), Blame::bug)));
  seed("recipe_fuzz", "sets",
       "\1run: {output_dir: o}\nmodel: {config: {model_type: gpt2, n_embd: 8, n_layer: 1, n_head: 1, "
       "vocab_size: 264, n_positions: 8}}\ntokenizer: {type: byte}\n\xff"
       "data.train[0].path=x\xff"
       "data.sequence_length=8\xfftrain.max_steps=3\xfftrain.global_batch_size=2\xffoptimizer.betas=[0.9, "
       "0.95]");
  seed("recipe_fuzz", "aliases",
       choosing(0, "a: &a [1, &b {c: d, <<: {e: f}}]\nb: *a\n'c': !!str 1\n<<: *b\n? x\n: |\n y\n"));
}

void clusters() {
  for (const std::string& name : plan::cluster_names())
    if (name.starts_with("h100") || name.starts_with("cpu"))
      seed("cluster_fuzz", name, read_text_file(source / "recipes/clusters" / (name + ".yaml"), Blame::bug));
  plan::Cluster small;
  small.name = "n";
  small.calibrated = "2026-11-30T04:00:00Z";
  small.nodes.push_back({.ranks = 1, .memory_bandwidth = 1e9, .rates = {{.per_second = 1e9}}});
  seed("cluster_fuzz", "small", plan::cluster_text(small));
}

void safetensors() {
  const fs::path file = corpus / "made.safetensors";
  {
    exchange::SafetensorsWriter writer(
        file, {{"a", Dtype::f32, {2, 3}}, {"b", Dtype::bf16, {4}}, {"c", Dtype::f16, {}}},
        {{"format", "pt"}});
    const std::vector<std::byte> bytes(24);
    writer.append("a", bytes);
    writer.append("b", std::span(bytes).first(8));
    writer.append("c", std::span(bytes).first(2));
    writer.finish();
  }
  seed("safetensors_fuzz", "file", choosing(0, read_text_file(file, Blame::bug)));
  fs::remove(file);
  seed("safetensors_fuzz", "header",
       choosing(1,
                R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},)"
                R"("b":{"dtype":"I64","shape":[4],"data_offsets":[32,64]}})"));
  seed(
      "safetensors_fuzz", "index",
      choosing(
          2, R"({"metadata":{"total_size":10},"weight_map":{"x":"a.safetensors","y":"sub/b.safetensors"}})"));
  seed("safetensors_fuzz", "index_out",
       choosing(2, R"({"weight_map":{"x":"../a.safetensors","y":"/etc/passwd","z":"sub/../../b"}})"));
}

void manifests() {
  checkpoint::Manifest m;
  m.state.run_id = "r1";
  m.state.step = 3;
  m.state.dtype = "bfloat16";
  m.state.ranks = 2;
  m.state.model_config = {{"model_type", "llama"}};
  const std::string digest(32, 'a');
  m.files = {{checkpoint::kModelFile, {9, digest}},
             {checkpoint::rank_file_name(0, 2), {64, digest}},
             {checkpoint::rank_file_name(1, 2), {64, digest}},
             {"hf/config.json", {2, digest}}};
  checkpoint::StoredTensor& w = m.tensors["w"];
  w.shape = {3, 4};
  for (auto& file : m.files) file.second.bytes = 96;
  std::int64_t at = 0;
  for (const checkpoint::Kind kind : checkpoint::kKinds) {
    w.of(kind) = {{0, 0, 5, at, digest}, {1, 5, 7, at, digest}};
    at += 28;
  }
  const std::string text = checkpoint::to_text(m);
  (void)checkpoint::manifest_from_text(text, "seed");
  seed("manifest_fuzz", "whole", choosing(0, text));
  seed("manifest_fuzz", "rest", choosing(1, text.substr(text.find("\"state\"") - 5)));
  seed("manifest_fuzz", "state", choosing(2, checkpoint::to_json(m.state).dump()));
  seed("manifest_fuzz", "rank_file", choosing(3, std::string(16, 'h') + std::string(24, '\x3f')));
}

void token_files() {
  const fs::path file = corpus / "made.tokens";
  for (const bool rich : {false, true}) {
    data::TokenFileWriter writer(file, rich ? 100'000 : 1000);
    writer.add({1, 2, 3}, rich ? std::vector<bool>{true, false, true} : std::vector<bool>{});
    writer.end_document(rich ? data::Origin{7, 0, 8} : data::Origin{});
    writer.add({4});
    writer.end_document(rich ? data::Origin{9, 0, 10} : data::Origin{});
    writer.finish({.continues = rich, .last = true, .text = rich ? "{\"rows\": 2}" : ""});
    const std::string bytes = read_text_file(file, Blame::bug);
    for (const int digest : {0, 1})
      seed("token_file_fuzz", cat(rich ? "rich" : "plain", digest), choosing(digest, bytes));
  }
  fs::remove(file);
}

json description(json model, json more) {
  json out = {{"version", "1.0"}, {"added_tokens", json::array()}, {"model", std::move(model)}};
  out.update(more);
  return out;
}

std::string piece(const std::string& text, int kind, float score) {
  std::string message = text::wire_field(1, text) + "\x15";
  const auto bits = std::bit_cast<std::uint32_t>(score);
  for (int shift = 0; shift < 32; shift += 8) message += char(bits >> shift & 0xFF);
  return text::wire_field(1, message + text::wire_field(3, std::uint64_t(kind)));
}

void tokenizers() {
  const json vocab = {{"a", 0}, {"b", 1}, {"ab", 2}, {"\xC4\xA0", 3}, {"H", 4}, {"e", 5}, {"l", 6}, {"o", 7}};
  const json bpe = {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}};
  const json byte_level =
      description(bpe, {{"pre_tokenizer",
                         {{"type", "Sequence"},
                          {"pretokenizers",
                           {{{"type", "Split"},
                             {"pattern", {{"Regex", "\\p{L}+|\\s+(?!\\S)|[^\\s]"}}},
                             {"behavior", "Isolated"},
                             {"invert", false}},
                            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
                        {"decoder", {{"type", "ByteLevel"}}},
                        {"post_processor",
                         {{"type", "TemplateProcessing"},
                          {"single",
                           {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                            {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                          {"pair", json::array()},
                          {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {8}}, {"tokens", {"<s>"}}}}}}}},
                        {"added_tokens",
                         {{{"id", 8},
                           {"content", "<s>"},
                           {"special", true},
                           {"normalized", false},
                           {"lstrip", false},
                           {"rstrip", true},
                           {"single_word", false}}}}});
  const json pieces = {{"<unk>", 0},
                       {"<s>", 1},
                       {"\xE2\x96\x81", 2},
                       {"a", 3},
                       {"\xE2\x96\x81"
                        "a",
                        4},
                       {"<0x0A>", 5}};
  const json metaspace = description(
      {{"type", "BPE"},
       {"vocab", pieces},
       {"merges", {{"\xE2\x96\x81", "a"}}},
       {"unk_token", "<unk>"},
       {"fuse_unk", true},
       {"byte_fallback", true}},
      {{"normalizer",
        {{"type", "Sequence"},
         {"normalizers",
          {{{"type", "Prepend"}, {"prepend", "\xE2\x96\x81"}},
           {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}}}}},
       {"decoder",
        {{"type", "Sequence"},
         {"decoders",
          {{{"type", "Replace"}, {"pattern", {{"String", "\xE2\x96\x81"}}}, {"content", " "}},
           {{"type", "ByteFallback"}},
           {{"type", "Fuse"}},
           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
       {"added_tokens", {{{"id", 1}, {"content", "<s>"}, {"special", true}, {"normalized", false}}}}});
  seed("tokenizer_fuzz", "byte_level", choosing(0, byte_level.dump()));
  seed("tokenizer_fuzz", "metaspace", choosing(0, metaspace.dump()));
  const json config = {{"tokenizer_class", "LlamaTokenizer"},
                       {"bos_token", "<s>"},
                       {"eos_token", {{"content", "<s>"}}},
                       {"add_bos_token", true},
                       {"legacy", false},
                       {"added_tokens_decoder", {{"1", {{"content", "<s>"}, {"special", true}}}}}};
  seed("tokenizer_fuzz", "folder",
       choosing(1, cat(metaspace.dump(), "\xff", config.dump(), "\xff", R"({"pad_token": "<unk>"})", "\xff",
                       R"({"<s>": 1})", "\xff", R"({"bos_token_id": 1, "eos_token_id": [1]})")));
  seed("tokenizer_fuzz", "gpt2",
       choosing(
           2, cat(vocab.dump(), "\xff#version: 0.2\na b\n\xff", R"({"tokenizer_class": "GPT2Tokenizer"})")));
  for (const std::uint64_t type : {1, 2}) {
    const std::string model =
        piece("<unk>", 2, 0) + piece("<s>", 3, 0) + piece("</s>", 3, 0) + piece("<0x0A>", 6, 0) +
        piece("a", 1, -1) + piece("\xE2\x96\x81", 1, -2) +
        piece(
            "\xE2\x96\x81"
            "a",
            1, -3) +
        piece("<x>", 4, 0) +
        text::wire_field(2, text::wire_field(3, type) + text::wire_field(35, std::uint64_t{1})) +
        text::wire_field(3, text::wire_field(1, "identity") + text::wire_field(4, std::uint64_t{0}));
    seed("tokenizer_fuzz", cat("sentencepiece", type), choosing(3, model));
    seed("tokenizer_fuzz", cat("sentencepiece_folder", type), choosing(4, cat(config.dump(), "\xff", model)));
  }
}

// What a run of three steps leaves, with and without the parts that may be missing.
void run_files() {
  const fs::path folder = corpus / "made";
  fs::create_directories(folder);
  {
    train::MetricsLog metrics(folder / "metrics.jsonl");
    train::StepMetrics m;
    for (m.step = 1; m.step <= 3; ++m.step) {
      m.loss = 5.5 / double(m.step), m.grad_norm = 1.5, m.learning_rate = 1e-3, m.step_seconds = 0.25;
      m.tokens = m.slots = 96, m.tokens_per_second = 384, m.mfu = 0.25, m.peak_bytes = 1000;
      metrics.step(m);
    }
    metrics.evaluation(3, 2.5, 96);
    train::Events events(folder / "events.jsonl");
    events.note(train::EventKind::start, 0, "began, 3 steps to do", {{"ranks", 2}});
    events.note(train::EventKind::spike, 2, "a <b>spike</b>");
    events.note(train::EventKind::done, 3, "complete after 3 steps");
  }
  schedule::Schedule list;
  exec::StepTrace trace;
  for (const schedule::OpKind kind :
       {schedule::OpKind::forward, schedule::OpKind::backward, schedule::OpKind::update}) {
    schedule::Op op;
    op.kind = kind, op.block = 0;
    list.ops.push_back(op);
    const auto at = double(list.ops.size());
    trace.spans.push_back({at, at + 0.5, at > 1 ? 0.5 : 0, int(at) - 2});
  }
  list.ops[1].lane = schedule::Lane::comm;
  trace.seconds = 4, trace.tail = 0.25;
  const std::string facts =
      json{{"run_id", "a1"}, {"name", "n"},        {"steps", 3},
           {"ranks", 2},     {"data", {"3 rows"}}, {"model", {{"type", "llama"}, {"parameters", 1000}}},
           {"job", nullptr}, {"hosts", {"h"}}}
          .dump();
  const std::string metrics = read_text_file(folder / "metrics.jsonl", Blame::bug),
                    events = read_text_file(folder / "events.jsonl", Blame::bug);
  fs::remove_all(folder);
  seed("run_files_fuzz", "whole",
       choosing(0, cat(metrics, "\xff", events, "\xff", facts, "\xff", exec::trace_json(list, trace, 2, 0, 2),
                       "\xff", "train: {max_steps: 3}\n")));
  seed("run_files_fuzz", "metrics", choosing(30, metrics.substr(0, metrics.size() - 9)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s CORPUS SOURCE\n", argv[0]), 2;
  corpus = argv[1];
  source = argv[2];
  try {
    configs();
    recipes();
    clusters();
    safetensors();
    manifests();
    token_files();
    tokenizers();
    run_files();
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
  return 0;
}
