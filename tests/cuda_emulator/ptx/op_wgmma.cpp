// wgmma: matrix products of a warpgroup from shared memory.
//
// The four warps issue together; a product is done when one of them waits for it, for all four at once. Until then
// its accumulators hold a NaN pattern, nobody may write the shared memory it reads, and its A registers are read as
// late as here; they must not have been written since the last wgmma.fence.
// Source: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions": shared memory layout, matrix descriptor,
// register fragments.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "half.h"

namespace zt::emulator::ptx {

namespace {

enum : std::uint16_t {
  kARegisters = 1,
  kATransposed = 2,
  kBTransposed = 4,
  kNegateA = 8,
  kNegateB = 16,
  kHalfD = 32
};
enum class Element : std::uint8_t { bf16, f16, tf32 };

// Where a descriptor places the element (row, k) of an operand: `row` counts along M or N.
class Operand {
 public:
  Operand(std::uint64_t descriptor, bool transposed, std::uint32_t element_bytes)
      : start_(std::uint32_t(descriptor & 0x3fff) << 4),
        leading_(std::uint32_t(descriptor >> 16 & 0x3fff) << 4),
        stride_(std::uint32_t(descriptor >> 32 & 0x3fff) << 4),
        transposed_(transposed),
        bytes_(element_bytes) {
    constexpr std::uint32_t kSpans[] = {16, 128, 64, 32};
    mode_ = int(descriptor >> 62);
    span_ = kSpans[mode_];
  }

  std::uint32_t at(std::uint32_t row, std::uint32_t k) const {
    std::uint32_t a = 0;
    if (!transposed_) {
      const std::uint32_t byte = k * bytes_;
      a = start_ + row / 8 * stride_ + row % 8 * span_;
      a += mode_ == 0 ? byte / 16 * leading_ + byte % 16 : byte;
    } else {
      const std::uint32_t per_span = span_ / bytes_;
      const std::uint32_t along_row = mode_ == 0 ? stride_ : leading_,
                          along_k = mode_ == 0 ? leading_ : stride_;
      a = start_ + row / per_span * along_row + row % per_span * bytes_ + k / 8 * along_k + k % 8 * span_;
    }
    if (mode_ != 0) a ^= (a >> 7 & (span_ / 16 - 1)) << 4;
    return a;
  }

  // The 16-byte pieces that rows [first, first + rows) and all `depth` of k lie in.
  template <typename F>
  void pieces(std::uint32_t first, std::uint32_t rows, std::uint32_t depth, F f) const {
    const std::uint32_t per_piece = 16 / bytes_;
    if (!transposed_) {
      for (std::uint32_t r = first; r < first + rows; ++r) {
        for (std::uint32_t k = 0; k < depth; k += per_piece) f(at(r, k));
      }
    } else {
      for (std::uint32_t k = 0; k < depth; ++k) {
        for (std::uint32_t r = first; r < first + rows; r += per_piece) f(at(r, k));
      }
    }
  }

