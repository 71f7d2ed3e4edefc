// What a recipe says, as plain structs: one per section, defaults as member initialisers. The tables in
// tables.cpp give each member its YAML name, unit, meaning and check. An enumeration holds only what this
// version can do.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace zt::recipe {

enum class Device { automatic, cpu, cuda };
enum class ModelDtype { float32, bfloat16, float16 };
enum class ReduceDtype { float32, bfloat16 };
enum class TokenizerType { byte, character };  // the words are `byte` and `char`
enum class Format { text, completion, alpaca, sharegpt, messages };
enum class ChatTemplate { automatic, llama2, llama3, chatml, mistral, alpaca, vicuna, none };  // `auto`, ...
enum class TrainOn { all_answers, last_answer, everything };
enum class Overlong { drop, truncate, error };
enum class BadRows { error, skip };
enum class Tools { refuse, ignore };
enum class AddBos { automatic, yes, no };  // the words are auto, true, false
enum class OptimizerName { adamw };
enum class ScheduleName { cosine, linear, constant, wsd };
enum class Reduce { automatic, micro, step };
enum class LossScale { dynamic, none };
enum class Lanes { threads, inlined };  // the words are `threads` and `inline`
enum class Export { at_end, never };
enum class FailedSave { stop, go_on };  // the words are `stop` and `continue`
enum class OnBadStep { stop, skip, rewind };
enum class OnSpike { ignore, stop, skip, rewind };
enum class Progress { automatic, bar, lines, none };

// When a run must have ended: when the batch system ends its job, never, or so many seconds after its start.
struct TimeLimit {
  enum class Kind { automatic, none, seconds };
  Kind kind = Kind::automatic;
  std::int64_t seconds = 0;  // only for Kind::seconds
  bool operator==(const TimeLimit&) const = default;
};

struct Run {
  std::string name;        // loading sets it to the recipe file's stem when it isn't given
  std::string output_dir;  // loading sets it to runs/NAME when it isn't given
  std::int64_t seed = 42;
  Device device = Device::automatic;
  bool deterministic = true;
  TimeLimit time_limit;
  bool operator==(const Run&) const = default;
};

// Exactly one of `base` and `config` is given.
struct Model {
  std::optional<std::string> base;  // a Hugging Face folder
  nlohmann::json config;  // an object of Hugging Face's config.json names; null when `base` is given
  ModelDtype dtype = ModelDtype::float32;
  double dropout = 0.0;
  double init_std = 0.02;
  bool operator==(const Model&) const = default;
};

// After loading exactly one of `type` and `path` is set: `path` follows model.base when neither is given.
struct Tokenizer {
  std::optional<TokenizerType> type;
  std::optional<std::string> path;  // a folder with tokenizer.json
  bool operator==(const Tokenizer&) const = default;
};

struct Source {
  std::string path;
  Format format = Format::text;
  std::optional<std::string> separator;  // between the documents of a text file; none: a file is one document
  std::optional<double> weight;  // share of the rows drawn; given for all sources of a list or for none
  std::map<std::string, std::string> fields;  // our name of a row's field to the file's, where they differ
  Tools tools = Tools::refuse;                // what a row's tool definitions lead to
  bool operator==(const Source&) const = default;
};

// A share of the training data, or sources of its own, or (neither) no validation data.
struct Validation {
  std::optional<double> fraction;
  std::vector<Source> sources;
  bool absent() const { return !fraction && sources.empty(); }
  bool operator==(const Validation&) const = default;
};

struct Data {
  std::int64_t sequence_length = 1024;
  bool packing = true;
  std::vector<Source> train;
  Validation validation;
  bool add_eos = true;
  AddBos add_bos = AddBos::automatic;
  ChatTemplate chat_template = ChatTemplate::automatic;
  std::optional<std::string> system_prompt;  // of conversations that have none
  TrainOn train_on = TrainOn::all_answers;
  Overlong overlong = Overlong::drop;
  BadRows bad_rows = BadRows::error;
  std::int64_t max_bad_rows = 100;
  bool operator==(const Data&) const = default;
};

