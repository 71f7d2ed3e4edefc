// Holds a rank's share of a model's parameters and everything that belongs to them: P (weights in the run's
// dtype), R (gradients), and O (fp32 master copy and the two moments). One flat buffer per kind and block.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "plan/partition.h"
#include "spec/model.h"
#include "tensor/dtype.h"

namespace zt::shard {

// What is held, of which rank.
struct Share {
  plan::Partition partition;
  int rank = 0;
  Dtype grad_dtype = Dtype::f32;  // of R: f32 or bf16
};

class ParamStore {
 public:
  // Zeroed. Throws Error(machine) when memory is short. Without `training` there are weights only. Addresses below are
  // those of the device's memory.
  ParamStore(const spec::ModelSpec& model, Dtype dtype, bool training, const Share& share = {},
             device::Device& device = device::host());

  Dtype dtype() const { return dtype_; }
  Dtype grad_dtype() const { return share_.grad_dtype; }
  bool training() const { return training_; }
  const Share& share() const { return share_; }
  device::Device& device() const { return device_; }
  int blocks() const { return static_cast<int>(places_.size()); }
  const plan::BlockLayout& layout(int block) const { return at(block).layout; }
  std::int64_t elements(int block) const { return layout(block).elements(); }
  std::int64_t bytes() const { return memory_.bytes(); }

  // The elements of a block that this rank owns, without padding: what it is given and asked for.
  plan::Range owned(int block) const { return layout(block).owned(share_.rank); }
  // The elements whose fp32 values this rank must be given before training: its own, or, where every rank
  // updates everything, all.
  plan::Range needed(int block) const;
  // The trained pieces that this rank updates: of its own elements, or of the whole block.
  const std::vector<plan::Part>& parts(int block) const { return at(block).parts; }

  // P: all slices of the block, or only this rank's; and where this rank's begins.
  void* weights(int block) const { return memory_.at(at(block).weights); }
  void* owned_weights(int block) const;
  // R: the whole block by its elements, or the parts one after the other. `grads` needs fp32.
  void* gradient(int block) const { return memory_.at(at(block).grads); }
  std::int64_t gradient_elements(int block) const { return at(block).grad_elements; }
  float* grads(int block) const;
  // The elements of R that are this rank's own sums: what it adds to the global norm.
  std::vector<plan::Range> owned_gradient(int block) const;
  // Where a part's values lie in R, in the weights, and (fp32) in the master copy and the moments. With fp32
  // weights they are their own master copy.
  void* gradient(int block, const plan::Part& part) const;
  void* weights(int block, const plan::Part& part) const;
  float* master(int block, const plan::Part& part) const;
  float* first_moment(int block, const plan::Part& part) const { return first_moment(block) + part.state; }
  float* second_moment(int block, const plan::Part& part) const { return second_moment(block) + part.state; }
  // The same from their start.
  float* master(int block) const { return memory_.as<float>(at(block).master); }
  float* first_moment(int block) const { return memory_.as<float>(at(block).first_moment); }
  float* second_moment(int block) const { return memory_.as<float>(at(block).second_moment); }

  // Everything that steps change and don't make anew, which is all but R: its size, and copies of its bytes to and from
  // host memory of that size.
  std::int64_t state_bytes() const;
  void copy_state_to(std::byte* memory) const;
  void copy_state_from(const std::byte* memory);

  void clear_grads();
  // Sets elements [first, first + count) of a block from fp32 values, as far as they lie here: the weights
  // rounded from them, and the master copy of those that this rank updates.
  void set(int block, std::int64_t first, const float* values, std::int64_t count);
  // The fp32 values (master where there is one) of elements this rank updates or, untrained, holds.
  void get(int block, std::int64_t first, float* values, std::int64_t count) const;

 private:
  struct Place {
    plan::BlockLayout layout;
    std::vector<plan::Part> parts;
    std::int64_t weights = 0, grads = 0, grad_elements = 0, master = 0, first_moment = 0, second_moment = 0;
  };
  const Place& at(int block) const { return places_[static_cast<std::size_t>(block)]; }
  // The bytes of memory_ before, between and behind the gradients.
  std::vector<plan::Range> state_ranges() const;
  // Elements of the block that lie in P.
  plan::Range held(int block) const;
  bool own_master() const { return training_ && dtype_ != Dtype::f32; }

  // Between fp32 values of the host and weights at an address.
  void set_weights(void* to, const float* values, std::int64_t count) const;
  void get_weights(float* values, const void* from, std::int64_t count) const;

  device::Device& device_;
  Dtype dtype_;
  bool training_;
  Share share_;
  std::vector<Place> places_;
  device::Arena memory_;
};

// Gives every needed parameter its starting value, a pure function of (seed, block, element): Init of each
// tensor.
void initialise(ParamStore& store, const spec::ModelSpec& model, std::uint64_t seed);

}  // namespace zt::shard
