#include "shard/param_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/align.h"
#include "base/error.h"
#include "base/random.h"
#include "schedule/op.h"

namespace zt::shard {

static std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, schedule::kAlignment); }

std::vector<UpdateRange> update_ranges(const spec::BlockSpec& block) {
  std::vector<UpdateRange> ranges;
  for (const spec::TensorSpec& tensor : block.tensors) {
    if (ranges.empty() || ranges.back().decay != tensor.decay)
      ranges.push_back({tensor.offset, 0, tensor.decay});
    ranges.back().count += tensor.elements();
  }
  return ranges;
}

ParamStore::ParamStore(const spec::ModelSpec& model, Dtype dtype, bool training)
    : dtype_(dtype), training_(training) {
  std::int64_t end = 0;
  const auto claim = [&end](std::int64_t bytes) {
    const std::int64_t offset = end;
    end += aligned(bytes);
    return offset;
  };
  for (const spec::BlockSpec& block : model.blocks) {
    Place p;
    p.elements = block.elements;
    p.weights = claim(block.elements * size_of(dtype));
    p.master = p.weights;
    if (training) {
      p.grads = claim(block.elements * 4);
      if (dtype != Dtype::f32) p.master = claim(block.elements * 4);
      p.first_moment = claim(block.elements * 4);
      p.second_moment = claim(block.elements * 4);
    }
    places_.push_back(p);
  }
  memory_ = device::Arena(end, training ? "weights, gradients and optimizer state" : "weights");
}

void ParamStore::clear_grads() {
  for (int b = 0; b < static_cast<int>(places_.size()); ++b) std::fill_n(grads(b), elements(b), 0.f);
}

void ParamStore::set(int block, std::int64_t first, const float* values, std::int64_t count) {
  if (training_ || dtype_ == Dtype::f32) std::copy_n(values, count, master(block) + first);
  if (dtype_ != Dtype::bf16) return;
  bf16* const w = static_cast<bf16*>(weights(block)) + first;
  for (std::int64_t i = 0; i < count; ++i) w[i] = bf16(values[i]);
}

void ParamStore::get(int block, std::int64_t first, float* values, std::int64_t count) const {
  if (training_ || dtype_ == Dtype::f32) {
    std::copy_n(master(block) + first, count, values);
    return;
  }
  const bf16* const w = static_cast<const bf16*>(weights(block)) + first;
  for (std::int64_t i = 0; i < count; ++i) values[i] = float(w[i]);
}

// Numbers are drawn in pieces of this many elements, so that the scratch stays small.
static constexpr std::int64_t kPiece = 1 << 14;

static void fill_normal(std::span<float> values, const RandomStream& stream, std::int64_t first,
                        float deviation) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words = stream.words(static_cast<std::uint64_t>(first + static_cast<std::int64_t>(i)) / 4);
    const auto a = normal_pair(words[0], words[1]), b = normal_pair(words[2], words[3]);
    const float four[] = {a[0], a[1], b[0], b[1]};
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) values[i + j] = deviation * four[j];
  }
}

void initialise(ParamStore& store, const spec::ModelSpec& model, std::uint64_t seed) {
  std::vector<float> piece(kPiece);
  const float residual = 1.f / std::sqrt(2.f * static_cast<float>(model.layers));
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b) {
    std::uint32_t number = 0;
    for (const spec::TensorSpec& tensor : model.blocks[static_cast<std::size_t>(b)].tensors) {
      const RandomStream stream{seed, Purpose::init, static_cast<std::uint32_t>(b), number++};
      for (std::int64_t done = 0; done < tensor.elements(); done += kPiece) {
        const auto count = static_cast<std::size_t>(std::min(kPiece, tensor.elements() - done));
        const std::span<float> values(piece.data(), count);
        switch (tensor.init) {
          case spec::Init::normal: fill_normal(values, stream, done, model.init_std); break;
          case spec::Init::normal_residual:
            fill_normal(values, stream, done, model.init_std * residual);
            break;
          case spec::Init::zeros: std::ranges::fill(values, 0.f); break;
          case spec::Init::ones: std::ranges::fill(values, 1.f); break;
        }
        store.set(b, tensor.offset + done, values.data(), static_cast<std::int64_t>(count));
      }
    }
  }
}

}  // namespace zt::shard
