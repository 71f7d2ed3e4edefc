// Holds a model's parameters and everything that belongs to them: P (weights in the run's dtype), R (fp32
// gradients), and O (fp32 master copy and the two moments). One flat buffer per kind and block; a rank owns
// one slice of each.
#pragma once

#include <cstdint>
#include <vector>

#include "device/arena.h"
#include "spec/model.h"
#include "tensor/dtype.h"

namespace zt::shard {

// Neighbouring tensors with the same decay: what one AdamW call covers.
struct UpdateRange {
  std::int64_t first = 0, count = 0;  // elements from the block's start
  bool decay = false;
};
std::vector<UpdateRange> update_ranges(const spec::BlockSpec& block);

class ParamStore {
 public:
  // Zeroed. Throws Error(machine) when memory is short.
  ParamStore(const spec::ModelSpec& model, Dtype dtype, bool training);

  Dtype dtype() const { return dtype_; }
  bool training() const { return training_; }
  void* weights(int block) const { return memory_.at(at(block).weights); }
  float* grads(int block) const { return memory_.as<float>(at(block).grads); }
  // fp32 values the optimizer changes; with fp32 weights the weights themselves.
  float* master(int block) const { return memory_.as<float>(at(block).master); }
  float* first_moment(int block) const { return memory_.as<float>(at(block).first_moment); }
  float* second_moment(int block) const { return memory_.as<float>(at(block).second_moment); }
  std::int64_t elements(int block) const { return at(block).elements; }
  std::int64_t bytes() const { return memory_.bytes(); }

  void clear_grads();
  // Sets elements [first, first + count) of a block from fp32 values: the master copy, and the weights
  // rounded from it.
  void set(int block, std::int64_t first, const float* values, std::int64_t count);
  // The fp32 values (master where there is one).
  void get(int block, std::int64_t first, float* values, std::int64_t count) const;

 private:
  struct Place {
    std::int64_t elements = 0, weights = 0, grads = 0, master = 0, first_moment = 0, second_moment = 0;
  };
  const Place& at(int block) const { return places_[static_cast<std::size_t>(block)]; }

  Dtype dtype_;
  bool training_;
  std::vector<Place> places_;
  device::Arena memory_;
};

// Gives every parameter its starting value, a pure function of (seed, block, element): Init of each tensor.
void initialise(ParamStore& store, const spec::ModelSpec& model, std::uint64_t seed);

}  // namespace zt::shard
