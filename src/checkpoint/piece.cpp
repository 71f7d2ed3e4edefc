#include "checkpoint/piece.h"

namespace zt::checkpoint {

const char* name(Kind kind) {
  switch (kind) {
    case Kind::value: return "value";
    case Kind::first_moment: return "first_moment";
    case Kind::second_moment: return "second_moment";
  }
  return "?";
}

std::int64_t bytes_of(std::span<const Piece> pieces) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.count * std::int64_t{sizeof(float)};
  return bytes;
}

}  // namespace zt::checkpoint