// Exactly one of `max_steps` and `epochs` is given.
struct Train {
  std::optional<std::int64_t> max_steps;
  std::optional<double> epochs;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size =
      0;  // sequences over all ranks; loading sets it to micro_batch_size x ranks
  double max_grad_norm = 1.0;
  std::int64_t eval_every = 0;
  std::int64_t eval_batch_size = 0;  // loading sets it to micro_batch_size when it isn't given
  std::int64_t log_every = 1;
  OnBadStep on_nonfinite = OnBadStep::skip;
  OnSpike on_spike = OnSpike::ignore;
  double spike_factor = 2.0;
  std::int64_t max_bad_steps = 20;
  std::int64_t hold_every = 20;
  std::vector<std::string> freeze;  // patterns of tensor names, see patterns.h
  bool operator==(const Train&) const = default;
};

struct Optimizer {
  OptimizerName name = OptimizerName::adamw;
  double learning_rate = 2.0e-5;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1.0e-8;
  double weight_decay = 0.1;
  bool operator==(const Optimizer&) const = default;
};

struct LrSchedule {
  ScheduleName name = ScheduleName::cosine;
  std::int64_t warmup_steps = 0;
  double min_lr_ratio = 0.1;
  std::optional<std::int64_t> decay_steps;
  bool operator==(const LrSchedule&) const = default;
};

struct Zero {
  std::int64_t stage = 3;
  std::int64_t prefetch = 1;
  bool reshard_after_forward = true;
  Reduce reduce = Reduce::automatic;
  std::int64_t keep_blocks = 0;
  bool operator==(const Zero&) const = default;
};

// `none`: keep all inner activations. `full`: recompute every block. `every`: recompute every k-th block (k =
// `every`). `sqrt`: keep block inputs only at about the square root of the number of blocks. `selective`: every
// block drops what one cheap element-wise pass makes again and keeps the rest.
struct Recompute {
  enum class Kind { none, full, sqrt, selective, every };
  Kind kind = Kind::none;
  std::int64_t every = 0;  // only for Kind::every
  bool operator==(const Recompute&) const = default;
};

struct Memory {
  Recompute recompute;
  bool operator==(const Memory&) const = default;
};

// The loss_scale_* numbers only count for `dynamic` with float16; scales are powers of two.
struct Precision {
  LossScale loss_scale = LossScale::dynamic;
  std::int64_t loss_scale_init = 65536;
  std::int64_t loss_scale_window = 2000;
  std::int64_t loss_scale_hysteresis = 1;
  std::int64_t loss_scale_min = 1;
  ReduceDtype reduce_dtype = ReduceDtype::float32;
  ReduceDtype accumulate_dtype = ReduceDtype::float32;
  bool operator==(const Precision&) const = default;
};

struct Comm {
  double timeout_seconds = 600;
  double silence_seconds = 30;
  Lanes lanes = Lanes::threads;
  bool operator==(const Comm&) const = default;
};

struct Checkpoint {
  std::optional<std::int64_t> every_steps;  // none: no regular checkpoints
  std::int64_t keep_last = 3;
  bool save_on_signal = true;
  bool async = true;
  FailedSave on_failed_save = FailedSave::stop;
  Export export_model = Export::at_end;  // the key is `export`
  bool operator==(const Checkpoint&) const = default;
};

struct Logging {
  Progress progress = Progress::automatic;
  bool tensorboard = true;
  bool operator==(const Logging&) const = default;
};

struct Recipe {
  Run run;
  Model model;
  Tokenizer tokenizer;
  Data data;
  Train train;
  Optimizer optimizer;
  LrSchedule lr_schedule;
  Zero zero;
  Memory memory;
  Precision precision;
  Comm comm;
  Checkpoint checkpoint;
  Logging logging;
  bool operator==(const Recipe&) const = default;
};

// Whether a rule of the recipe can send a run back to an earlier state.
inline bool may_rewind(const Recipe& recipe) {
  return recipe.train.on_nonfinite == OnBadStep::rewind || recipe.train.on_spike == OnSpike::rewind;
}

}  // namespace zt::recipe
