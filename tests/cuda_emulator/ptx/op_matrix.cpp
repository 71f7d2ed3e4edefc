// mma.sync, ldmatrix, stmatrix, movmatrix.
//
// Source: PTX ISA 9.0, "Matrix fragments for mma.m16n8k16", and those beside it: lane l holds row l / 4 and columns
// 2 (l % 4), 2 (l % 4) + 1 of each 8x8 part of a 16-bit operand.
// Products are summed in f32 in the order of k; the tensor cores' own order is not documented.
#include <bit>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "half.h"
#include "memory_ops.h"

namespace zt::emulator::ptx {

namespace {

// D = A B + C for one 16x8 tile. A is [row][k], B is [k][column].
template <int kK>
struct Tile {
  alignas(64) float a[16][kK];
  alignas(64) float b[kK][8];
  alignas(64) float d[16][8];

  void multiply() {
    for (int i = 0; i < 16; ++i) {
      float sum[8] = {};
      for (int k = 0; k < kK; ++k) {
        for (int j = 0; j < 8; ++j) sum[j] += a[i][k] * b[k][j];
      }
      for (int j = 0; j < 8; ++j) d[i][j] += sum[j];
    }
  }
};

template <typename H>
float low(std::uint32_t pair) {
  return to_float(H{std::uint16_t(pair)});
}
template <typename H>
float high(std::uint32_t pair) {
  return to_float(H{std::uint16_t(pair >> 16)});
}

template <typename H, int kK>
void unpack_operands(const Warp& w, const Ref* a, const Ref* b, Tile<kK>* t) {
  for (int r = 0; r < kK / 4; ++r) {
    const std::uint32_t* x = lanes_of<std::uint32_t>(w, a[r]);
    for (int l = 0; l < kLanes; ++l) {
      float* at = &t->a[l / 4 + (r & 1) * 8][l % 4 * 2 + (r >> 1) * 8];
      at[0] = low<H>(x[l]);
      at[1] = high<H>(x[l]);
    }
  }
  for (int r = 0; r < kK / 8; ++r) {
    const std::uint32_t* x = lanes_of<std::uint32_t>(w, b[r]);
    for (int l = 0; l < kLanes; ++l) {
      t->b[l % 4 * 2 + r * 8][l / 4] = low<H>(x[l]);
      t->b[l % 4 * 2 + r * 8 + 1][l / 4] = high<H>(x[l]);
    }
  }
}

template <int kK>
void unpack_tf32(const Warp& w, const Ref* a, const Ref* b, Tile<kK>* t) {
  for (int r = 0; r < kK / 2; ++r) {
    const float* x = lanes_of<float>(w, a[r]);
    for (int l = 0; l < kLanes; ++l) t->a[l / 4 + (r & 1) * 8][l % 4 + (r >> 1) * 4] = to_tf32(x[l]);
  }
  for (int r = 0; r < kK / 4; ++r) {
    const float* x = lanes_of<float>(w, b[r]);
    for (int l = 0; l < kLanes; ++l) t->b[l % 4 + r * 4][l / 4] = to_tf32(x[l]);
  }
}

struct Tf32 {};

// flags: bit 0: C is f16, bit 1: D is f16. The list holds D, A, B, C.
template <typename H, int kK>
void mma_lanes(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  constexpr bool kTf32 = std::is_same_v<H, Tf32>;
  constexpr int kARegisters = kTf32 ? kK / 2 : kK / 4, kBRegisters = kTf32 ? kK / 4 : kK / 8;
  const bool c_half = in.flags & 1, d_half = in.flags & 2;
  const Ref* d = &w.block->launch().program.lists[in.list];
  const Ref *a = d + (d_half ? 2 : 4), *b = a + kARegisters, *c = b + kBRegisters;
  Tile<kK> t;
  if constexpr (kTf32)
    unpack_tf32<kK>(w, a, b, &t);
  else
    unpack_operands<H, kK>(w, a, b, &t);
  for (int r = 0; r < 4; ++r) {
    for (int l = 0; l < kLanes; ++l) {
      float& at = t.d[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)];
      if (c_half) {
        const std::uint32_t pair = lanes_of<std::uint32_t>(w, c[r / 2])[l];
        at = r & 1 ? high<F16>(pair) : low<F16>(pair);
      } else {
        at = lanes_of<float>(w, c[r])[l];
      }
    }
  }
  t.multiply();
  for (int r = 0; r < 4; ++r) {
    for (int l = 0; l < kLanes; ++l) {
      const float x = t.d[l / 4 + (r >> 1) * 8][l % 4 * 2 + (r & 1)];
      if (d_half)
        lanes_of<std::uint16_t>(w, d[r / 2])[l * 2 + (r & 1)] = round_f16(x).bits;
      else
        lanes_of<float>(w, d[r])[l] = x;
    }
  }
  ++w.block->launch().counters.mma;
}

Handler mma_handler(const std::string& shape, const std::string& type) {
  if (shape == "m16n8k16")
    return type == "bf16" ? mma_lanes<Bf16, 16> : type == "f16" ? mma_lanes<F16, 16> : nullptr;
  if (shape == "m16n8k8")
    return type == "bf16"   ? mma_lanes<Bf16, 8>
           : type == "f16"  ? mma_lanes<F16, 8>
           : type == "tf32" ? mma_lanes<Tf32, 8>
                            : nullptr;
  return shape == "m16n8k4" && type == "tf32" ? mma_lanes<Tf32, 4> : nullptr;
}

// mma.sync.aligned.SHAPE.row.col.D.A.B.C d, a, b, c
void mma(Decoder& d) {
  const std::vector<std::string>& words = d.modifiers();
  if (words.size() < 9 || !d.has("row") || !d.has("col") || words[6] != words[7]) d.refuse();
  Inst in;
  in.run = mma_handler(words[2], words[6]);
  const std::string &to = words[5], &from = words[8];
  if (in.run == nullptr || (to != "f32" && to != "f16") || (from != "f32" && from != "f16")) d.refuse();
  in.flags = std::uint16_t((from == "f16" ? 1 : 0) | (to == "f16" ? 2 : 0));
  std::vector<Ref> refs;
  for (const auto& e : d.elements(0)) refs.push_back(d.write_text(e, 4));
  for (std::size_t i = 1; i < 4; ++i) {
    for (const auto& e : d.elements(i))
      refs.push_back(d.read_text(e, i == 3 && from == "f32" ? "f32" : "b32"));
  }
  in.list = d.add_list(refs);
  in.count = std::uint16_t(refs.size());
  d.emit(in);
}

// ldmatrix: lanes 0..7 give the rows' addresses of the first 8x8 matrix, 8..15 of the second, and so on.
void rows_of(Warp& w, const Inst& in, Mask rows, Addresses* address) {
  addresses_of(w, in, rows, address);
  if (in.space == Space::shared) return;
  const auto shared = reinterpret_cast<std::uint64_t>(w.block->shared());
  for_lanes(rows, [&](int l) { (*address)[l] -= shared; });
}

template <bool kTransposed>
void ldmatrix_lanes(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  const Mask rows = in.count == 4 ? kAllLanes : (1u << (in.count * 8)) - 1;
  Addresses address{};
  rows_of(w, in, rows, &address);
  Block& block = *w.block;
  const Mask fine = block.allow_shared(w, in, address.data(), rows, 16, AccessKind::read);
  if (block.checks()) block.count_banks(address.data(), fine, 16);
  const Ref* d = &block.launch().program.lists[in.list];
  for (int r = 0; r < in.count; ++r) {
    std::uint16_t part[8][8];
    std::memset(part, 0xff, sizeof(part));
    for (int i = 0; i < 8; ++i) {
      if (fine >> (r * 8 + i) & 1) std::memcpy(part[i], block.shared() + address[r * 8 + i], 16);
    }
    std::uint32_t* out = lanes_of<std::uint32_t>(w, d[r]);
    for (int l = 0; l < kLanes; ++l) {
      const int i = l / 4, j = l % 4 * 2;
      const std::uint16_t first = kTransposed ? part[j][i] : part[i][j];
      const std::uint16_t second = kTransposed ? part[j + 1][i] : part[i][j + 1];
      out[l] = first | std::uint32_t{second} << 16;
    }
  }
}

template <bool kTransposed>
void stmatrix_lanes(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  const Mask rows = in.count == 4 ? kAllLanes : (1u << (in.count * 8)) - 1;
  Addresses address{};
  rows_of(w, in, rows, &address);
  Block& block = *w.block;
  const Mask fine = block.allow_shared(w, in, address.data(), rows, 16, AccessKind::write);
  if (block.checks()) block.count_banks(address.data(), fine, 16);
  const Ref* a = &block.launch().program.lists[in.list];
  for (int r = 0; r < in.count; ++r) {
    std::uint16_t part[8][8];
    const std::uint32_t* from = lanes_of<std::uint32_t>(w, a[r]);
    for (int l = 0; l < kLanes; ++l) {
      const int i = l / 4, j = l % 4 * 2;
      (kTransposed ? part[j][i] : part[i][j]) = std::uint16_t(from[l]);
      (kTransposed ? part[j + 1][i] : part[i][j + 1]) = std::uint16_t(from[l] >> 16);
    }
    for (int i = 0; i < 8; ++i) {
      if (fine >> (r * 8 + i) & 1) std::memcpy(block.shared() + address[r * 8 + i], part[i], 16);
    }
  }
}

void matrix_memory(Decoder& d, bool load) {
  if (!d.has("m8n8") || !d.has("b16")) d.refuse();
  Inst in;
  mention_space(d, &in);
  const std::size_t registers = load ? 0 : 1;
  d.address(1 - registers, &in);
  std::vector<Ref> refs;
  for (const auto& e : d.elements(registers))
    refs.push_back(load ? d.write_text(e, 4) : d.read_text(e, "b32"));
  in.list = d.add_list(refs);
  in.count = std::uint16_t(refs.size());
  const bool transposed = d.has("trans");
  in.run = load ? (transposed ? ldmatrix_lanes<true> : ldmatrix_lanes<false>)
                : (transposed ? stmatrix_lanes<true> : stmatrix_lanes<false>);
  d.emit(in);
}
void ldmatrix(Decoder& d) { matrix_memory(d, true); }
void stmatrix(Decoder& d) { matrix_memory(d, false); }

void movmatrix_lanes(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  const std::uint32_t* a = lanes_of<std::uint32_t>(w, in.a);
  std::uint16_t part[8][8];
  for (int l = 0; l < kLanes; ++l) {
    part[l / 4][l % 4 * 2] = std::uint16_t(a[l]);
    part[l / 4][l % 4 * 2 + 1] = std::uint16_t(a[l] >> 16);
  }
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for (int l = 0; l < kLanes; ++l)
    d[l] = part[l % 4 * 2][l / 4] | std::uint32_t{part[l % 4 * 2 + 1][l / 4]} << 16;
}
void movmatrix(Decoder& d) {
  Inst in;
  in.run = movmatrix_lanes;
  in.a = d.read(1, "b32");
  in.d = d.write(0, 4);
  d.emit(in);
}

}  // namespace

void add_matrix_ops(OpTable* table) {
  table->insert({{"mma", mma}, {"ldmatrix", ldmatrix}, {"stmatrix", stmatrix}, {"movmatrix", movmatrix}});
}

}  // namespace zt::emulator::ptx
