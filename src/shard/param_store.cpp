#include "shard/param_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/align.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "schedule/op.h"
#include "tensor/convert.h"

namespace zt::shard {

static std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, schedule::kAlignment); }

ParamStore::ParamStore(const spec::ModelSpec& model, Dtype dtype, bool training, const Share& share,
                       device::Device& device)
    : device_(device), dtype_(dtype), training_(training), share_(share) {
  const plan::Partition& split = share.partition;
  std::int64_t end = 0;
  const auto claim = [&end](std::int64_t bytes) {
    const std::int64_t offset = end;
    end += aligned(bytes);
    return offset;
  };
  for (const spec::BlockSpec& block : model.blocks) {
    Place p{plan::BlockLayout(block, split), {}};
    const plan::BlockLayout& layout = p.layout;
    p.parts = layout.parts(split.update_whole ? plan::Range{0, block.elements} : layout.owned(share.rank));
    p.weights = claim((split.weights_whole ? layout.padded() : layout.slice()) * size_of(dtype));
    p.master = p.weights;
    if (training && block.trainable()) {
      // Every rank claims what the fullest one needs, so that one plan is true for all.
      const std::int64_t state =
          split.update_whole ? layout.trained({0, block.elements}) : layout.most_trained();
      p.grad_elements = split.grads_whole ? layout.padded() : state;
      p.grads = claim(p.grad_elements * size_of(share.grad_dtype));
      if (dtype != Dtype::f32) p.master = claim(state * 4);
      p.first_moment = claim(state * 4);
      p.second_moment = claim(state * 4);
    }
    places_.push_back(std::move(p));
  }
  memory_ = device_.claim(end, training ? "weights, gradients and optimizer state" : "weights");
}

plan::Range ParamStore::held(int block) const {
  return share_.partition.weights_whole ? plan::Range{0, elements(block)} : owned(block);
}

plan::Range ParamStore::needed(int block) const {
  return share_.partition.update_whole ? plan::Range{0, elements(block)} : owned(block);
}

void* ParamStore::owned_weights(int block) const {
  const std::int64_t first = share_.partition.weights_whole ? share_.rank * layout(block).slice() : 0;
  return static_cast<char*>(weights(block)) + first * size_of(dtype_);
}

float* ParamStore::grads(int block) const {
  if (share_.grad_dtype != Dtype::f32) throw Error(Blame::bug, "gradients are kept in bfloat16");
  return static_cast<float*>(gradient(block));
}

void* ParamStore::gradient(int block, const plan::Part& part) const {
  const std::int64_t first = share_.partition.grads_whole ? part.first : part.state;
  return static_cast<char*>(gradient(block)) + first * size_of(share_.grad_dtype);
}

void* ParamStore::weights(int block, const plan::Part& part) const {
  const std::int64_t first =
      share_.partition.weights_whole ? part.first : part.first - share_.rank * layout(block).slice();
  return static_cast<char*>(weights(block)) + first * size_of(dtype_);
}

float* ParamStore::master(int block, const plan::Part& part) const {
  return own_master() ? master(block) + part.state : static_cast<float*>(weights(block, part));
}

std::vector<plan::Range> ParamStore::owned_gradient(int block) const {
  std::vector<plan::Range> ranges;
  for (const plan::Part& part : layout(block).parts(owned(block))) {
    const std::int64_t first = share_.partition.grads_whole ? part.first : part.state;
    if (!ranges.empty() && ranges.back().end() == first)
      ranges.back().count += part.count;
    else
      ranges.push_back({first, part.count});
  }
  return ranges;
}

std::vector<plan::Range> ParamStore::state_ranges() const {
  std::vector<plan::Range> ranges;
  std::int64_t from = 0;
  for (const Place& place : places_) {
    const std::int64_t bytes = aligned(place.grad_elements * size_of(grad_dtype()));
    if (bytes == 0) continue;
    ranges.push_back({from, place.grads - from});
    from = place.grads + bytes;
  }
  ranges.push_back({from, memory_.bytes() - from});
  return ranges;
}

std::int64_t ParamStore::state_bytes() const {
  std::int64_t bytes = 0;
  for (const plan::Range& range : state_ranges()) bytes += range.count;
  return bytes;
}

void ParamStore::copy_state_to(std::byte* memory) const {
  for (const plan::Range& range : state_ranges()) {
    device_.to_host(memory, memory_.at(range.first), range.count);
    memory += range.count;
  }
}

void ParamStore::copy_state_from(const std::byte* memory) {
  for (const plan::Range& range : state_ranges()) {
    device_.to_device(memory_.at(range.first), memory, range.count);
    memory += range.count;
  }
}

void ParamStore::clear_grads() {
  for (int b = 0; b < static_cast<int>(places_.size()); ++b)
    device_.fill(gradient(b), 0, gradient_elements(b) * size_of(grad_dtype()));
}

