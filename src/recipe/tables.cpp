// Every key of a recipe, one row each. The default is the member initialiser in settings.h.
#include "recipe/table.h"

namespace zt::recipe {
namespace {

// Beyond these a number is a typing error; within them products of sizes fit 64 bits.
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxBatch = 10'000'000;
constexpr std::int64_t kMaxSequence = 1 << 24;
// The largest scale at which any training framework starts (Megatron-LM).
constexpr std::int64_t kMaxLossScale = std::int64_t{1} << 32;

std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

template <typename S>
Section section(std::string name, S Recipe::* member, std::string meaning, std::vector<Key<S>> keys) {
  Section out;
  for (const Key<S>& row : keys) {
    const std::string preset = row.default_text.empty() ? text_of(row.value(S{})) : row.default_text;
    out.rows.push_back({row.name, row.unit, row.meaning, row.type, preset});
  }
  out.name = std::move(name);
  out.meaning = std::move(meaning);
  out.default_text = "its keys' defaults";
  out.read = [=](const Node& node, const At& at, Recipe& recipe) {
    read_section(keys, node, at, recipe.*member);
  };
  out.value = [=](const Recipe& recipe) { return section_json(keys, recipe.*member); };
  out.schema = [=] { return section_schema(keys, S{}); };
  return out;
}

Section run_section() {
  return section<Run>(
      "run", &Recipe::run, "Names the run and says where its results go.",
      {key("name", &Run::name, "", "The run's name.").follows("the recipe file's name without .yaml"),
       key("output_dir", &Run::output_dir, "", "The folder that gets everything the run leaves.")
           .follows("runs/NAME"),
       key("seed", &Run::seed, "", "Every random number is a function of it.", at_least(0)),
       key("device", &Run::device, "",
           "Where the run computes. `auto` takes a GPU for each rank where there are some, else the "
           "processor."),
       key("deterministic", &Run::deterministic, "",
           "The same recipe on the same machine gives the same bits. Always true in this version."),
       key("time_limit", &Run::time_limit, "",
           "A run that would be ended then saves in time and stops with status 75. `auto`: when the batch "
           "system's "
           "job ends (SLURM_JOB_END_TIME or ZEROTRAIN_END_TIME); a time counts from the run's start.")});
}

Section model_section() {
  return section<Model>(
      "model", &Recipe::model,
      "The model: a trained one (`base`) or a new one (`config`); give exactly one of them.",
      {key("base", &Model::base, "", "A Hugging Face folder: config.json, safetensors and tokenizer files."),
       key("config", &Model::config, "",
           "A new model's shape by the names of Hugging Face's config.json: model_type, vocab_size, and so "
           "on."),
       key("dtype", &Model::dtype, "",
           "Number format of weights and activations. Master weights and optimizer state are always "
           "float32."),
       key("dropout", &Model::dropout, "",
           "The share of activations dropped in training, after the embedding, in attention and in each "
           "block.",
           share_below_one()),
       key("init_std", &Model::init_std, "",
           "Standard deviation of a new model's weights; projections into the residual stream are divided by "
           "sqrt(2 x layers).",
           above_up_to(0, 10))});
}

Section tokenizer_section() {
  return section<Tokenizer>("tokenizer", &Recipe::tokenizer,
                            "Turns text into ids; give at most one of the two keys.",
                            {key("type", &Tokenizer::type, "",
                                 "`byte`: the 256 byte values. `char`: the distinct characters of the "
                                 "training text, in order of code point."),
                             key("path", &Tokenizer::path, "", "A Hugging Face folder with tokenizer.json.")
                                 .follows("model.base")});
}

Section data_section() {
  return section<Data>(
      "data", &Recipe::data, "What the model learns from.",
      {key("sequence_length", &Data::sequence_length, "tokens",
           "Length of a row: the ids the model sees at once.", between(2, kMaxSequence)),
       key("packing", &Data::packing, "",
           "A row holds as many documents as fit, which do not see each other. `false`: one document a row."),
       key("train", &Data::train, "",
           "The training data: one source or more, drawn by their weights; without weights each row once an "
           "epoch."),
       key("validation", &Data::validation, "",
           "Held-out data: `{fraction: x}` of each training source, or sources as for train."),
       key("add_eos", &Data::add_eos, "",
           "Put an end token after each raw-text document, where the tokenizer has one. Chat templates place "
           "their own."),
       key("add_bos", &Data::add_bos, "",
           "Put a begin token before each document. `auto`: if the tokenizer's own files do so. Templates "
           "that begin with "
           "one have it in any case, and never two."),
       key("chat_template", &Data::chat_template, "",
           "How alpaca, sharegpt and messages rows are written out. `auto`: as the model's own chat_template "
           "does, if "
           "that is one of these in effect; alpaca rows of a model without one as `alpaca`."),
       key("system_prompt", &Data::system_prompt, "",
           "The system message of conversations that have none. null: what the model's own template says, or "
           "none."),
       key("train_on", &Data::train_on, "",
           "Which messages are trained, each with the end of its turn. A row's own weights win over "
           "`all_answers`."),
       key("overlong", &Data::overlong, "",
           "What happens to rows with more tokens than sequence_length: left out, cut there, or an error. "
           "Raw text goes "
           "on in the next row."),
       key("bad_rows", &Data::bad_rows, "",
           "What malformed rows lead to: an error before step 1 that lists them, or they are left out and "
           "counted."),
       key("max_bad_rows", &Data::max_bad_rows, "rows",
           "More bad rows are an error even with bad_rows: skip.", between(0, kMaxCount))});
}

Section train_section() {
  return section<Train>(
      "train", &Recipe::train, "How long and in which portions; give exactly one of max_steps and epochs.",
      {key("max_steps", &Train::max_steps, "steps", "Number of updates.", between(1, kMaxCount)),
       key("epochs", &Train::epochs, "passes", "Passes over the training data; may be a fraction.",
           above_up_to(0, 1'000'000)),
       key("micro_batch_size", &Train::micro_batch_size, "sequences", "Rows that one rank computes at once.",
           between(1, kMaxBatch)),
       key("global_batch_size", &Train::global_batch_size, "sequences",
           "Rows of one update over all ranks; a multiple of micro_batch_size x ranks. The quotient is the "
           "number of "
           "micro-batches whose gradients are accumulated.",
           between(1, kMaxCount))
           .follows("micro_batch_size x ranks"),
       key("max_grad_norm", &Train::max_grad_norm, "",
           "Gradients are scaled down to this norm (over all parameters) when theirs is larger. 0: never.",
           at_least(0)),
       key("eval_every", &Train::eval_every, "steps",
           "Steps between evaluations on data.validation. 0: only after the last step.",
           between(0, kMaxCount)),
       key("eval_batch_size", &Train::eval_batch_size, "sequences", "Rows that one rank evaluates at once.",
           between(1, kMaxBatch))
           .follows("micro_batch_size"),
       key("log_every", &Train::log_every, "steps", "Steps between metrics lines.", between(1, kMaxCount)),
       key("on_nonfinite", &Train::on_nonfinite, "",
           "What follows a step whose loss or gradient is not finite, where no smaller loss scale can mend "
           "it. "
           "Nothing is updated either way. `stop` ends the run; `skip` goes on with the next batch; `rewind` "
           "goes back to the state held last and trains on without that batch."),
       key("on_spike", &Train::on_spike, "",
           "The same for a step whose loss is above spike_factor times the mean of the 16 steps before it. "
           "`ignore`: it is a step like others."),
       key("spike_factor", &Train::spike_factor, "", "How much higher a loss is a spike.", above(1)),
       key("max_bad_steps", &Train::max_bad_steps, "steps",
           "So many steps of a run may be skipped or rewound for these reasons; one more ends it.",
           between(0, kMaxCount)),
       key("hold_every", &Train::hold_every, "steps",
           "Where a rule says `rewind`: steps after which the state is copied again, in memory, to be gone "
           "back "
           "to. A checkpoint renews the copy too.",
           between(1, kMaxCount)),
       key("freeze", &Train::freeze, "",
           "Tensors whose name matches are not trained: they have no gradient, no optimizer state. Names as "
           "in "
           "the model's files; `*` matches anything.")});
}

Section optimizer_section() {
  return section<Optimizer>(
      "optimizer", &Recipe::optimizer, "How gradients change weights.",
      {key("name", &Optimizer::name, "", "AdamW with decoupled weight decay (Loshchilov & Hutter 2019)."),
       key("learning_rate", &Optimizer::learning_rate, "", "The rate after warm-up.", between(0, 10)),
       key("betas", &Optimizer::betas, "", "Decay rates of the running mean and of the running square.",
           share_below_one()),
       key("eps", &Optimizer::eps, "", "Added to the square root of the running square.", above(0)),
       key("weight_decay", &Optimizer::weight_decay, "",
           "Applied to matrices and embeddings only, never to biases or norm gains.", at_least(0))});
}

Section lr_schedule_section() {
  return section<LrSchedule>(
      "lr_schedule", &Recipe::lr_schedule, "How the learning rate changes over the run.",
      {key("name", &LrSchedule::name, "",
           "`cosine` and `linear` fall from the end of warm-up on; `constant` stays; `wsd` stays, then falls "
           "linearly at the end."),
       key("warmup_steps", &LrSchedule::warmup_steps, "steps",
           "The rate rises linearly from near 0 over these.", between(0, kMaxCount)),
       key("min_lr_ratio", &LrSchedule::min_lr_ratio, "", "The last rate as a share of learning_rate.",
           between(0, 1)),
       key("decay_steps", &LrSchedule::decay_steps, "steps",
           "`cosine`, `linear`: the step, counted from the start, at which the rate reaches its minimum "
           "(null: the "
           "last one). `wsd`: length of the final fall.",
           between(1, kMaxCount))});
}

Section zero_section() {
  return section<Zero>(
      "zero", &Recipe::zero,
      "What is split over the ranks (Rajbhandari et al. 2020). With one rank all stages do the same.",
      {key("stage", &Zero::stage, "",
           "0: nothing is split. 1: optimizer state. 2: gradients too. 3: weights too.", between(0, 3)),
       key("prefetch", &Zero::prefetch, "blocks",
           "How many blocks ahead stage 3 gathers weights. Each costs one gathered block of memory.",
           between(0, 1000)),
       key("reshard_after_forward", &Zero::reshard_after_forward, "",
           "Stage 3 frees a block's gathered weights after its forward and gathers them again for backward."),
       key("reduce", &Zero::reduce, "",
           "When gradients are summed over ranks: after each `micro`-batch or once a `step`. `auto`: micro "
           "for stages "
           "2 and 3, step for 0 and 1."),
       key("keep_blocks", &Zero::keep_blocks, "blocks",
           "So many last transformer blocks stay gathered between forward and backward.",
           between(0, 1'000'000))});
}

Section memory_section() {
  return section<Memory>("memory", &Recipe::memory, "What is traded for memory.",
                         {key("recompute", &Memory::recompute, "",
                              "Which blocks drop their inner activations after forward and compute them "
                              "again for backward: `none`, "
                              "`full` (all), `{every: k}` (each k-th), or `sqrt` (keep about the square root "
                              "of the number of blocks). `selective`: all blocks drop what one cheap "
                              "element-wise pass makes again (norm outputs and the MLP's activation) and "
                              "keep everything else.")});
}

Section precision_section() {
  return section<Precision>(
      "precision", &Recipe::precision, "Number formats besides model.dtype.",
      {key("loss_scale", &Precision::loss_scale, "",
           "Scaling of the loss against underflow (Micikevicius et al. 2018). Only float16 needs it; float32 "
           "and "
           "bfloat16 run without."),
       key("loss_scale_init", &Precision::loss_scale_init, "",
           "The first dynamic scale; a power of two, so that scaling is exact. 65536 as in PyTorch's "
           "GradScaler "
           "and DeepSpeed; Megatron-LM starts at 4294967296.",
           {between(1, kMaxLossScale), power_of_two()}),
       key("loss_scale_window", &Precision::loss_scale_window, "steps",
           "So many finite steps in a row double the scale. 2000 as in PyTorch; DeepSpeed and Megatron-LM "
           "use "
           "1000.",
           between(1, kMaxCount)),
       key("loss_scale_hysteresis", &Precision::loss_scale_hysteresis, "steps",
           "How many overflows it takes until the scale is halved; every one skips its step. 1 as in "
           "PyTorch; DeepSpeed and Megatron-LM use 2.",
           between(1, kMaxCount)),
       key("loss_scale_min", &Precision::loss_scale_min, "",
           "The scale never falls below this power of two; a run that keeps overflowing there stops. 1 as in "
           "DeepSpeed and Megatron-LM; PyTorch has no floor.",
           {between(1, kMaxLossScale), power_of_two()}),
       key("reduce_dtype", &Precision::reduce_dtype, "", "Number format of sums over ranks."),
       key("accumulate_dtype", &Precision::accumulate_dtype, "",
           "Number format in which gradients are accumulated.")});
}

Section comm_section() {
  return section<Comm>(
      "comm", &Recipe::comm, "How ranks talk.",
      {key("timeout_seconds", &Comm::timeout_seconds, "seconds",
           "A rank that waits longer for another gives up.", above_up_to(0, kMaxCount)),
       key("silence_seconds", &Comm::silence_seconds, "seconds",
           "How long a rank under a launcher may give no sign of life (a datagram each second) before "
           "the job ends: it was stopped, or its node or network is gone. A rank that only takes long "
           "gives them. 0 turns this off.",
           between(0, kMaxCount)),
       key("lanes", &Comm::lanes, "",
           "`threads`: communication runs beside computation, with several ranks. `inline`: "
           "one operation after another, for finding faults.")});
}

Section checkpoint_section() {
  return section<Checkpoint>(
      "checkpoint", &Recipe::checkpoint, "What a run saves.",
      {key("every_steps", &Checkpoint::every_steps, "steps",
           "Steps between checkpoints. null: no regular checkpoints.", between(1, kMaxCount)),
       key("keep_last", &Checkpoint::keep_last, "checkpoints",
           "So many newest checkpoints of this run stay on disk; older ones are deleted.",
           between(1, kMaxCount)),
       key("save_on_signal", &Checkpoint::save_on_signal, "",
           "A run that is told to stop (SIGTERM, SIGINT, SIGUSR1) saves a checkpoint first."),
       key("async", &Checkpoint::async, "",
           "Training goes on while a checkpoint is written, from a copy of the state in memory."),
       key("on_failed_save", &Checkpoint::on_failed_save, "",
           "When the disk refuses a checkpoint: `stop` ends the run; `continue` warns, keeps the older "
           "checkpoints, and tries again when the next save is due. A run's last save must succeed either "
           "way."),
       key("export", &Checkpoint::export_model, "",
           "Whether the run ends by writing the model as a Hugging Face folder, OUTPUT_DIR/export.")});
}

Section logging_section() {
  return section<Logging>(
      "logging", &Recipe::logging, "What a run says while it works.",
      {key("progress", &Logging::progress, "", "`auto`: a bar on a terminal, plain lines elsewhere."),
       key("tensorboard", &Logging::tensorboard, "",
           "Write what is measured as TensorBoard event files too, OUTPUT_DIR/tensorboard.")});
}

}  // namespace

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      run_section(),       model_section(),       tokenizer_section(), data_section(),   train_section(),
      optimizer_section(), lr_schedule_section(), zero_section(),      memory_section(), precision_section(),
      comm_section(),      checkpoint_section(),  logging_section()};
  return all;
}

const std::vector<Key<Source>>& source_keys() {
  static const std::vector<Key<Source>> keys = {
      key("path", &Source::path, "",
          "A file, or a folder of them; each may be packed with gzip. Text in UTF-8 (.txt), or JSON rows: "
          "one a line, or "
          "one array."),
      key("format", &Source::format, "",
          "What a row is: raw text; prompt and completion; instruction, input and output; conversations of "
          "from and "
          "value; messages of role and content. See docs/formats/rows.md."),
      key("separator", &Source::separator, "",
          "The text between the documents of a text file, for example \"\\n\\n\"; it belongs to none of "
          "them. null: "
          "each file is one document."),
      key("weight", &Source::weight, "",
          "The share of the rows that is drawn from this source, in proportion to the other weights. All "
          "sources of a "
          "list have one, or none.",
          above_up_to(0, 1'000'000)),
      key("fields", &Source::fields, "",
          "How the file calls a field: `{instruction: question, output: answer}`."),
      key("tools", &Source::tools, "",
          "What tool definitions in a row lead to: the row is bad, or they are left out.")};
  return keys;
}

}  // namespace zt::recipe
