// A decoded kernel: compact instructions over a warp's register file.
//
// A register is 32 lanes side by side, as wide as it was declared: 64 bytes for .b16, 128 for .b32, 256 for
// .b64. A predicate is one 32-bit mask. A Ref is a byte offset into one of two files: bit 0 says whether it is
// the warp's own file (0) or the launch's constants (1), which hold immediates, parameters and special
// registers that all warps share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interpreter.h"

namespace zt::emulator::ptx {

struct Warp;
struct Inst;
using Mask = std::uint32_t;
using Handler = void (*)(Warp&, const Inst&, Mask);
using Ref = std::uint32_t;

inline constexpr Mask kAllLanes = ~0u;
inline constexpr Ref kNoRef = ~0u;

enum class Space : std::uint8_t { generic, global, shared, local, constant, param };

struct Inst {
  Handler run = nullptr;
  Ref d = kNoRef, a = kNoRef, b = kNoRef, c = kNoRef, e = kNoRef;
  Ref guard = kNoRef;        // predicate
  std::int64_t imm = 0;      // address offset, or a literal
  std::uint32_t list = 0;    // first of its registers in Program::lists
  std::uint16_t count = 0;   // how many they are
  std::uint16_t flags = 0;   // the handler's own
  std::int32_t target = -1;  // branch
  std::uint32_t source = 0;  // index into Program::sources
  Space space = Space::generic;
  std::uint8_t width = 0;  // bytes of one element in memory
  bool guard_negated = false;
  bool wide_address = false;  // the address register has 64 bits
  bool helper = false;        // made by the decoder; not counted
};

// Where an instruction came from; `outer` is the line into which it was inlined.
struct SourceLine {
  int file = 0, line = 0, outer_file = 0, outer_line = 0, text_line = 0;
};

// Registers that a warp or the launch must fill.
enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  zero,
  clock,
  clock64,
  carry  // no register of PTX: the carry flags, a lane a bit
};

struct Program {
  std::vector<Inst> code;
  std::vector<Ref> lists;
  std::vector<std::int32_t> jump_tables;  // targets of brx.idx
  std::vector<SourceLine> sources;
  std::uint32_t register_bytes = 0;  // of one warp
  std::vector<std::uint8_t> constants;
  struct ParameterSlot {
    std::uint32_t constant_offset, parameter_offset;
    std::uint8_t width;  // of the slot's lanes
    std::uint8_t bytes;  // taken from the parameters
    bool is_signed;
  };
  std::vector<ParameterSlot> parameter_slots;
  std::vector<std::uint32_t> parameter_address_slots;  // constants that hold the parameters' address
  std::vector<std::int64_t> parameter_address_offsets;
  std::map<Special, Ref> specials;
  std::uint32_t static_shared = 0;   // bytes
  std::uint32_t dynamic_shared = 0;  // where the dynamic part starts
  std::uint32_t local_bytes = 0;     // of one thread
};

}  // namespace zt::emulator::ptx
