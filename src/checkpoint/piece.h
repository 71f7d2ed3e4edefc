// What a checkpoint is made of: ranges of logical tensors. Nothing here knows of stages, blocks or padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exchange/safetensors.h"

namespace zt::checkpoint {

using exchange::Shape;

// What is kept of a tensor, all as fp32. `value` is the weight at full precision: the master copy where there
// is one. A run of another dtype rounds it, so weights are stored once. The moments are Adam's m and v;
// a frozen tensor has none.
enum class Kind { value, first_moment, second_moment };
inline constexpr Kind kKinds[] = {Kind::value, Kind::first_moment, Kind::second_moment};
const char* name(Kind kind);  // "value", "first_moment", "second_moment"

// Elements [first, first + count) of the row-major tensor, for one rank to store. Owns nothing.
struct Piece {
  std::string tensor;  // Hugging Face's name
  Shape shape;
  Kind kind = Kind::value;
  std::int64_t first = 0, count = 0;
  const float* data = nullptr;
};

// The bytes that storing them takes, up to HDF5's own bookkeeping.
std::int64_t bytes_of(std::span<const Piece> pieces);

// A tensor that somebody who loads asks for, with the kinds.
struct Need {
  std::string tensor;
  Shape shape;
  std::vector<Kind> kinds = {Kind::value};
};

}  // namespace zt::checkpoint
