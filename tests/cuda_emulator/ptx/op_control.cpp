// Branches, returns, barriers.
#include <bit>

#include "base/text.h"
#include "block.h"
#include "decoder.h"

namespace zt::emulator::ptx {

namespace {

void branch(Warp& w, const Inst& in, Mask m) {
  if (m == w.lanes) {
    w.pc = in.target;
    if (!w.others.empty()) w.regroup();
    return;
  }
  w.others.push_back({in.target, m, Group::State::ready});
  w.lanes &= ~m;
  w.regroup();
}

void bra(Decoder& d) {
  Inst in;
  in.run = branch;
  d.target(&in, d.operand(0));
  d.emit(in);
}

// brx.idx: each lane goes where the table says.
void branch_by_table(Warp& w, const Inst& in, Mask m) {
  const std::uint32_t* index = lanes_of<std::uint32_t>(w, in.a);
  const std::int32_t* table = &w.block->launch().program.jump_tables[in.list];
  for_lanes(m, [&](int l) {
    if (index[l] >= in.count) {
      w.block->finding("out of bounds", w, l, in,
                       cat("branch table of ", in.count, " entries, index ", index[l]));
      return;
    }
    w.others.push_back({table[index[l]], 1u << l, Group::State::ready});
    w.lanes &= ~(1u << l);
  });
  w.regroup();
}

void brx(Decoder& d) {
  Inst in;
  in.run = branch_by_table;
  in.a = d.read(0, "u32");
  d.jump_table(&in, d.operand(1));
  d.emit(in);
}

void leave_kernel(Warp& w, const Inst& in, Mask m) {
  for_lanes(m, [&](int l) {
    if (!w.copies[l].empty()) w.block->finding("cp.async", w, l, in, "the thread ends with copies in flight");
  });
  if (!w.block->warpgroup(w.index).pending[w.index % 4].empty())
    w.block->finding("wgmma", w, std::countr_zero(m), in, "the warp ends with products in flight");
  w.live &= ~m;
  w.lanes &= ~m;
  w.block->event();
  if (w.lanes == 0) w.regroup();
}

void ret(Decoder& d) {
  Inst in;
  in.run = leave_kernel;
  d.emit(in);
}

void stop(Warp& w, const Inst& in, Mask m) {
  w.block->finding("trap", w, std::countr_zero(m), in, "the kernel stops itself");
  w.block->launch().abandoned = true;
  w.stop = true;
}

void trap(Decoder& d) {
  Inst in;
  in.run = stop;
  d.emit(in);
}

// bar.sync a{, b}, bar.arrive a, b, bar.red.op d, a{, b}, p. In flags: the operation in bits 0..2 (1 popc, 2 and,
// 3 or), bit 3 a negated predicate, bit 4 arrive only. a is in `imm` or register `a`, b in `b`.
void barrier(Warp& w, const Inst& in, Mask m) {
  const int lane = std::countr_zero(m);
  const std::uint32_t number =
      in.a == kNoRef ? std::uint32_t(in.imm) : lanes_of<std::uint32_t>(w, in.a)[lane];
  const std::uint32_t threads = in.b == kNoRef ? 0 : lanes_of<std::uint32_t>(w, in.b)[lane];
  if (number > 15)
    return w.block->finding("divergent barrier", w, lane, in, cat("there is no barrier ", number));
  if (threads % kLanes != 0)
    return w.block->finding("divergent barrier", w, lane, in, cat(threads, " threads are no warps"));
  w.block->arrive(w, in, number, threads, (in.flags & 16) == 0, m);
}

void syncwarp(Warp& w, const Inst& in, Mask m) {
  const Mask members = lanes_of<std::uint32_t>(w, in.a)[std::countr_zero(m)];
  if (!gather(w, in, m, members)) return;
  if (w.block->checks()) w.block->clocks().sync_lanes(w.index, m, w.live);
}

void bar(Decoder& d) {
  Inst in;
  if (d.has("warp")) {
    in.run = syncwarp;
    in.a = d.read(0, "b32");
    return d.emit(in);
  }
  in.run = barrier;
  std::size_t at = 0;
  const bool reduces = d.has("red");
  if (reduces) {
    const bool popc = d.has("popc");
    in.flags = popc ? 1 : d.has("and") ? 2 : 3;
    in.d = popc ? d.write(0, 4) : d.write_predicate(d.operand(0));
    at = 1;
    std::string p = d.operand(d.operands() - 1);
    if (p[0] == '!') {
      in.flags |= 8;
      p = p.substr(1);
    }
    in.c = d.read_predicate_text(p);
  }
  if (d.has("arrive")) in.flags |= 16;
  if (d.is_literal(at))
    in.imm = d.literal(at);
  else
    in.a = d.read(at, "u32");
  const std::size_t rest = d.operands() - at - (reduces ? 1 : 0);
  if (rest > 1) in.b = d.read(at + 1, "u32");
  d.emit(in);
}

}  // namespace

void add_control_ops(OpTable* table) {
  table->insert({{"bra", bra},
                 {"brx", brx},
                 {"ret", ret},
                 {"exit", ret},
                 {"trap", trap},
                 {"brkpt", trap},
                 {"bar", bar},
                 {"barrier", bar}});
}

}  // namespace zt::emulator::ptx
