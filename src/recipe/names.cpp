#include "recipe/names.h"

#include <algorithm>

#include "base/text.h"
#include "recipe/table.h"

namespace zt::recipe {
namespace {

// The documented interface that this version doesn't have: keys, and words of keys it has. `[]` is any
// position.
struct Later {
  const char* path;
  const char* word;  // "": the whole key
};
constexpr Later kLater[] = {
    {"run.deterministic", "false"},
};

// Names of other tools (Hugging Face Trainer, TRL, DeepSpeed, torchtitan, axolotl, nanoGPT, llm.c) and what
// to write here. A value with a blank in it is advice instead of a path.
struct Foreign {
  const char* name;
  const char* use;
};
constexpr Foreign kForeign[] = {
    {"lr", "optimizer.learning_rate"},
    {"max_lr", "optimizer.learning_rate"},
    {"peak_lr", "optimizer.learning_rate"},
    {"min_lr", "lr_schedule.min_lr_ratio"},
    {"final_lr_fraction", "lr_schedule.min_lr_ratio"},
    {"min_lr_factor", "lr_schedule.min_lr_ratio"},
    {"lr_scheduler", "lr_schedule.name"},
    {"lr_scheduler_type", "lr_schedule.name"},
    {"decay_type", "lr_schedule.name"},
    {"warmup", "lr_schedule.warmup_steps"},
    {"warmup_iters", "lr_schedule.warmup_steps"},
    {"warmup_num_steps", "lr_schedule.warmup_steps"},
    {"num_warmup_steps", "lr_schedule.warmup_steps"},
    {"warmup_ratio", "lr_schedule.warmup_steps (a number of steps, not a share)"},
    {"lr_decay_iters", "lr_schedule.decay_steps"},
    {"decay_ratio", "lr_schedule.decay_steps (a number of steps, not a share)"},
    {"optim", "optimizer.name"},
    {"optimizer_type", "optimizer.name"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_beta2", "optimizer.betas"},
    {"beta1", "optimizer.betas"},
    {"beta2", "optimizer.betas"},
    {"adam_epsilon", "optimizer.eps"},
    {"epsilon", "optimizer.eps"},
    {"wd", "optimizer.weight_decay"},
    {"decay", "optimizer.weight_decay"},
    {"per_device_train_batch_size", "train.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "train.micro_batch_size"},
    {"local_batch_size", "train.micro_batch_size"},
    {"batch_size", "train.micro_batch_size or train.global_batch_size"},
    {"train_batch_size", "train.global_batch_size"},
    {"total_batch_size", "train.global_batch_size"},
    {"gradient_accumulation_steps", "train.global_batch_size (accumulation is derived from it)"},
    {"accumulate_grad_batches", "train.global_batch_size (accumulation is derived from it)"},
    {"grad_accum_steps", "train.global_batch_size (accumulation is derived from it)"},
    {"per_device_eval_batch_size", "train.eval_batch_size"},
    {"num_train_epochs", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"steps", "train.max_steps"},
    {"max_iters", "train.max_steps"},
    {"num_iterations", "train.max_steps"},
    {"num_steps", "train.max_steps"},
    {"total_steps", "train.max_steps"},
    {"training_steps", "train.max_steps"},
    {"gradient_clipping", "train.max_grad_norm"},
    {"grad_clip", "train.max_grad_norm"},
    {"max_norm", "train.max_grad_norm"},
    {"clip_grad_norm", "train.max_grad_norm"},
    {"eval_steps", "train.eval_every"},
    {"eval_interval", "train.eval_every"},
    {"logging_steps", "train.log_every"},
    {"log_interval", "train.log_every"},
    {"log_freq", "train.log_every"},
    {"zero_stage", "zero.stage"},
    {"zero_optimization", "the section zero"},
    {"deepspeed", "the section zero"},
    {"fsdp", "the section zero"},
    {"stage3_prefetch_bucket_size", "zero.prefetch"},
    {"fsdp_reshard_after_forward", "zero.reshard_after_forward"},
    {"gradient_checkpointing", "memory.recompute"},
    {"activation_checkpointing", "memory.recompute"},
    {"activation_checkpoint", "memory.recompute"},
    {"checkpoint_activations", "memory.recompute"},
    {"bf16", "model.dtype: bfloat16"},
    {"fp16", "model.dtype: float16"},
    {"mixed_precision", "model.dtype"},
    {"torch_dtype", "model.dtype"},
    {"model_name_or_path", "model.base"},
    {"base_model", "model.base"},
    {"init_from", "model.base"},
    {"model_config", "model.config"},
    {"flavor", "model.config"},
    {"initializer_range", "model.init_std"},
    {"tokenizer_name", "tokenizer.path"},
    {"tokenizer_path", "tokenizer.path"},
    {"tokenizer_type", "tokenizer.type or tokenizer.path"},
    {"max_seq_length", "data.sequence_length"},
    {"max_seq_len", "data.sequence_length"},
    {"max_length", "data.sequence_length"},
    {"seq_len", "data.sequence_length"},
    {"seq_length", "data.sequence_length"},
    {"sequence_len", "data.sequence_length"},
    {"block_size", "data.sequence_length"},
    {"context_length", "data.sequence_length"},
    {"cutoff_len", "data.sequence_length"},
    {"sample_packing", "data.packing"},
    {"dataset", "data.train"},
    {"datasets", "data.train"},
    {"dataset_path", "data.train"},
    {"train_file", "data.train"},
    {"validation_file", "data.validation"},
    {"test_datasets", "data.validation"},
    {"val_set_size", "data.validation"},
    {"eval_dataset", "data.validation"},
    {"template", "data.chat_template"},
    {"conversation_template", "data.chat_template"},
    {"train_on_inputs", "data.train_on: everything"},
    {"train_on_prompt", "data.train_on: everything"},
    {"mask_history", "data.train_on: last_answer"},
    {"roles_to_train", "data.train_on"},
    {"train_on_input", "data.train_on: everything"},
    {"default_system_message", "data.system_prompt"},
    {"default_system", "data.system_prompt"},
    {"truncation", "data.overlong"},
    {"probability", "data.train[].weight"},
    {"interleave_probs", "data.train[].weight"},
    {"mix_ratio", "data.train[].weight"},
    {"ds_type", "data.train[].format"},
    {"columns", "data.train[].fields"},
    {"output", "run.output_dir"},
    {"out_dir", "run.output_dir"},
    {"run_name", "run.name"},
    {"random_seed", "run.seed"},
    {"save_steps", "checkpoint.every_steps"},
    {"save_interval", "checkpoint.every_steps"},
    {"save_total_limit", "checkpoint.keep_last"},
    {"keep_latest_k", "checkpoint.keep_last"},
    {"async_save", "checkpoint.async"},
    {"async_mode", "checkpoint.async"},
    {"init_scale", "precision.loss_scale_init"},
    {"initial_loss_scale", "precision.loss_scale_init"},
    {"initial_scale_power", "precision.loss_scale_init (the scale itself, not its power of two)"},
    {"growth_interval", "precision.loss_scale_window"},
    {"hysteresis", "precision.loss_scale_hysteresis"},
    {"min_loss_scale", "precision.loss_scale_min"},
    {"communication_data_type", "precision.reduce_dtype"},
    {"grad_accum_dtype", "precision.accumulate_dtype"},
    {"grad_reduce_in_fp32", "precision.reduce_dtype"},
    {"frozen_parameters", "train.freeze"},
    {"scheduler", "the section lr_schedule"},
    {"lr_scheduler_kwargs", "the section lr_schedule"},
    {"training", "the section train"},
    {"trainer", "the section train"},
    {"checkpointing", "the section checkpoint"},
};

// "data.train[2].format" -> "data.train[].format".
std::string without_positions(const std::string& path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

std::string leaf_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  for (const Section& section : sections())
    for (const RowText& row : section.rows) paths.push_back(cat(section.name, ".", row.name));
  return paths;
}

// The paths of all keys with that leaf name: "use optimizer.name, lr_schedule.name or run.name".
std::string elsewhere(const std::string& leaf) {
  std::vector<std::string> found;
  for (const std::string& path : all_paths())
    if (leaf_of(path) == leaf) found.push_back(path);
  return alternatives(found);
}

// A likely typing error is at most a third of the word away (and two letters of a short one).
std::string close_to(const std::string& leaf, const std::vector<std::string>& siblings) {
  std::string best;
  int distance = std::max(2, static_cast<int>(leaf.size()) / 3) + 1;
  const auto offer = [&](const std::string& key, const std::string& shown) {
    const int d = edit_distance(leaf, key);
    if (d < distance && d < static_cast<int>(key.size())) distance = d, best = shown;
  };
  for (const std::string& sibling : siblings) offer(sibling, sibling);
  for (const std::string& path : all_paths()) offer(leaf_of(path), path);
  return best;
}

}  // namespace

bool comes_later(const std::string& path, const std::string& word) {
  const std::string plain = without_positions(path);
  return std::any_of(std::begin(kLater), std::end(kLater),
                     [&](const Later& later) { return plain == later.path && word == later.word; });
}

std::string unknown_key(const std::string& path, const std::vector<std::string>& siblings) {
  const std::string fault = cat("unknown key '", shortened(path, 100), "'"), leaf = leaf_of(path);
  if (leaf.size() > 60) return fault;
  const std::string other = elsewhere(leaf);
  if (!other.empty()) return cat(fault, ": use ", other);
  for (const Foreign& foreign : kForeign)
    if (leaf == foreign.name) return cat(fault, ": use ", foreign.use);
  const std::string close = close_to(leaf, siblings);
  return close.empty() ? fault : cat(fault, "; did you mean ", close, "?");
}

std::vector<std::pair<std::string, std::string>> foreign_names() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Foreign& foreign : kForeign) out.emplace_back(foreign.name, foreign.use);
  return out;
}

}  // namespace zt::recipe
