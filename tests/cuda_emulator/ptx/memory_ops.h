// Addresses of the lanes, and what several groups of memory instructions share.
#pragma once

#include <array>

#include "decoder.h"
#include "warp.h"

namespace zt::emulator::ptx {

using Addresses = std::array<std::uint64_t, kLanes>;

// The addresses (or shared offsets) that the lanes name by inst.a and inst.imm.
void addresses_of(const Warp& w, const Inst& in, Mask m, Addresses* out);
// The state space among the modifiers.
void mention_space(const Decoder& d, Inst* in);
// A memory fence of device scope.
Inst fence_inst();
// Where a lane's bytes are, for atomics: allowed lanes and pointers.
struct Resolved {
  Mask fine = 0;
  std::array<std::uint8_t*, kLanes> at;
};
void resolve(Warp& w, const Inst& in, Mask m, std::uint32_t bytes, AccessKind kind, Resolved* out);

}  // namespace zt::emulator::ptx
