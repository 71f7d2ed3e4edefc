// One token after another through a model, with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/executor.h"

namespace zt::exec {

class Decoder {
 public:
  // Where a model speaks, and the kernels that run there.
  struct Place {
    device::Device* device = &device::host();
    std::function<std::unique_ptr<kernels::Kernels>(Dtype)> kernels = kernels::make_cpu_kernels;
  };

  // Holds weights for `dtype` (zeros at first) and a cache of `capacity` tokens.
  Decoder(const spec::ModelSpec& model, Dtype dtype, std::int64_t capacity, const Place& place);
  Decoder(const spec::ModelSpec& model, Dtype dtype, std::int64_t capacity)
      : Decoder(model, dtype, capacity, Place()) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Appends a token; returns the logits of what comes next, valid until the next call.
  std::span<const float> step(std::int32_t token);
  // Forgets all tokens.
  void clear();
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  shard::ParamStore& params() { return params_; }

 private:
  spec::ModelSpec model_;
  std::int64_t capacity_, length_ = 0;
  device::Device& device_;
  std::unique_ptr<kernels::Kernels> kernels_;
  shard::ParamStore params_;
  device::Arena saved_, workspace_, tables_, cache_memory_, rows_, ids_, logits_V_;
  layers::RunContext run_;
  Model blocks_;
  std::vector<layers::KvCache> caches_;
  std::vector<float> logits_;  // the host's copy
};

}  // namespace zt::exec
