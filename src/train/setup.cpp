#include "train/setup.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/mpi.h"
#include "device/arena.h"
#include "device/cores.h"
#include "plan/fit.h"
#include "plan/recipe_shape.h"
#include "spec/freeze.h"
#include "text/chat_choice.h"
#include "train/shared_preparation.h"

namespace zt::train {

Dtype dtype_of(const recipe::Model& model) {
  switch (model.dtype) {
    case recipe::ModelDtype::float32: return Dtype::f32;
    case recipe::ModelDtype::bfloat16: return Dtype::bf16;
    case recipe::ModelDtype::float16: return Dtype::f16;
  }
  return Dtype::f32;
}

std::optional<std::int64_t> free_gpu_bytes(exec::Backend& backend) {
  if (backend.device().is_host()) return std::nullopt;
  return backend.device().available_bytes() + backend.comm().buffer_bytes();
}

static Dtype dtype_of(recipe::ReduceDtype dtype) {
  return dtype == recipe::ReduceDtype::float32 ? Dtype::f32 : Dtype::bf16;
}

plan::StepShape step_shape(const recipe::Recipe& r, bool training, const Ranks& ranks) {
  plan::StepShape shape = plan::step_shape(r, training, ranks.count);
  shape.gpu = ranks.gpu_bytes || r.run.device == recipe::Device::cuda;
  shape.kernel_bytes = shape.gpu ? kernels::kGpuWorkspaceBytes : kernels::tile_bytes(dtype_of(r.model));
  if (shape.gpu && ranks.count > 1) shape.comm_bytes = comm::kGpuBufferBytes;
  shape.process.ranks = ranks.in_process;
  shape.process.mpi = ranks.count > ranks.in_process;
  shape.process.threads = device::threads();
  return shape;
}

exec::EngineOptions engine_options(const recipe::Recipe& r, bool training, const Ranks& ranks) {
  exec::EngineOptions options;
  options.shape = step_shape(r, training, ranks);
  options.dtype = dtype_of(r.model);
  options.grad_dtype = dtype_of(r.precision.accumulate_dtype);
  options.wire = dtype_of(r.precision.reduce_dtype);
  options.lanes.threads = r.comm.lanes == recipe::Lanes::threads;
  options.dropout = static_cast<float>(r.model.dropout);
  options.seed = static_cast<std::uint64_t>(r.run.seed);
  return options;
}

// Alpaca rows have a form of their own where the model brings none.
static std::unique_ptr<text::ChatTemplate> open_chat(const recipe::Data& data,
                                                     const text::Tokenizer& tokenizer) {
  bool any = false, alpaca = true;
  for (const auto* sources : {&data.train, &data.validation.sources}) {
    for (const recipe::Source& source : *sources) {
      const bool chat = source.format != recipe::Format::text && source.format != recipe::Format::completion;
      any |= chat;
      alpaca &= !chat || source.format == recipe::Format::alpaca;
    }
  }
  if (!any) return nullptr;
  const auto fallback = alpaca ? std::optional(recipe::ChatTemplate::alpaca) : std::nullopt;
  return std::make_unique<text::ChatTemplate>(
      text::choose_chat(data.chat_template, data.system_prompt, data.add_bos, tokenizer, fallback),
      tokenizer);
}

// The template an exported model needs to be asked as it was trained; "" where its files have it already.
static std::string template_to_export(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer) {
  const text::Conversation any = {{{text::Role::user, "?", "", std::nullopt}}, ""};
  const std::string& bos = chat.tokens().bos;
  const bool begins_with_bos = !bos.empty() && starts_with(chat.text(any, true), bos);
  const auto same = [&](const std::string& jinja) {
    const auto known = text::recognise(jinja, tokenizer);
    return known && known->form == chat.form() && known->default_system == chat.default_system() &&
           known->begins_with_bos == begins_with_bos;
  };
  const auto own = text::own_template(tokenizer);
  if (own && same(*own)) return "";
  const std::string jinja = text::jinja_of(chat);
  return same(jinja) ? jinja : "";
}

static std::unique_ptr<text::ChatTemplate> open_plain(const recipe::Data& data,
                                                      const text::Tokenizer& tokenizer) {
  const auto completion = [](const recipe::Source& s) { return s.format == recipe::Format::completion; };
  if (std::ranges::none_of(data.train, completion) &&
      std::ranges::none_of(data.validation.sources, completion))
    return nullptr;
  return std::make_unique<text::ChatTemplate>(
      text::ChatOptions{recipe::ChatTemplate::none, "", data::adds_bos(data.add_bos, tokenizer)}, tokenizer);
}

Setup open_without_data(const recipe::Recipe& r, Use use, const Ranks& ranks) {
  Setup s;
  s.tokenizer = open_tokenizer(r);
  s.source = open_model(r.model, *s.tokenizer);
  if (use == Use::training) spec::freeze(s.source.spec, r.train.freeze);
  check_context(r, s.source.spec);
  if (use != Use::looking)
    require_fit(r, s.source.spec, use == Use::training, device::available_bytes(), ranks);
  s.chat = open_chat(r.data, *s.tokenizer);
  s.plain = open_plain(r.data, *s.tokenizer);
  if (s.chat) s.source.chat_template = template_to_export(*s.chat, *s.tokenizer);
  return s;
}

Setup open(const recipe::Recipe& r, Use use, const Ranks& ranks) {
  Setup s = open_without_data(r, use, ranks);
  s.data = data::open_data(r.data, s.rendering(), use != Use::evaluation);
  return s;
}

// Ranks may take very different times; who waits says so.
static void work_and_wait(comm::Communicator& comm, const std::function<void()>& work) {
  WaitingLines waiting(comm.rank() == 0);
  comm::work_and_agree(comm, work, [&waiting] { waiting.tick(); });
}

static bool on_any_rank(comm::Communicator& comm, bool mine) {
  const std::int32_t yes = mine ? 1 : 0;
  std::vector<std::int32_t> all(static_cast<std::size_t>(comm.size()));
  comm.exchange<std::int32_t>({&yes, 1}, all);
  return std::ranges::count(all, 1) > 0;
}

std::optional<Setup> open_on_all(const recipe::Recipe& r, Use use, const Ranks& ranks,
                                 comm::Communicator& comm, const std::function<bool()>& stops) {
  Setup s;
  const bool training = use != Use::evaluation;
  comm.doing("reading the model");
  comm::agree(comm, comm::attempt([&] { s = open_without_data(r, use, ranks); }));
  comm.doing("preparing the data");
  data::Share share = share_of_preparation(comm);
  share.stops = stops;
  std::optional<data::TokenFolders> prepared;
  work_and_wait(comm, [&] { prepared = data::prepare_data(r.data, s.rendering(), share, training); });
  if (on_any_rank(comm, !prepared)) return std::nullopt;
  comm.doing("opening the data");
  work_and_wait(comm, [&] { s.data = data::open_data(r.data, s.rendering(), *prepared, training); });
  comm::require_same(comm,
                     digest_of(cat(s.source.config.dump(), s.tokenizer->fingerprint(),
                                   s.data.train ? s.data.train->digest() : "",
                                   s.data.validation ? s.data.validation->digest() : "")),
                     Blame::data, "have opened different models, tokenizers or data",
                     "are the files of the recipe's paths the same on every node?");
  return s;
}

spec::ModelSpec open_spec(const recipe::Recipe& r) {
  if (r.model.base) {
    std::filesystem::path folder = *r.model.base;
    // A checkpoint has the model's files in a folder of its own.
    if (!std::filesystem::exists(folder / "config.json") &&
        std::filesystem::exists(folder / "hf/config.json"))
      folder /= "hf";
    return spec::from_config(exchange::read_config(folder), (folder / "config.json").string());
  }
  if (r.model.config.contains("vocab_size")) return spec::from_config(r.model.config, "model.config");
  return open_model(r.model, *open_tokenizer(r)).spec;
}

void require_fit(const recipe::Recipe& r, const spec::ModelSpec& model, bool training, std::int64_t available,
                 const Ranks& ranks) {
  plan::Room room;
  room.bytes = ranks.gpu_bytes ? *ranks.gpu_bytes
               : available < 0 ? available
                               : available / ranks.on_this_node * ranks.in_process;
  room.shape_of = [&](const recipe::Recipe& recipe) {
    plan::StepShape shape = step_shape(recipe, training, ranks);
    if (!shape.gpu && shape.process.mpi && ranks.on_this_node == ranks.count)
      shape.comm_bytes = comm::buffer_bytes_on_one_node(ranks.count);
    return shape;
  };
  const bool shared = ranks.on_this_node > ranks.in_process;
  plan::require_fit(r, model, room, ranks.gpu_bytes ? " on this rank's GPU" : shared ? " for each rank" : "");
}

void check_context(const recipe::Recipe& r, const spec::ModelSpec& model) {
  if (r.data.sequence_length <= model.max_positions) return;
  throw Error(Blame::usage,
              cat("data.sequence_length is ", r.data.sequence_length, ", but the model's context is ",
                  model.max_positions, " (max_position_embeddings)"),
              "shorten data.sequence_length, or name a rope_scaling and a larger max_position_embeddings in "
              "the model's config");
}

std::int64_t samples_in(const recipe::Train& train, std::int64_t rows) {
  return static_cast<std::int64_t>(std::ceil(train.epochs.value_or(0) * static_cast<double>(rows) - 1e-9));
}

std::int64_t steps_of(const recipe::Train& train, std::int64_t rows) {
  if (train.max_steps) return *train.max_steps;
  return (samples_in(train, rows) + train.global_batch_size - 1) / train.global_batch_size;
}

}  // namespace zt::train
