#include "train/sharded_state.h"

#include <algorithm>
#include <cstring>

namespace zt::train {

using checkpoint::Kind;

// The part of the rank's trained elements that holds `cut`, which lies in one tensor; null where it is frozen.
static const plan::Part* part_of(const shard::ParamStore& store, int block, const plan::Range& cut) {
  for (const plan::Part& part : store.parts(block))
    if (cut.first >= part.first && cut.end() <= part.end()) return &part;
  return nullptr;
}

void OwnedState::add(const spec::TensorSpec& tensor, Kind kind, const plan::Range& cut, const float* data) {
  pieces_.push_back({tensor.name, tensor.shape, kind, cut.first - tensor.offset, cut.count, data});
}

OwnedState::OwnedState(const spec::ModelSpec& model, const shard::ParamStore& store) : store_(store) {
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : model.blocks[static_cast<std::size_t>(b)].tensors) {
      const plan::Range cut = overlap(store.owned(b), {tensor.offset, tensor.elements()});
      if (cut.count == 0) continue;
      if (const plan::Part* const part = part_of(store, b, cut)) {
        const std::int64_t at = cut.first - part->first;
        add(tensor, Kind::value, cut, store.master(b, *part) + at);
        add(tensor, Kind::first_moment, cut, store.first_moment(b, *part) + at);
        add(tensor, Kind::second_moment, cut, store.second_moment(b, *part) + at);
        continue;
      }
      widened_.emplace_back(static_cast<std::size_t>(cut.count));
      store.get(b, cut.first, widened_.back().data(), cut.count);
      add(tensor, Kind::value, cut, widened_.back().data());
    }
  }
}

std::vector<checkpoint::Piece> OwnedState::copied_to(const device::Arena& memory) const {
  std::vector<checkpoint::Piece> copies = pieces_;
  float* next = memory.as<float>();
  auto widened = widened_.begin();
  for (checkpoint::Piece& piece : copies) {
    const std::int64_t bytes = piece.count * 4;
    if (widened != widened_.end() && piece.data == widened->data())
      std::memcpy(next, widened++->data(), static_cast<std::size_t>(bytes));
    else
      store_.device().to_host(next, piece.data, bytes);
    piece.data = next;
    next += piece.count;
  }
  return copies;
}

std::int64_t owned_state_bytes(const shard::ParamStore& store) {
  std::int64_t bytes = 0;
  for (int b = 0; b < store.blocks(); ++b) bytes += plan::snapshot_bytes(store.layout(b));
  return bytes;
}

std::vector<checkpoint::Need> needs_of(const spec::ModelSpec& model) {
  std::vector<checkpoint::Need> needs;
  for (const spec::BlockSpec& block : model.blocks) {
    for (const spec::TensorSpec& tensor : block.tensors) {
      needs.push_back({tensor.name, tensor.shape, {Kind::value}});
      if (tensor.trainable) needs.back().kinds = {Kind::value, Kind::first_moment, Kind::second_moment};
    }
  }
  return needs;
}

// Elements moved at a time, so that the scratch stays small.
static constexpr std::int64_t kPiece = 1 << 20;

void load_state(const checkpoint::Checkpoint& from, const spec::ModelSpec& model, shard::ParamStore& store) {
  std::vector<float> piece(kPiece);
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b) {
    for (const spec::TensorSpec& tensor : model.blocks[static_cast<std::size_t>(b)].tensors) {
      const plan::Range wanted = overlap(store.needed(b), {tensor.offset, tensor.elements()});
      for (std::int64_t at = wanted.first; at < wanted.end(); at += kPiece) {
        const std::int64_t count = std::min(kPiece, wanted.end() - at);
        from.read(tensor.name, Kind::value, at - tensor.offset,
                  std::span<float>(piece.data(), static_cast<std::size_t>(count)));
        store.set(b, at, piece.data(), count);
      }
      const plan::Part* const part = wanted.count > 0 ? part_of(store, b, wanted) : nullptr;
      if (part == nullptr) continue;
      const auto moments = [&](Kind kind, float* all) {
        float* const to = all + (wanted.first - part->first);
        for (std::int64_t done = 0; done < wanted.count; done += kPiece) {
          const std::int64_t count = std::min(kPiece, wanted.count - done);
          float* const here = store.device().is_host() ? to + done : piece.data();
          from.read(tensor.name, kind, wanted.first - tensor.offset + done,
                    std::span<float>(here, static_cast<std::size_t>(count)));
          if (here != to + done) store.device().to_device(to + done, here, count * 4);
        }
      };
      moments(Kind::first_moment, store.first_moment(b, *part));
      moments(Kind::second_moment, store.second_moment(b, *part));
    }
  }
}

}  // namespace zt::train
