// Between the store of a rank and checkpoints: which ranges of which tensors a rank writes, and puts back.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/piece.h"
#include "device/arena.h"
#include "shard/param_store.h"
#include "spec/model.h"

namespace zt::train {

// The elements this rank owns as pieces for a checkpoint, all fp32: values, and of trained tensors the moments.
class OwnedState {
 public:
  // Collects where they lie. Frozen tensors in half precision need fp32 copies: kept in here.
  OwnedState(const spec::ModelSpec& model, const shard::ParamStore& store);

  // Straight in the store, which must not change while they are used; only where the host reads the store's memory.
  const std::vector<checkpoint::Piece>& pieces() const { return pieces_; }
  // Copies of all of them in `memory`, which holds plan::snapshot_bytes of every block; valid until the next copy.
  std::vector<checkpoint::Piece> copied_to(const device::Arena& memory) const;

 private:
  void add(const spec::TensorSpec& tensor, checkpoint::Kind kind, const plan::Range& cut, const float* data);
  const shard::ParamStore& store_;
  std::vector<checkpoint::Piece> pieces_;
  std::vector<std::vector<float>> widened_;
};

// The bytes of all of them at most, the same on every rank.
std::int64_t owned_state_bytes(const shard::ParamStore& store);

// What a checkpoint must hold for a run of this model: values of all tensors, moments of the trained ones.
std::vector<checkpoint::Need> needs_of(const spec::ModelSpec& model);

// Puts values and moments of all elements this rank needs into the store, reading only those. Errors as
// Checkpoint::read.
void load_state(const checkpoint::Checkpoint& from, const spec::ModelSpec& model, shard::ParamStore& store);

}  // namespace zt::train