void ParamStore::set_weights(void* to, const float* values, std::int64_t count) const {
  if (device_.is_host()) return convert(values, Dtype::f32, to, dtype_, count);
  const std::int64_t bytes = count * size_of(dtype_);
  std::vector<std::byte> narrow(static_cast<std::size_t>(bytes));
  convert(values, Dtype::f32, narrow.data(), dtype_, count);
  device_.to_device(to, narrow.data(), bytes);
}

void ParamStore::get_weights(float* values, const void* from, std::int64_t count) const {
  if (device_.is_host()) return convert(from, dtype_, values, Dtype::f32, count);
  const std::int64_t bytes = count * size_of(dtype_);
  std::vector<std::byte> narrow(static_cast<std::size_t>(bytes));
  device_.to_host(narrow.data(), from, bytes);
  convert(narrow.data(), dtype_, values, Dtype::f32, count);
}

void ParamStore::set(int block, std::int64_t first, const float* values, std::int64_t count) {
  const plan::Range given{first, count}, here = overlap(given, held(block));
  if (here.count > 0) {
    const plan::Part as_part{here.first, here.count};
    set_weights(weights(block, as_part), values + (here.first - first), here.count);
  }
  if (!own_master()) return;
  for (const plan::Part& part : parts(block)) {
    const plan::Range cut = overlap(given, {part.first, part.count});
    if (cut.count > 0)
      device_.to_device(master(block) + part.state + (cut.first - part.first), values + (cut.first - first),
                        cut.count * 4);
  }
}

void ParamStore::get(int block, std::int64_t first, float* values, std::int64_t count) const {
  const plan::Range asked{first, count};
  if (overlap(asked, held(block)).count != count)
    throw Error(Blame::bug, cat("rank ", share_.rank, " was asked for elements ", first, " to ",
                                first + count, " of block ", block, ", which it does not hold"));
  get_weights(values, weights(block, plan::Part{first, count}), count);
  if (!own_master()) return;
  for (const plan::Part& part : parts(block)) {
    const plan::Range cut = overlap(asked, {part.first, part.count});
    if (cut.count > 0)
      device_.to_host(values + (cut.first - first), master(block) + part.state + (cut.first - part.first),
                      cut.count * 4);
  }
}

// Numbers are drawn in pieces of this many elements by all threads, and stored some pieces at once: an 8B model would take
// one thread minutes, and its own copy to a GPU for each piece. The scratch of a rank is 1 MiB.
static constexpr std::int64_t kPiece = 1 << 14, kStored = 16 * kPiece;

// Values number first, first + 1, ... of a tensor; `first` is a multiple of four.
static void fill_normal(std::span<float> values, const RandomStream& stream, std::int64_t first,
                        float deviation) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words = stream.words(static_cast<std::uint64_t>(first + static_cast<std::int64_t>(i)) / 4);
    const auto a = normal_pair(words[0], words[1]), b = normal_pair(words[2], words[3]);
    const float four[] = {a[0], a[1], b[0], b[1]};
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) values[i + j] = deviation * four[j];
  }
}

static void fill(std::span<float> values, const spec::ModelSpec& model, spec::Init init,
                 const RandomStream& stream, std::int64_t first) {
  const float residual = 1.f / std::sqrt(2.f * static_cast<float>(model.layers));
  switch (init) {
    case spec::Init::normal: fill_normal(values, stream, first, model.init_std); break;
    case spec::Init::normal_residual: fill_normal(values, stream, first, model.init_std * residual); break;
    case spec::Init::zeros: std::ranges::fill(values, 0.f); break;
    case spec::Init::ones: std::ranges::fill(values, 1.f); break;
  }
}

// Elements [first, first + count) of a tensor.
static void draw(float* values, std::int64_t first, std::int64_t count, const spec::ModelSpec& model,
                 spec::Init init, const RandomStream& stream) {
#pragma omp parallel for schedule(static) if (count > kPiece)
  for (std::int64_t at = 0; at < count; at += kPiece)
    fill({values + at, static_cast<std::size_t>(std::min(kPiece, count - at))}, model, init, stream,
         first + at);
}

void initialise(ParamStore& store, const spec::ModelSpec& model, std::uint64_t seed) {
  std::vector<float> values(kStored);
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b) {
    std::uint32_t number = 0;
    for (const spec::TensorSpec& tensor : model.blocks[static_cast<std::size_t>(b)].tensors) {
      const RandomStream stream{seed, Purpose::init, static_cast<std::uint32_t>(b), number++};
      const plan::Range mine = overlap(store.needed(b), {tensor.offset, tensor.elements()});
      const std::int64_t end = mine.end() - tensor.offset;
      for (std::int64_t done = (mine.first - tensor.offset) / 4 * 4; done < end && mine.count > 0;
           done += kStored) {
        const std::int64_t count = std::min(kStored, end - done);
        draw(values.data(), done, count, model, tensor.init, stream);
        store.set(b, tensor.offset + done, values.data(), count);
      }
    }
  }
}

}  // namespace zt::shard
