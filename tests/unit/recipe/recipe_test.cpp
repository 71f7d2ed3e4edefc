#include "recipe/recipe.h"

#include "recipe/names.h"
#include "unit/recipe/support.h"

namespace zt::recipe {

TEST_CASE("every shipped recipe is right, and printing and reading it again changes nothing") {
  const auto paths = shipped_recipes();
  REQUIRE(paths.size() >= 5);
  for (const auto& path : paths) {
    CAPTURE(path.string());
    const Loaded loaded = load(path);
    const std::string text = resolved_text(loaded);
    CHECK(has(text, "learning_rate: "));
    CHECK(parse(text, "resolved.yaml").recipe == loaded.recipe);
  }
}

TEST_CASE("the CPU Shakespeare recipe holds nanoGPT's numbers") {
  const Recipe r = load(test::source_dir() / "recipes/shakespeare-char-cpu.yaml").recipe;
  CHECK(r.train.max_steps == 2000);
  CHECK(r.train.global_batch_size * r.data.sequence_length == 768);  // tokens an iteration
  CHECK(r.optimizer.learning_rate == 1e-3);
  CHECK(r.optimizer.learning_rate * r.lr_schedule.min_lr_ratio == doctest::Approx(1e-4));
  CHECK(r.optimizer.betas == std::array<double, 2>{0.9, 0.99});
  CHECK(r.optimizer.weight_decay == 0.1);
  CHECK(r.lr_schedule.warmup_steps == 100);
  CHECK(r.tokenizer.type == TokenizerType::character);
  CHECK(r.model.config == nlohmann::json{{"model_type", "gpt2"},
                                         {"vocab_size", 65},
                                         {"n_positions", 64},
                                         {"n_embd", 128},
                                         {"n_layer", 4},
                                         {"n_head", 4},
                                         {"bias", false}});
  CHECK(r.run.name == "shakespeare-char-cpu");
  CHECK(r.run.output_dir == "runs/shakespeare-char-cpu");
}

TEST_CASE("a scalar is what its key's type says: 1e-5 is a number, no is not false, 10.5 is no count") {
  for (const char* text : {"1e-5", "1.0e-5", "0.00001", "1E-5", "\"1e-5\"", "+1e-5", "10e-6"}) {
    CAPTURE(text);
    const Loaded loaded = parse(kSmall + "optimizer: {learning_rate: " + text + "}\n", "r.yaml");
    CHECK(loaded.recipe.optimizer.learning_rate == 0.00001);
  }
  CHECK(error_of(kSmall + "model2: 1\n") != "no error");
  CHECK(has(error_of(kSmall + "run: {deterministic: no}\n"),
            "line 5: run.deterministic must be true or false, is 'no'"));
  CHECK(
      has(error_of(kSmall + "comm: no\n"),
          "line 5: comm must be a section with keys among timeout_seconds, silence_seconds, lanes; is 'no'"));
  CHECK(has(error_of(kSmall + "memory: {recompute: no}\n"),
            "memory.recompute must be none, full, sqrt or selective, or {every: k}, is 'no'"));
  CHECK(has(error_of(kSmall + "lr_schedule: {warmup_steps: 10.5}\n"),
            "lr_schedule.warmup_steps must be a whole number, is 10.5"));
  CHECK(parse(kSmall + "run: {name: no}\n", "r.yaml").recipe.run.name == "no");
  CHECK(parse(kSmall + "run: {name: 12}\n", "r.yaml").recipe.run.name == "12");
  for (const char* word : {"yes", "on", "True", "1", "null", "''", "[true]"}) {
    CAPTURE(word);
    CHECK(has(error_of(kSmall + "zero: {reshard_after_forward: " + word + "}\n"), "must be true or false"));
  }
  for (const char* number : {"nan", "inf", ".inf", "1e999", "0x10", "1_000", "12abc", "''", "{a: 1}"}) {
    CAPTURE(number);
    CHECK(has(error_of(kSmall + "optimizer: {weight_decay: " + number + "}\n"),
              "optimizer.weight_decay must be a number"));
  }
}

TEST_CASE("an unknown key is refused at every level, with line, full path and the nearest key") {
  CHECK(has(
      error_of("model: {base: m}\ndata: {train: [{path: a}]}\ntrain:\n  max_steps: 1\n  learnin_rate: 1\n"),
      "line 5: unknown key 'train.learnin_rate'; did you mean optimizer.learning_rate?"));
  CHECK(has(error_of(kSmall + "optimizer: {learnin_rate: 1}\n"),
            "unknown key 'optimizer.learnin_rate'; did you mean learning_rate?"));
  CHECK(has(error_of(kSmall + "optimiser: {learning_rate: 1}\n"),
            "unknown key 'optimiser'; did you mean optimizer?"));
  CHECK(has(error_of(kSmall + "learning_rate: 1\n"),
            "line 5: unknown key 'learning_rate': use optimizer.learning_rate"));
  CHECK(
      has(error_of(
              "model: {base: m}\ntrain: {max_steps: 1}\ndata:\n  train:\n    - path: a\n      formt: text\n"),
          "line 6: unknown key 'data.train[0].formt'; did you mean format?"));
  CHECK(has(error_of(kSmall + "memory: {recompute: {evry: 2}}\n"),
            "unknown key 'memory.recompute.evry'; did you mean every?"));
  CHECK(has(error_of(kSmall + "zero:\n  stage: 1\n  stage: 2\n"),
            "line 7: key 'zero.stage' is given twice (first on line 6)"));
  CHECK(has(error_of(kSmall + "train: {max_steps: 3}\n"),
            "line 5: key 'train' is given twice (first on line 4)"));
  CHECK(has(error_of("model: {config: {model_type: gpt2, n_head: 1, n_head: 2}}\n"),
            "key 'model.config.n_head' is given twice"));
}

TEST_CASE("names of other tools are recognised in the error") {
  struct Case {
    const char *name, *use;
  };
  for (const Case& c :
       {Case{"lr", "optimizer.learning_rate"}, Case{"per_device_train_batch_size", "train.micro_batch_size"},
        Case{"zero_stage", "zero.stage"}, Case{"num_train_epochs", "train.epochs"},
        Case{"bf16", "model.dtype: bfloat16"}, Case{"fp16", "model.dtype: float16"},
        Case{"save_steps", "checkpoint.every_steps"}, Case{"hysteresis", "precision.loss_scale_hysteresis"},
        Case{"sequence_len", "data.sequence_length"}, Case{"gradient_checkpointing", "memory.recompute"}}) {
    CAPTURE(c.name);
    for (const std::string section : {"", "train", "run"}) {
      const std::string line = section.empty() ? cat(c.name, ": 1\n") : cat(section, ": {", c.name, ": 1}\n");
      const std::string path = section.empty() ? c.name : cat(section, ".", c.name);
      CHECK(has(error_of(line), cat("line 1: unknown key '", path, "': use ", c.use)));
    }
  }
  // Advice leads to a key of the interface, and no foreign name hides a key of ours.
  const std::string keys = keys_text();
  REQUIRE(foreign_names().size() >= 40);
  for (const auto& [name, use] : foreign_names()) {
    CAPTURE(name);
    const std::string target = split(split(use, ' ').front(), ':').front();
    const bool section = starts_with(use, "the section ");
    CHECK((section || comes_later(target) || has(keys, cat("  ", target, "  "))));
    CHECK_FALSE(has(keys, cat(".", name, "  ")));
  }
}

TEST_CASE("a time limit is a word, seconds, or a batch system's time") {
  const auto limit_of = [](const char* text) {
    return parse(cat(kSmall, "run: {time_limit: ", text, "}\n"), "r.yaml").recipe.run.time_limit;
  };
  using Kind = TimeLimit::Kind;
  CHECK(limit_of("auto") == TimeLimit{Kind::automatic, 0});
  CHECK(limit_of("none") == TimeLimit{Kind::none, 0});
  CHECK(limit_of("3600") == TimeLimit{Kind::seconds, 3600});
  CHECK(limit_of("01:02:03") == TimeLimit{Kind::seconds, 3723});
  CHECK(limit_of("2-00:00:30") == TimeLimit{Kind::seconds, 172830});
  CHECK(limit_of("48:00:00") == TimeLimit{Kind::seconds, 172800});
  for (const char* text : {"0", "-5", "1:2", "00:60:00", "1-30", "2-00:00:00x", "tomorrow", "1.5", "[1]",
                           "99999999999999999999", "100001-00:00:00", "-1:00:00"}) {
    CAPTURE(text);
    CHECK(has(error_of(cat(kSmall, "run: {time_limit: ", text, "}\n")),
              "run.time_limit must be auto, none, a number of seconds, or [days-]hours:minutes:seconds"));
  }
}

TEST_CASE("what this version doesn't have is said to be so, not called unknown") {
  for (const auto& [text, fault] : {std::pair{"run: {deterministic: false}",
                                              "run.deterministic: false is not available in this version"}}) {
    CAPTURE(text);
    const std::string error = error_of(text);
    CHECK(has(error, cat("line 1: ", fault)));
    CHECK_FALSE(has(error, "unknown key"));
  }
}

TEST_CASE("all problems of a recipe are reported at once, by line") {
  const std::string text =
      "run:\n"
      "  sed: 1\n"
      "  device: tpu\n"
      "model:\n"
      "  base: m\n"
      "  config: {model_type: gpt2}\n"
      "data:\n"
      "  sequence_length: 1\n"
      "  train:\n"
      "    - {format: text}\n"
      "train: {max_steps: 10, epochs: 2, micro_batch_size: 4, global_batch_size: 30}\n"
      "optimizer: {betas: [0.9], lr: 1}\n"
      "lr_schedule:\n"
      "  warmup_steps: 20\n"
      "zero: {prefetch: -1}\n";
  CHECK(
      error_of(text, {"optimizer.eps=0"}, 2) ==
      "recipe has problems:\n"
      "  line 2: unknown key 'run.sed'; did you mean seed?\n"
      "  line 3: run.device must be auto, cpu or cuda, is 'tpu'\n"
      "  line 6: model.config and model.base exclude each other: a new model or a trained one\n"
      "  line 8: data.sequence_length must be between 2 and 16777216, is 1\n"
      "  line 10: data.train[0] needs a path\n"
      "  line 11: train.epochs and train.max_steps exclude each other\n"
      "  line 11: train.global_batch_size must be a multiple of micro_batch_size x ranks = 4 x 2 = 8, is 30; "
      "nearest: 24 or 32\n"
      "  line 12: optimizer.betas must have two numbers, has 1\n"
      "  line 12: unknown key 'optimizer.lr': use optimizer.learning_rate\n"
      "  line 14: lr_schedule.warmup_steps must be at most train.max_steps = 10, is 20\n"
      "  line 15: zero.prefetch must be between 0 and 1000, is -1\n"
      "  --set optimizer.eps: optimizer.eps must be above 0, is 0\n"
      "  hint: `zerotrain keys` lists every key with its default");
  CHECK(error_of(kSmall + "optimizer: {lr: 1}\n") ==
        "recipe has problems:\n"
        "  line 5: unknown key 'optimizer.lr': use optimizer.learning_rate\n"
        "  hint: `zerotrain keys optimizer` lists every key with its default");
}

TEST_CASE("keys that must agree are checked together") {
  const std::string data = "data: {train: [{path: a}]}\n", steps = "train: {max_steps: 10}\n";
  CHECK(has(error_of(data + steps + "model: {dtype: float32}\n"), "model needs base"));
  CHECK(has(error_of(data + steps), "model needs base"));
  CHECK(has(error_of("model: {base: m}\n" + data), "train needs max_steps or epochs"));
  CHECK(has(error_of("model: {base: m}\n" + steps), "data.train needs at least one source"));
  CHECK(
      has(error_of("model: {config: {model_type: gpt2}}\n" + data + steps), "tokenizer needs path or type"));
  CHECK(has(error_of("model: {config: {n_layer: 1}}\n" + data + steps), "model.config needs model_type"));
  CHECK(has(error_of(kSmall, {"data.sequence_length=4096"}),
            "data.sequence_length must be at most model.config.n_positions = 2048, is 4096"));
  CHECK(has(error_of(kSmall, {"train.eval_every=5"}), "no data.validation"));
  CHECK(has(error_of(kSmall, {"tokenizer.path=m"}), "tokenizer.path and tokenizer.type exclude each other"));
  CHECK(has(error_of(kSmall, {"lr_schedule.name=wsd"}), "lr_schedule.decay_steps is needed for wsd"));
  CHECK(has(error_of(kSmall, {"lr_schedule={name: wsd, warmup_steps: 20, decay_steps: 81}"}),
            "must be at most max_steps - warmup_steps = 80, is 81"));
  CHECK(has(error_of(kSmall, {"lr_schedule={warmup_steps: 20, decay_steps: 20}"}),
            "must be above warmup_steps = 20, is 20"));
  CHECK(has(error_of(kSmall, {"lr_schedule={name: constant, decay_steps: 20}"}),
            "no meaning for a constant schedule"));
  CHECK(error_of(kSmall, {"lr_schedule={name: wsd, warmup_steps: 20, decay_steps: 80}"}) == "no error");
  CHECK(has(error_of(kSmall, {"train.global_batch_size=3", "train.micro_batch_size=4"}, 2),
            "= 8, is 3; nearest: 8"));
  CHECK(error_of(kSmall, {"train.global_batch_size=24", "train.micro_batch_size=4"}, 3) == "no error");
  CHECK(parse(kSmall, "r.yaml", {"train.micro_batch_size=4"}, 3).recipe.train.global_batch_size == 12);
  // A faulty value doesn't also count as a missing one.
  CHECK_FALSE(has(error_of("model: {base: m}\ntrain: {max_steps: ten}\n" + data), "train needs"));
}

TEST_CASE("every form of a value is read") {
  const auto with = [](const std::string& set) { return parse(kSmall, "r.yaml", {set}).recipe; };
  CHECK(with("memory.recompute=full").memory.recompute == Recompute{Recompute::Kind::full, 0});
  CHECK(with("memory.recompute=sqrt").memory.recompute == Recompute{Recompute::Kind::sqrt, 0});
  CHECK(with("memory.recompute={every: 3}").memory.recompute == Recompute{Recompute::Kind::every, 3});
  CHECK(parse(kSmall + "memory:\n  recompute:\n    every: 2\n", "r").recipe.memory.recompute.every == 2);
  CHECK(has(error_of(kSmall, {"memory.recompute={every: 0}"}), "memory.recompute.every must be between 1"));
  CHECK(has(error_of(kSmall, {"memory.recompute={}"}),
            "memory.recompute must be none, full, sqrt or selective, or {every: k}"));
  CHECK(with("data.add_bos=true").data.add_bos == AddBos::yes);
  CHECK(with("data.add_bos=auto").data.add_bos == AddBos::automatic);
  CHECK(with("data.validation={fraction: 0.25}").data.validation.fraction == 0.25);
  CHECK(with("data.validation=[{path: v.txt, separator: x}]").data.validation.sources.at(0) ==
        Source{"v.txt", Format::text, "x"});
  CHECK(with("data.validation=null").data.validation.absent());
  CHECK(with("train.epochs=null").train.epochs == std::nullopt);
  CHECK(with("zero=").zero == Zero{});
  for (const char* bad : {"0", "1", "-0.1", "1.5"})
    CHECK(has(error_of(kSmall, {cat("data.validation.fraction=", bad)}), "must be above 0 and below 1"));
  for (const char* bad : {"1", "-0.1"})
    CHECK(has(error_of(kSmall, {cat("model.dropout=", bad)}), "must be at least 0 and below 1"));
}

TEST_CASE("loss scales are powers of two, and the floor isn't above the start") {
  const auto with = [](const std::string& set) { return parse(kSmall, "r.yaml", {set}).recipe.precision; };
  for (const std::int64_t power : {0, 1, 15, 16, 24, 32}) {
    const std::int64_t scale = std::int64_t{1} << power;
    CHECK(with(cat("precision.loss_scale_init=", scale)).loss_scale_init == scale);
  }
  for (const char* name : {"init", "min"})
    for (const char* bad : {"3", "65535", "65537", "4294967295"})
      CHECK(has(error_of(kSmall, {cat("precision.loss_scale_", name, "=", bad)}),
                cat("precision.loss_scale_", name, " must be a power of two, is ")));
  for (const char* bad : {"0", "-2", "8589934592"})
    CHECK(has(error_of(kSmall, {cat("precision.loss_scale_init=", bad)}),
              "precision.loss_scale_init must be between 1 and 4294967296"));
  CHECK(has(error_of(kSmall, {"precision={loss_scale_init: 4, loss_scale_min: 8}"}),
            "precision.loss_scale_min must be at most loss_scale_init = 4, is 8"));
  CHECK(error_of(kSmall, {"precision={loss_scale_init: 8, loss_scale_min: 8}"}) == "no error");
  // A faulty start isn't compared with the floor as well.
  CHECK_FALSE(has(error_of(kSmall, {"precision={loss_scale_init: 3, loss_scale_min: 8}"}), "at most"));
}

TEST_CASE("number formats, lanes and checkpoints are read, with PyTorch's loss scaling as the default") {
  const auto with = [](const std::string& set) { return parse(kSmall, "r.yaml", {set}).recipe; };
  CHECK(with("model.dtype=float16").model.dtype == ModelDtype::float16);
  CHECK(with("precision.reduce_dtype=bfloat16").precision.reduce_dtype == ReduceDtype::bfloat16);
  CHECK(with("precision.accumulate_dtype=bfloat16").precision.accumulate_dtype == ReduceDtype::bfloat16);
  CHECK(
      has(error_of(kSmall, {"precision.reduce_dtype=float16"}), "must be float32 or bfloat16, is 'float16'"));
  CHECK(with("comm.lanes=inline").comm.lanes == Lanes::inlined);
  CHECK(with("memory.recompute=selective").memory.recompute == Recompute{Recompute::Kind::selective, 0});
  const Checkpoint saving =
      with("checkpoint={every_steps: 100, keep_last: 1, save_on_signal: false}").checkpoint;
  CHECK(saving == Checkpoint{100, 1, false, true, FailedSave::stop, Export::at_end});
  CHECK(with("checkpoint.every_steps=null").checkpoint == Checkpoint{});
  for (const char* key : {"every_steps", "keep_last"})
    CHECK(has(error_of(kSmall, {cat("checkpoint.", key, "=0")}),
              cat("checkpoint.", key, " must be between 1")));

  const Precision preset;
  CHECK(preset.loss_scale_init == 1 << 16);
  CHECK(preset.loss_scale_window == 2000);
  CHECK(preset.loss_scale_hysteresis == 1);
}

TEST_CASE("train.freeze is a list of texts, and each faulty entry is named") {
  const Loaded loaded =
      parse(kSmall, "r.yaml", {"train.freeze=[transformer.wte.weight, \"*.ln_*\", 5, 'a, b']"});
  CHECK(loaded.recipe.train.freeze ==
        std::vector<std::string>{"transformer.wte.weight", "*.ln_*", "5", "a, b"});
  CHECK(parse(resolved_text(loaded), "x.yaml").recipe == loaded.recipe);
  CHECK(parse(kSmall, "r.yaml").recipe.train.freeze.empty());
  CHECK(parse(kSmall, "r.yaml", {"train.freeze=[]"}).recipe.train.freeze.empty());
  for (const char* bad : {"wte", "null", "{a: 1}", "5"})
    CHECK(has(error_of(kSmall, {cat("train.freeze=", bad)}),
              "train.freeze must be a list of texts, such as [a, b]"));
  const std::string error = error_of(kSmall, {"train.freeze=[a, '', b, {c: d}]"});
  CHECK(has(error, "train.freeze[1] must be text"));
  CHECK(has(error, "train.freeze[3] must be text"));
  CHECK_FALSE(has(error, "train.freeze[2]"));
}

TEST_CASE("a model config is typed by YAML's core rules") {
  const std::string text =
      "model:\n  config:\n    model_type: llama\n    n: 5\n    eps: 1e-5\n    theta: 10000.0\n    on: true\n "
      "   no: no\n    none: null\n"
      "    quoted: '5'\n    scaling: {rope_type: llama3, factor: 8.0, list: [1, 2.5, x]}\n    version: "
      "4.31.0\n    big: -9223372036854775808\n"
      "tokenizer: {type: byte}\ndata: {train: [{path: a}]}\ntrain: {max_steps: 1}\n";
  const Loaded loaded = parse(text, "r.yaml");
  const nlohmann::json& config = loaded.recipe.model.config;
  CHECK(config ==
        nlohmann::json::parse(
            R"({"model_type": "llama", "n": 5, "eps": 1e-5, "theta": 10000.0, "on": true, "no": "no",
    "none": null, "quoted": "5", "scaling": {"rope_type": "llama3", "factor": 8.0, "list": [1, 2.5, "x"]}, "version": "4.31.0",
    "big": -9223372036854775808})"));
  CHECK(config["theta"].is_number_float());
  CHECK(config["n"].is_number_integer());
  CHECK(parse(resolved_text(loaded), "r2.yaml").recipe == loaded.recipe);
  CHECK(has(error_of("model: {config: {model_type: gpt2, n: 99999999999999999999}}\n"),
            "model.config.n is no number that fits"));
  CHECK(has(error_of("model: {config: {model_type: gpt2, n: .nan}}\n"), "model.config.n must be finite"));
}

TEST_CASE("each value knows its source, and only an option that was typed overrides the file") {
  const std::string text = kSmall + "optimizer:\n  learning_rate: 3e-4\n";
  const Loaded file = parse(text, "r.yaml");
  CHECK(file.source_of("optimizer.learning_rate") == "r.yaml:6");
  CHECK(file.source_of("optimizer.eps") == "default");
  CHECK(file.recipe.optimizer.learning_rate == 3e-4);
  const Loaded set =
      parse(text, "r.yaml",
            {"optimizer.learning_rate=1e-4", "data.train[0].path=b.txt", "data.train[1].path=c.txt"});
  CHECK(set.recipe.optimizer.learning_rate == 1e-4);
  CHECK(set.source_of("optimizer.learning_rate") == "command line");
  CHECK(set.recipe.data.train.at(0).path == "b.txt");
  CHECK(set.recipe.data.train.at(1).path == "c.txt");
  CHECK(set.source_of("data.train[0].path") == "command line");
  const std::string resolved = resolved_text(set);
  CHECK(has(resolved, "learning_rate: 0.0001  # command line\n"));
  CHECK(has(resolved, "max_steps: 100  # r.yaml:4\n"));
  CHECK(has(resolved, "eps: 1e-08  # default\n"));
  CHECK(has(resolved, "    - path: b.txt  # command line\n      format: text  # default\n"));
  CHECK(has(resolved, "    model_type: gpt2  # r.yaml:1\n"));
  CHECK(parse(resolved, "x.yaml").recipe == set.recipe);
  // The last of two overrides counts, and bf16 of a recipe survives when no option is typed.
  CHECK(parse(kSmall, "r", {"run.seed=1", "run.seed=2"}).recipe.run.seed == 2);
  const Loaded half =
      parse("model: {base: m, dtype: bfloat16}\ndata: {train: [{path: a}]}\ntrain: {epochs: 1}\n", "r.yaml");
  CHECK(half.recipe.model.dtype == ModelDtype::bfloat16);
  CHECK(half.source_of("model.dtype") == "r.yaml:1");
  CHECK(half.recipe.tokenizer.path == "m");
}

TEST_CASE("an override nests no deeper than a recipe may") {
  std::string deep = "model.config";
  for (int i = 0; i < 60'000; ++i) deep += ".a";
  CHECK(has(error_of(kSmall, {deep + "=1"}), "the key has 60002 parts; at most 32 are read"));
  std::string allowed = "model.config";
  for (int i = 0; i < 30; ++i) allowed += ".a";
  CHECK_FALSE(has(error_of(kSmall, {allowed + "=1"}), "parts"));
}

TEST_CASE("an override that can't be placed says why") {
  CHECK(has(error_of(kSmall, {"run.seed"}), "--set run.seed: an override is written section.key=value"));
  CHECK(has(error_of(kSmall, {"=1"}), "an override is written section.key=value"));
  CHECK(has(error_of(kSmall, {"optimizer.lr=1"}),
            "--set optimizer.lr: unknown key 'optimizer.lr': use optimizer.learning_rate"));
  CHECK(has(error_of(kSmall, {"train.max_steps.x=1"}),
            "--set train.max_steps.x: train.max_steps is 100 and has no 'x'"));
  CHECK(has(error_of(kSmall, {"data.train[5].path=x"}), "data.train is a list and has no '[5]'"));
  CHECK(has(error_of(kSmall, {"data.train[x].path=x"}), "has no '[x]'"));
  CHECK(has(error_of(kSmall, {"run..seed=1"}), "run is empty and has no ''"));
  CHECK(has(error_of(kSmall, {"run.name=a: b: c"}), "--set run.name: not valid YAML"));
  CHECK(has(error_of(kSmall, {"[0]=1"}), "names no key"));
}

TEST_CASE("odd strings survive the resolved recipe") {
  for (const std::string name : {"no", "null", "true", "12", "1e5", "a: b", "a #b", "- x", "\"q\"", "it's",
                                 "tab\\there", "~", "@x", "ä", " lead", "%", "a\\u0007b"}) {
    CAPTURE(name);
    Loaded loaded = parse(kSmall, "r.yaml");
    loaded.recipe.run.name = name;
    loaded.recipe.model.config[name] = name;
    CHECK(parse(resolved_text(loaded), "x.yaml").recipe == loaded.recipe);
  }
}

TEST_CASE("a missing or oversized recipe file is a usage error") {
  const test::ScratchDir scratch;
  CHECK_THROWS_WITH_AS(load(scratch.path() / "none.yaml"), doctest::Contains("none.yaml"), Error);
  const auto big = scratch.write("big.yaml", std::string(kMaxRecipeBytes + 1, '#'));
  CHECK_THROWS_WITH_AS(load(big), doctest::Contains("big.yaml"), Error);
}

}  // namespace zt::recipe