 private:
  std::uint32_t start_, leading_, stride_;
  bool transposed_;
  std::uint32_t bytes_, span_ = 0;
  int mode_ = 0;
};

// The shape of an instruction, from what the decoder packed into it.
struct Shape {
  std::uint32_t n, k, bytes;
  Element element;
  explicit Shape(const Inst& in)
      : n(std::uint32_t(in.imm)),
        k(in.width == std::uint8_t(Element::tf32) ? 8 : 16),
        bytes(32 / k),
        element(Element(in.width)) {}
};

int group_of(const Warp& w) { return w.index / 4; }

Operand operand_a(const PendingWgmma& op, const Shape& s) {
  return {op.a, (op.inst->flags & kATransposed) != 0, s.bytes};
}
Operand operand_b(const PendingWgmma& op, const Shape& s) {
  return {op.b, (op.inst->flags & kBTransposed) != 0, s.bytes};
}

// Calls f for every 16 bytes of shared memory that one warp's part of the product reads.
template <typename F>
void pieces_of(const Warp& w, const PendingWgmma& op, F f) {
  const Shape s(*op.inst);
  if ((op.inst->flags & kARegisters) == 0)
    operand_a(op, s).pieces(std::uint32_t(w.index % 4) * 16, 16, s.k, f);
  operand_b(op, s).pieces(0, s.n, s.k, f);
}

const Ref* accumulators(const Warp& w, const Inst& in) { return &w.block->launch().program.lists[in.list]; }

std::uint32_t accumulator_count(const Inst& in) {
  return std::uint32_t(in.imm) / (in.flags & kHalfD ? 4 : 2);
}

bool in_flight(const std::deque<PendingWgmma>& pending, const Warp& w, Ref first) {
  return std::any_of(pending.begin(), pending.end(),
                     [&](const PendingWgmma& p) { return accumulators(w, *p.inst)[0] == first; });
}

// Whether A's registers are as the last fence found them. One that was written with the same bits counts as unwritten.
bool fenced_since_written(const Warp& w, const Inst& in, const std::vector<std::uint8_t>& at_fence) {
  const Ref* a = accumulators(w, in) + accumulator_count(in);
  return std::all_of(a, a + 4, [&](Ref r) {
    const std::size_t at = r & ~1u, bytes = sizeof(std::uint32_t) * kLanes;
    return (r & 1) != 0 || at + bytes > at_fence.size() ||
           std::memcmp(lanes_of<std::uint32_t>(w, r), &at_fence[at], bytes) == 0;
  });
}

void issue(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  Block& block = *w.block;
  Warpgroup& group = block.warpgroup(w.index);
  const int q = w.index % 4;
  if (block.warps() < (group_of(w) + 1) * 4)
    return block.finding("wgmma", w, 0, in, "the warpgroup has fewer than four warps");
  if (!group.fenced[q]) block.finding("wgmma", w, 0, in, "no wgmma.fence since the last wait");
  if ((in.flags & kARegisters) != 0 && !fenced_since_written(w, in, group.at_fence[q]))
    block.finding("wgmma", w, 0, in, "registers of A were written since the last wgmma.fence");
  PendingWgmma op;
  op.inst = &in;
  if ((in.flags & kARegisters) == 0) op.a = lanes_of<std::uint64_t>(w, in.a)[0];
  op.b = lanes_of<std::uint64_t>(w, in.b)[0];
  op.accumulate = predicate(w, in.c) & 1;
  op.group = group.group[q];
  bool inside = true;
  pieces_of(w, op, [&](std::uint32_t at) { inside &= at + 16 <= block.shared_bytes(); });
  if (!inside) return block.finding("wgmma", w, 0, in, "a descriptor points outside of shared memory");
  if (block.checks()) {
    const std::uint32_t agent = kFirstAgent + std::uint32_t(group_of(w));
    pieces_of(w, op, [&](std::uint32_t at) {
      block.require_proxy_fence(w, in, at, 16);
      block.async_read(w, in, at, 16, agent);
    });
  }
  const Ref* d = accumulators(w, in);
  if (!in_flight(group.pending[q], w, d[0])) {
    const std::uint32_t count = accumulator_count(in);
    op.accumulators.resize(std::size_t(count) * kLanes);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t* lanes = lanes_of<std::uint32_t>(w, d[i]);
      std::memcpy(&op.accumulators[i * kLanes], lanes, sizeof(std::uint32_t) * kLanes);
      std::memset(lanes, 0xff, sizeof(std::uint32_t) * kLanes);
    }
  }
  group.pending[q].push_back(std::move(op));
  ++block.launch().counters.mma;
  block.event();
}

float element_at(const Block& block, std::uint32_t at, Element e) {
  const std::uint8_t* p = const_cast<Block&>(block).shared() + at;
  if (e == Element::tf32) {
    float x;
    std::memcpy(&x, p, 4);
    return to_tf32(x);
  }
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return e == Element::bf16 ? to_float(Bf16{bits}) : to_float(F16{bits});
}

struct Operands {
  alignas(64) float a[16][16];
  alignas(64) float b[16][256];  // [k][n]
};

void read_a_registers(const Warp& w, const Inst& in, const Shape& s, Operands* o) {
  const Ref* a = accumulators(w, in) + accumulator_count(in);
  for (int r = 0; r < 4; ++r) {
    const std::uint32_t* lanes = lanes_of<std::uint32_t>(w, a[r]);
    for (int l = 0; l < kLanes; ++l) {
      const int row = l / 4 + (r & 1) * 8;
      if (s.element == Element::tf32) {
        o->a[row][l % 4 + (r >> 1) * 4] = to_tf32(from_bits<float>(lanes[l]));
        continue;
      }
      for (int h = 0; h < 2; ++h) {
        const auto bits = std::uint16_t(lanes[l] >> (h * 16));
        o->a[row][l % 4 * 2 + (r >> 1) * 8 + h] =
            s.element == Element::bf16 ? to_float(Bf16{bits}) : to_float(F16{bits});
      }
    }
  }
}

void execute(Warp& w, PendingWgmma& op, Operands* o) {
  const Inst& in = *op.inst;
  const Shape s(in);
  const Block& block = *w.block;
  if (in.flags & kARegisters) {
    read_a_registers(w, in, s, o);
  } else {
    const Operand a = operand_a(op, s);
    for (std::uint32_t r = 0; r < 16; ++r) {
      for (std::uint32_t k = 0; k < s.k; ++k)
        o->a[r][k] = element_at(block, a.at(std::uint32_t(w.index % 4) * 16 + r, k), s.element);
    }
  }
  const Operand b = operand_b(op, s);
  for (std::uint32_t n = 0; n < s.n; ++n) {
    for (std::uint32_t k = 0; k < s.k; ++k) o->b[k][n] = element_at(block, b.at(n, k), s.element);
  }
  const float sign = ((in.flags & kNegateA) != 0) != ((in.flags & kNegateB) != 0) ? -1.f : 1.f;
  const Ref* d = accumulators(w, in);
  const bool half = in.flags & kHalfD;
  for (std::uint32_t i = 0; i < op.accumulators.size() / kLanes; ++i)
    std::memcpy(lanes_of<std::uint32_t>(w, d[i]), &op.accumulators[i * kLanes],
                sizeof(std::uint32_t) * kLanes);
  alignas(64) float row[256];
  for (std::uint32_t r = 0; r < 16; ++r) {
    std::fill(row, row + s.n, 0.f);
    for (std::uint32_t k = 0; k < s.k; ++k) {
      const float x = sign * o->a[r][k];
      for (std::uint32_t n = 0; n < s.n; ++n) row[n] += x * o->b[k][n];
    }
    // Row r is with lanes 4 (r % 8) .. + 3; register i holds columns 8 (i / 4) + 2 (l % 4) + (i & 1).
    for (std::uint32_t n = 0; n < s.n; ++n) {
      const std::uint32_t lane = r % 8 * 4 + n % 8 / 2, i = n / 8 * 4 + (r / 8) * 2 + (n & 1);
      if (half) {
        auto* at = &lanes_of<std::uint16_t>(w, d[i / 2])[lane * 2 + (i & 1)];
        *at = round_f16((op.accumulate ? to_float(F16{*at}) : 0.f) + row[n]).bits;
      } else {
        float* at = &lanes_of<float>(w, d[i])[lane];
        *at = (op.accumulate ? *at : 0.f) + row[n];
      }
    }
  }
}

// Does the product of that number for all four warps.
void complete_next(Block& block, int first_warp, Warpgroup* group) {
  static thread_local Operands operands;
  for (int q = 0; q < 4; ++q) {
    Warp& w = block.warp(first_warp + q);
    PendingWgmma op = std::move(group->pending[q].front());
    group->pending[q].pop_front();
    ++group->done[q];
    execute(w, op, &operands);
    if (!block.checks()) continue;
    const int g = first_warp / 4;
    pieces_of(w, op, [&](std::uint32_t at) {
      block.async_read_done(at, 16, kFirstAgent + std::uint32_t(g), block.clocks().agent_time(g));
    });
  }
  if (block.checks()) block.clocks().tick_agent(first_warp / 4);
}

void wait(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, kAllLanes)) return;
  Block& block = *w.block;
  Warpgroup& group = block.warpgroup(w.index);
  const int q = w.index % 4, first = w.index / 4 * 4;
  const std::uint32_t keep = std::uint32_t(in.imm);
  const std::uint32_t until = group.group[q] > keep ? group.group[q] - keep : 0;
  while (!group.pending[q].empty() && group.pending[q].front().group < until) {
    const bool all =
        std::all_of(group.pending.begin(), group.pending.end(), [](const auto& p) { return !p.empty(); });
    if (!all) {  // another warp has not issued its part yet
      --w.pc;
      w.leave(Group::State::yielded);
      return;
    }
    complete_next(block, first, &group);
    block.event();
  }
  if (block.checks()) block.clocks().learn_agent(w.index, group_of(w));
  if (group.pending[q].empty()) group.fenced[q] = false;
}

