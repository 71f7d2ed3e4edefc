// The words of each enumeration, once: parsing, printing, the schema and the manual read these tables.
#pragma once

#include <vector>

#include "recipe/settings.h"

namespace zt::recipe {

template <typename E>
struct Word {
  E value;
  const char* text;
};

inline std::vector<Word<Device>> words(Device) {
  return {{Device::automatic, "auto"}, {Device::cpu, "cpu"}, {Device::cuda, "cuda"}};
}
inline std::vector<Word<ModelDtype>> words(ModelDtype) {
  return {
      {ModelDtype::float32, "float32"}, {ModelDtype::bfloat16, "bfloat16"}, {ModelDtype::float16, "float16"}};
}
inline std::vector<Word<ReduceDtype>> words(ReduceDtype) {
  return {{ReduceDtype::float32, "float32"}, {ReduceDtype::bfloat16, "bfloat16"}};
}
inline std::vector<Word<TokenizerType>> words(TokenizerType) {
  return {{TokenizerType::byte, "byte"}, {TokenizerType::character, "char"}};
}
inline std::vector<Word<Format>> words(Format) {
  return {{Format::text, "text"},
          {Format::completion, "completion"},
          {Format::alpaca, "alpaca"},
          {Format::sharegpt, "sharegpt"},
          {Format::messages, "messages"}};
}
inline std::vector<Word<ChatTemplate>> words(ChatTemplate) {
  return {{ChatTemplate::automatic, "auto"},  {ChatTemplate::llama2, "llama2"},
          {ChatTemplate::llama3, "llama3"},   {ChatTemplate::chatml, "chatml"},
          {ChatTemplate::mistral, "mistral"}, {ChatTemplate::alpaca, "alpaca"},
          {ChatTemplate::vicuna, "vicuna"},   {ChatTemplate::none, "none"}};
}
inline std::vector<Word<TrainOn>> words(TrainOn) {
  return {{TrainOn::all_answers, "all_answers"},
          {TrainOn::last_answer, "last_answer"},
          {TrainOn::everything, "everything"}};
}
inline std::vector<Word<Overlong>> words(Overlong) {
  return {{Overlong::drop, "drop"}, {Overlong::truncate, "truncate"}, {Overlong::error, "error"}};
}
inline std::vector<Word<BadRows>> words(BadRows) {
  return {{BadRows::error, "error"}, {BadRows::skip, "skip"}};
}
inline std::vector<Word<Tools>> words(Tools) {
  return {{Tools::refuse, "refuse"}, {Tools::ignore, "ignore"}};
}
inline std::vector<Word<AddBos>> words(AddBos) {
  return {{AddBos::automatic, "auto"}, {AddBos::yes, "true"}, {AddBos::no, "false"}};
}
inline std::vector<Word<OptimizerName>> words(OptimizerName) { return {{OptimizerName::adamw, "adamw"}}; }
inline std::vector<Word<ScheduleName>> words(ScheduleName) {
  return {{ScheduleName::cosine, "cosine"},
          {ScheduleName::linear, "linear"},
          {ScheduleName::constant, "constant"},
          {ScheduleName::wsd, "wsd"}};
}
inline std::vector<Word<Reduce>> words(Reduce) {
  return {{Reduce::automatic, "auto"}, {Reduce::micro, "micro"}, {Reduce::step, "step"}};
}
inline std::vector<Word<LossScale>> words(LossScale) {
  return {{LossScale::dynamic, "dynamic"}, {LossScale::none, "none"}};
}
inline std::vector<Word<Lanes>> words(Lanes) {
  return {{Lanes::threads, "threads"}, {Lanes::inlined, "inline"}};
}
inline std::vector<Word<Export>> words(Export) {
  return {{Export::at_end, "at_end"}, {Export::never, "never"}};
}
inline std::vector<Word<FailedSave>> words(FailedSave) {
  return {{FailedSave::stop, "stop"}, {FailedSave::go_on, "continue"}};
}
inline std::vector<Word<OnBadStep>> words(OnBadStep) {
  return {{OnBadStep::stop, "stop"}, {OnBadStep::skip, "skip"}, {OnBadStep::rewind, "rewind"}};
}
inline std::vector<Word<OnSpike>> words(OnSpike) {
  return {{OnSpike::ignore, "ignore"},
          {OnSpike::stop, "stop"},
          {OnSpike::skip, "skip"},
          {OnSpike::rewind, "rewind"}};
}
inline std::vector<Word<TimeLimit::Kind>> words(TimeLimit::Kind) {
  return {{TimeLimit::Kind::automatic, "auto"}, {TimeLimit::Kind::none, "none"}};
}
inline std::vector<Word<Progress>> words(Progress) {
  return {{Progress::automatic, "auto"},
          {Progress::bar, "bar"},
          {Progress::lines, "lines"},
          {Progress::none, "none"}};
}
inline std::vector<Word<Recompute::Kind>> words(Recompute::Kind) {
  return {{Recompute::Kind::none, "none"},
          {Recompute::Kind::full, "full"},
          {Recompute::Kind::sqrt, "sqrt"},
          {Recompute::Kind::selective, "selective"}};
}

// The word of a value; for values that are not written as a word, such as Recompute::Kind::every, the first word.
template <typename E>
const char* word_of(E value) {
  for (const Word<E>& word : words(value))
    if (word.value == value) return word.text;
  return words(value).front().text;
}

}  // namespace zt::recipe
