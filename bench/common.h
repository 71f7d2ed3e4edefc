// What the benchmarks share: options, the model they train, and batches without meaning.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "exec/engine.h"

namespace zt::bench {

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Options of the form `--key value`; others are ignored.
class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}
  std::string text(const std::string& key, const std::string& preset) const {
    for (int i = 1; i + 1 < argc_; i += 2)
      if (key == argv_[i]) return argv_[i + 1];
    return preset;
  }
  std::int64_t number(const std::string& key, std::int64_t preset) const {
    return std::stoll(text(key, std::to_string(preset)));
  }
  // `--dtype f32|bf16`
  Dtype dtype() const { return text("--dtype", "f32") == "bf16" ? Dtype::bf16 : Dtype::f32; }

 private:
  int argc_;
  char** argv_;
};

// A benchmark's main: errors are told as the program tells them.
inline int told(int argc, char** argv, int (*run)(const Arguments&)) {
  try {
    return run(Arguments(argc, argv));
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return exit_status(e.blame());
  }
}

// What every benchmark of steps can be asked for.
struct Settings {
  std::int64_t rows = 1, length = 1024;
  int steps = 3;
  Dtype dtype = Dtype::f32;
};

inline Settings settings(const Arguments& a, const Settings& presets) {
  return {a.number("--rows", presets.rows), a.number("--length", presets.length),
          int(a.number("--steps", presets.steps)), a.dtype()};
}

inline spec::ModelSpec gpt2_124m() {
  return spec::from_config({{"model_type", "gpt2"},
                            {"vocab_size", 50257},
                            {"n_positions", 1024},
                            {"n_embd", 768},
                            {"n_layer", 12},
                            {"n_head", 12}},
                           "gpt2-124m");
}

// `rows` documents of random tokens; `number` draws others.
inline exec::HostBatch random_batch(std::int64_t rows, std::int64_t length, const spec::ModelSpec& model,
                                    std::uint32_t number = 0) {
  exec::HostBatch batch;
  batch.bounds.push_back(0);
  const RandomStream random{.seed = 1, .a = number};
  const auto token = [&](std::int64_t at) {
    return std::int32_t(random.u64(std::uint64_t(at)) % std::uint64_t(model.vocab));
  };
  for (std::int64_t i = 0; i < rows * length; ++i) {
    batch.tokens.push_back(token(i));
    batch.targets.push_back(token(i + 1));
    batch.positions.push_back(std::int32_t(i % length));
    if ((i + 1) % length == 0) batch.bounds.push_back(std::int32_t(i + 1));
  }
  return batch;
}

}  // namespace zt::bench