void wgmma_fence(Warp& w, const Inst&, Mask) {
  Warpgroup& group = w.block->warpgroup(w.index);
  group.fenced[w.index % 4] = true;
  if (w.block->checks())
    group.at_fence[w.index % 4].assign(w.base[0], w.base[0] + w.block->launch().program.register_bytes);
}
void wgmma_commit(Warp& w, const Inst&, Mask) { ++w.block->warpgroup(w.index).group[w.index % 4]; }

void mma_async(Decoder& d) {
  const std::vector<std::string>& words = d.modifiers();  // mma_async sync aligned SHAPE D A B
  if (words.size() < 7 || words[5] != words[6] || d.has("sp")) d.refuse();
  const std::string &shape = words[3], &type = words[5];
  Inst in;
  in.run = issue;
  const std::size_t n = shape.find('n'), k = shape.find('k');
  if (!starts_with(shape, "m64n") || k == std::string::npos) d.refuse();
  in.imm = std::atoi(shape.c_str() + n + 1);
  in.width = std::uint8_t(type == "bf16" ? Element::bf16 : type == "f16" ? Element::f16 : Element::tf32);
  if (type != "bf16" && type != "f16" && type != "tf32") d.refuse();
  if (words[4] == "f16") in.flags |= kHalfD;
  std::vector<Ref> refs;
  for (const auto& e : d.elements(0)) refs.push_back(d.write_text(e, 4));
  if (refs.size() != accumulator_count(in)) d.refuse("accumulators do not fit the shape");
  if (d.is_vector(1)) {
    in.flags |= kARegisters;
    for (const auto& e : d.elements(1)) refs.push_back(d.read_text(e, "b32"));
  } else {
    in.a = d.read(1, "b64");
  }
  in.b = d.read(2, "b64");
  in.c = d.is_literal(3) ? d.constant(d.literal(3) != 0, 0) : d.read_predicate(3);
  if (d.operands() > 4 && d.literal(4) < 0) in.flags |= kNegateA;
  if (d.operands() > 5 && d.literal(5) < 0) in.flags |= kNegateB;
  const bool a_registers = in.flags & kARegisters;
  if (d.operands() > 6 && !a_registers && d.literal(6) != 0) in.flags |= kATransposed;
  const std::size_t b_at = a_registers ? 6 : 7;
  if (d.operands() > b_at && d.literal(b_at) != 0) in.flags |= kBTransposed;
  in.list = d.add_list(refs);
  in.count = std::uint16_t(refs.size());
  d.emit(in);
}

void wgmma(Decoder& d) {
  if (d.has("mma_async")) return mma_async(d);
  Inst in;
  if (d.has("fence")) {
    in.run = wgmma_fence;
  } else if (d.has("commit_group")) {
    in.run = wgmma_commit;
  } else if (d.has("wait_group")) {
    in.run = wait;
    in.imm = d.literal(0);
  } else {
    d.refuse();
  }
  d.emit(in);
}

}  // namespace

void add_wgmma_ops(OpTable* table) { table->insert({{"wgmma", wgmma}}); }

}  // namespace zt::emulator::ptx
