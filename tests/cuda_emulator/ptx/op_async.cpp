// cp.async, bulk copies (plain and by tensor map), mbarriers. Data lands as late as the waits allow; until then the
// target holds a NaN pattern, and touching it is a finding.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "block.h"
#include "memory_ops.h"
#include "tensor_map.h"

namespace zt::emulator::ptx {

namespace {

std::uint32_t as_shared(const Block& block, std::uint64_t address, bool generic) {
  return std::uint32_t(generic ? address - reinterpret_cast<std::uint64_t>(const_cast<Block&>(block).shared())
                               : address);
}

// cp.async [d], [s], size{, filled}: d in `a`, s in `c` with its offset in the list, `filled` in `b`.
void copy_async(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  Addresses to{}, from{};
  addresses_of(w, in, m, &to);
  const std::uint64_t* source = lanes_of<std::uint64_t>(w, in.c);
  const std::int64_t source_offset = std::int32_t(in.target);
  for_lanes(m, [&](int l) { from[l] = source[l] + std::uint64_t(source_offset); });
  if (block.checks()) block.count_banks(to.data(), m, in.width);
  Mask fine = m, reads = 0;
  std::uint32_t filled[kLanes];
  for_lanes(m, [&](int l) {
    const std::uint32_t bytes = in.width;
    filled[l] = in.b == kNoRef ? bytes : std::min<std::uint32_t>(bytes, lanes_of<std::uint32_t>(w, in.b)[l]);
    if (in.e != kNoRef && (predicate(w, in.e) >> l & 1) != 0) filled[l] = 0;  // ignore-src
    if (((to[l] | from[l]) & (bytes - 1)) != 0) {
      block.finding("misaligned", w, l, in, cat(bytes, "-byte cp.async to shared byte ", to[l]));
      fine &= ~(1u << l);
    } else if (!block.range_in_shared(w, l, in, to[l], bytes)) {
      fine &= ~(1u << l);
    } else if (filled[l] == bytes) {
      reads |= 1u << l;
    }
  });
  // Whole copies are asked for as one access of the warp, partial ones alone.
  const Mask allowed = block.allow_global(w, in, from.data(), reads, in.width, AccessKind::read);
  for_lanes(fine, [&](int l) {
    const auto offset = std::uint32_t(to[l]);
    if ((reads >> l & 1) != 0 && (allowed >> l & 1) == 0) filled[l] = 0;
    if ((reads >> l & 1) == 0 && filled[l] != 0)
      filled[l] = std::uint32_t(std::min<std::uint64_t>(
          filled[l], block.allow_global_range(w, l, in, from[l], filled[l], AccessKind::read)));
    block.async_write(w, l, in, offset, in.width);
    std::memset(block.shared() + offset, 0xff, in.width);
    w.copies[l].push_back({offset, from[l], in.width, filled[l], w.copy_group[l], &in});
  });
}

void land_copies(Warp& w, int lane, std::uint32_t first_kept) {
  Block& block = *w.block;
  std::vector<PendingCopy>& copies = w.copies[lane];
  std::size_t kept = 0;
  for (const PendingCopy& c : copies) {
    if (c.group >= first_kept) {
      copies[kept++] = c;
      continue;
    }
    std::uint8_t* to = block.shared() + c.to;
    std::memcpy(to, reinterpret_cast<const void*>(c.from), c.filled);
    std::memset(to + c.filled, 0, c.bytes - c.filled);
    block.async_landed(w, lane, c.to, c.bytes, block.clocks().now(w.index));
    block.mark_written(w, c.to, c.bytes);
  }
  copies.resize(kept);
}

void commit_copies(Warp& w, const Inst&, Mask m) {
  for_lanes(m, [&](int l) { ++w.copy_group[l]; });
}

void wait_copies(Warp& w, const Inst& in, Mask m) {
  for_lanes(m, [&](int l) {
    const std::uint32_t keep = std::uint32_t(in.imm);
    const std::uint32_t all =
        w.copy_group[l] + (in.flags == 1 ? 1 : 0);  // wait_all takes uncommitted ones too
    land_copies(w, l, all > keep ? all - keep : 0);
  });
}

MBarrier* mbarrier_at(Warp& w, int lane, const Inst& in, std::uint64_t address) {
  Block& block = *w.block;
  const auto it = block.mbarriers().find(as_shared(block, address, in.space == Space::generic));
  if (it != block.mbarriers().end()) return &it->second;
  block.finding("mbarrier", w, lane, in, "used before its init");
  return nullptr;
}

void init_mbarrier(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  Addresses address{};
  addresses_of(w, in, m, &address);
  for_lanes(m, [&](int l) {
    const std::uint32_t at = as_shared(block, address[l], in.space == Space::generic);
    if (at % 8 != 0 || !block.range_in_shared(w, l, in, at, 8))
      return block.finding("mbarrier", w, l, in, cat("no place for one: shared byte ", at));
    MBarrier b;
    b.count = b.pending = lanes_of<std::uint32_t>(w, in.b)[l];
    b.warp = w.index;
    b.lane = l;
    b.made_at = block.tick();
    block.mbarriers()[at] = b;
  });
  block.event();
}

void invalidate_mbarrier(Warp& w, const Inst& in, Mask m) {
  Addresses address{};
  addresses_of(w, in, m, &address);
  for_lanes(m, [&](int l) {
    w.block->mbarriers().erase(as_shared(*w.block, address[l], in.space == Space::generic));
  });
}

enum : std::uint16_t { kExpects = 1, kArrives = 2, kParity = 4, kCompletes = 8 };

// arrive{.expect_tx}, expect_tx, complete_tx: `b` is the count or the bytes, `d` the state token.
void arrive_lanes(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  Addresses address{};
  addresses_of(w, in, m, &address);
  const BlockClocks::Snapshot mine =
      block.checks() ? block.clocks().release(w.index, m) : BlockClocks::Snapshot();
  for_lanes(m, [&](int l) {
    MBarrier* b = mbarrier_at(w, l, in, address[l]);
    if (b == nullptr) return;
    const std::uint32_t given = in.b == kNoRef ? 1 : lanes_of<std::uint32_t>(w, in.b)[l];
    if (in.d != kNoRef) lanes_of<std::uint64_t>(w, in.d)[l] = b->phase;
    if (in.flags & kExpects) b->bytes += given;
    if (in.flags & kCompletes) b->bytes -= given;
    if (in.flags & kArrives) {
      const std::uint32_t count = in.flags & kExpects ? 1 : given;
      if (count > b->pending) return block.finding("mbarrier", w, l, in, "more arrivals than its count");
      b->pending -= count;
      BlockClocks::join(&b->gathering, mine);
    }
    Block::complete_phase_if_due(b);
  });
  block.event();
}

// try_wait and test_wait. One that fails gives the others a turn.
void wait_lanes(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  Addresses address{};
  addresses_of(w, in, m, &address);
  Mask done = 0;
  for_lanes(m, [&](int l) {
    const MBarrier* b = mbarrier_at(w, l, in, address[l]);
    if (b == nullptr) {
      done |= 1u << l;  // reported; spinning would say no more
      return;
    }
    const bool over = in.flags & kParity ? (b->phase & 1) != (lanes_of<std::uint32_t>(w, in.b)[l] & 1)
                                         : b->phase != std::uint32_t(lanes_of<std::uint64_t>(w, in.b)[l]);
    if (!over) return;
    done |= 1u << l;
    if (block.checks()) block.clocks().acquire(w.index, b->complete);
  });
  predicate(w, in.d) = (predicate(w, in.d) & ~m) | done;
  if (done == 0) {
    w.leave(Group::State::yielded);
    w.stop = w.lanes == 0;
  }
}

// cp.async.mbarrier.arrive{.noinc}: arrives once the thread's copies so far have landed; here they land now, which
// is as late as the barrier's phase can be seen.
void arrive_after_copies(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  Addresses address{};
  addresses_of(w, in, m, &address);
  for_lanes(m, [&](int l) { land_copies(w, l, ~0u); });
  const BlockClocks::Snapshot mine =
      block.checks() ? block.clocks().release(w.index, m) : BlockClocks::Snapshot();
  for_lanes(m, [&](int l) {
    MBarrier* b = mbarrier_at(w, l, in, address[l]);
    if (b == nullptr || in.flags == 0) return;  // without .noinc the pending count grows and shrinks by one
    if (b->pending == 0) return block.finding("mbarrier", w, l, in, "more arrivals than its count");
    --b->pending;
    BlockClocks::join(&b->gathering, mine);
    Block::complete_phase_if_due(b);
  });
  block.event();
}

void mbarrier(Decoder& d) {
  Inst in;
  mention_space(d, &in);
  if (d.has("init") || d.has("inval")) {
    d.address(0, &in);
    if (d.has("init")) in.b = d.read(1, "u32");
    in.run = d.has("init") ? init_mbarrier : invalidate_mbarrier;
  } else if (d.has("try_wait") || d.has("test_wait")) {
    in.run = wait_lanes;
    in.d = d.write_predicate(d.operand(0));
    d.address(1, &in);
    in.flags = d.has("parity") ? kParity : 0;
    in.b = d.read(2, d.has("parity") ? "u32" : "b64");
  } else if (d.has("arrive") || d.has("expect_tx") || d.has("complete_tx")) {
    if (d.has("noComplete") || d.modifiers()[0] == "arrive_drop") d.refuse();
    in.run = arrive_lanes;
    const std::size_t at = d.operand(0)[0] == '[' ? 0 : 1;
    in.flags = std::uint16_t((d.has("arrive") ? kArrives : 0) | (d.has("expect_tx") ? kExpects : 0) |
                             (d.has("complete_tx") ? kCompletes : 0));
    d.address(at, &in);
    if (d.operands() > at + 1) in.b = d.read(at + 1, "u32");
    if (at == 1 && !d.ignored(d.operand(0))) in.d = d.write(0, 8);
  } else {
    d.refuse();
  }
  d.emit(in);
}

// cp.async.bulk, 1-D. To shared: [d], [s], bytes, [mbarrier]; from shared: [d], [s], bytes.
void bulk_lanes(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  const Ref* refs =
      &block.launch().program.lists[in.list];  // shared, global, bytes, mbarrier, each 64 or 32 bits
  for_lanes(m, [&](int l) {
    BulkCopy copy;
    copy.to_shared = in.flags & 1;
    copy.shared = std::uint32_t(in.flags & 2 ? lanes_of<std::uint64_t>(w, refs[0])[l]
                                             : lanes_of<std::uint32_t>(w, refs[0])[l]);
    copy.global = lanes_of<std::uint64_t>(w, refs[1])[l];
    copy.bytes = lanes_of<std::uint32_t>(w, refs[2])[l];
    copy.warp = w.index;
    copy.lane = l;
    copy.inst = &in;
    if (((copy.shared | copy.global | copy.bytes) & 15) != 0)
      return block.finding("misaligned", w, l, in,
                           cat("bulk copy of ", copy.bytes, " bytes, shared byte ", copy.shared));
    if (!block.range_in_shared(w, l, in, copy.shared, copy.bytes)) return;
    if (copy.to_shared) {
      copy.mbarrier = std::uint32_t(in.flags & 4 ? lanes_of<std::uint64_t>(w, refs[3])[l]
                                                 : lanes_of<std::uint32_t>(w, refs[3])[l]);
      const std::uint64_t exists =
          block.allow_global_range(w, l, in, copy.global, copy.bytes, AccessKind::read);
      block.require_published(w, l, in, copy.mbarrier);
      block.async_write(w, l, in, copy.shared, copy.bytes);
      std::memset(block.shared() + copy.shared, 0xff, copy.bytes);
      copy.readable = std::uint32_t(std::min<std::uint64_t>(exists, copy.bytes));
    } else {
      copy.group = w.bulk_group[l];
      copy.readable = std::uint32_t(std::min<std::uint64_t>(
          copy.bytes, block.allow_global_range(w, l, in, copy.global, copy.bytes, AccessKind::write)));
      block.require_proxy_fence(w, in, copy.shared, copy.bytes);
      block.async_read(w, in, copy.shared, copy.bytes, std::uint32_t(w.index * kLanes + l));
    }
    copy.time = block.clocks().now(w.index);
    if (block.checks()) copy.clock = block.clocks().release(w.index, 1u << l);
    block.bulk_copies().push_back(std::move(copy));
  });
  block.event();
}

// A box of a tensor by its map, as rows of the innermost dimension, swizzled.
// Source: PTX ISA 9.0, "Tensors": swizzle modes XOR the 16-byte chunk's number with the row of the pattern.
void tensor_lanes(Warp& w, const Inst& in, Mask m) {
  Block& block = *w.block;
  const Ref* refs = &block.launch().program.lists[in.list];  // shared, map, mbarrier, coordinates
  for_lanes(m, [&](int l) {
    TensorMap map;
    std::memcpy(&map, reinterpret_cast<const void*>(lanes_of<std::uint64_t>(w, refs[1])[l]), sizeof(map));
    if (map.magic != TensorMap::kMagic || map.rank != in.count)
      return block.finding("launch", w, l, in, "this is no tensor map of that rank");
    BulkCopy copy;
    copy.to_shared = in.flags & 1;
    copy.shared = std::uint32_t(in.flags & 2 ? lanes_of<std::uint64_t>(w, refs[0])[l]
                                             : lanes_of<std::uint32_t>(w, refs[0])[l]);
    const std::uint32_t row_bytes = map.box[0] * map.element_bytes;
    std::uint32_t rows = 1;
    for (int i = 1; i < map.rank; ++i) rows *= map.box[i];
    copy.bytes = row_bytes * rows;
    copy.warp = w.index;
    copy.lane = l;
    copy.inst = &in;
    const std::uint32_t align = map.swizzle == 0 ? 128 : map.swizzle * 8;
    if (copy.shared % align != 0)
      block.finding("misaligned", w, l, in,
                    cat("tensor copy to shared byte ", copy.shared, ", its swizzle needs ", align));
    if (!block.range_in_shared(w, l, in, copy.shared, copy.bytes)) return;
    for (std::uint32_t row = 0; row < rows; ++row) {
      std::uint64_t address = map.address;
      std::uint32_t rest = row;
      bool inside = true;
      for (int i = 1; i < map.rank; ++i) {
        const std::int64_t c = std::int64_t(lanes_of<std::int32_t>(w, refs[3 + i])[l]) + rest % map.box[i];
        rest /= map.box[i];
        inside &= c >= 0 && c < map.size[i];
        address += std::uint64_t(c) * map.stride[i - 1];
      }
      const std::int64_t c0 = lanes_of<std::int32_t>(w, refs[3])[l];
      const std::int64_t first = std::max<std::int64_t>(c0, 0);
      const std::int64_t last = std::min<std::int64_t>(c0 + map.box[0], map.size[0]);
      const auto bytes = std::uint32_t(inside && last > first ? (last - first) * map.element_bytes : 0);
      const auto lead = std::uint32_t((first - c0) * map.element_bytes);
      if (bytes != 0)
        block.allow_global_range(w, l, in, address + std::uint64_t(first) * map.element_bytes, bytes,
                                 copy.to_shared ? AccessKind::read : AccessKind::write);
      copy.rows.push_back(
          {address + std::uint64_t(first) * map.element_bytes, row * row_bytes + lead, bytes});
    }
    copy.swizzle = map.swizzle;
    if (copy.to_shared) {
      copy.mbarrier = std::uint32_t(in.flags & 4 ? lanes_of<std::uint64_t>(w, refs[2])[l]
                                                 : lanes_of<std::uint32_t>(w, refs[2])[l]);
      block.require_published(w, l, in, copy.mbarrier);
      block.async_write(w, l, in, copy.shared, copy.bytes);
      std::memset(block.shared() + copy.shared, 0xff, copy.bytes);
    } else {
      copy.group = w.bulk_group[l];
      block.require_proxy_fence(w, in, copy.shared, copy.bytes);
      block.async_read(w, in, copy.shared, copy.bytes, std::uint32_t(w.index * kLanes + l));
    }
    copy.time = block.clocks().now(w.index);
    if (block.checks()) copy.clock = block.clocks().release(w.index, 1u << l);
    block.bulk_copies().push_back(std::move(copy));
  });
  block.event();
}

void commit_bulk(Warp& w, const Inst&, Mask m) {
  for_lanes(m, [&](int l) { ++w.bulk_group[l]; });
}

// Stores from shared memory that the waiting threads must see done land here.
void wait_bulk(Warp& w, const Inst& in, Mask m) {
  std::vector<BulkCopy>& all = w.block->bulk_copies();
  for (std::size_t i = 0; i < all.size();) {
    const BulkCopy& c = all[i];
    const bool mine = !c.to_shared && c.warp == w.index && (m >> c.lane & 1) != 0;
    if (mine && c.group + std::uint32_t(in.imm) < w.bulk_group[c.lane])
      w.block->land(i);
    else
      ++i;
  }
}

// "[reg+offset]" as a register with the offset added.
Ref whole_address(Decoder& d, std::size_t operand, bool* wide) {
  Inst at;
  d.address(operand, &at);
  *wide = at.wide_address;
  if (at.imm == 0) return at.a;
  Inst add;
  add.a = at.a;
  add.b = d.constant(std::uint64_t(at.imm), at.wide_address ? 8 : 4);
  add.d = d.temporary(at.wide_address ? 8 : 4);
  add.run = add_handler(at.wide_address);
  d.emit_before(add);
  return add.d;
}

void decode_bulk(Decoder& d) {
  Inst in;
  const std::vector<std::string>& words = d.modifiers();
  const auto at = [&](const char* w) { return std::find(words.begin(), words.end(), w); };
  if (d.has("commit_group")) {
    in.run = commit_bulk;
    return d.emit(in);
  }
  if (d.has("wait_group")) {
    in.run = wait_bulk;
    in.imm = d.literal(0);
    return d.emit(in);
  }
  if (d.has("prefetch") || d.has("multicast::cluster") || d.has("reduce")) d.refuse();
  const auto shared = std::min(at("shared::cluster"), at("shared::cta"));
  const bool to_shared = shared < at("global");
  bool shared_wide = false, bar_wide = false, other = false;
  std::vector<Ref> refs;
  if (!d.has("tensor")) {
    const Ref s = whole_address(d, to_shared ? 0 : 1, &shared_wide),
              g = whole_address(d, to_shared ? 1 : 0, &other);
    refs = {s, g, d.read(2, "u32")};
    if (to_shared) refs.push_back(whole_address(d, 3, &bar_wide));
    in.run = bulk_lanes;
  } else {
    // [map, {c0, c1}]
    const std::size_t tensor = to_shared ? 1 : 0;
    const std::string text = d.operand(tensor);
    const std::size_t open = text.find('{'), close = text.find('}'), comma = text.find(',');
    if (open == std::string::npos || (to_shared && d.operands() < 3)) d.refuse();
    const Ref s = whole_address(d, to_shared ? 0 : 1, &shared_wide);
    refs = {s, d.read_text(std::string_view(text).substr(1, comma - 1), "b64")};
    refs.push_back(to_shared ? whole_address(d, 2, &bar_wide) : s);
    for (const auto& c : split(text.substr(open + 1, close - open - 1), ',')) {
      refs.push_back(d.read_text(c, "s32"));
      ++in.count;
    }
    in.run = tensor_lanes;
  }
  in.flags = std::uint16_t((to_shared ? 1 : 0) | (shared_wide ? 2 : 0) | (bar_wide ? 4 : 0));
  in.list = d.add_list(refs);
  d.emit(in);
}

void cp(Decoder& d) {
  Inst in;
  if (d.has("bulk")) return decode_bulk(d);
  if (d.has("mbarrier")) {
    in.run = arrive_after_copies;
    mention_space(d, &in);
    in.flags = d.has("noinc") ? 1 : 0;
    d.address(0, &in);
  } else if (d.has("commit_group")) {
    in.run = commit_copies;
  } else if (d.has("wait_group")) {
    in.run = wait_copies;
    in.imm = d.literal(0);
  } else if (d.has("wait_all")) {
    in.run = wait_copies;
    in.flags = 1;
  } else {
    in.run = copy_async;
    Inst source;
    d.address(1, &source);
    d.address(0, &in);
    in.c = source.a;
    in.target = std::int32_t(source.imm);
    in.width = std::uint8_t(d.literal(2));
    if (!source.wide_address || (in.width != 4 && in.width != 8 && in.width != 16)) d.refuse();
    // A cache policy comes last.
    if (d.operands() > (d.has("L2::cache_hint") ? 4u : 3u)) {
      if (d.is_predicate(3))
        in.e = d.read_predicate(3);
      else
        in.b = d.read(3, "u32");
    }
  }
  d.emit(in);
}

}  // namespace

void Block::land(std::size_t bulk) {
  const BulkCopy c = std::move(bulks_[bulk]);
  bulks_.erase(bulks_.begin() + std::ptrdiff_t(bulk));
  Warp& w = warps_[c.warp];
  const std::uint32_t me = std::uint32_t(c.warp * kLanes + c.lane);
  const auto move = [&](std::uint64_t global, std::uint8_t* shared, std::uint32_t bytes) {
    auto* host = reinterpret_cast<std::uint8_t*>(global);
    if (c.to_shared)
      std::memcpy(shared, host, bytes);
    else
      std::memcpy(host, shared, bytes);
  };
  if (c.rows.empty()) {
    move(c.global, shared_ + c.shared, c.readable);
  } else {
    if (c.to_shared) std::memset(shared_ + c.shared, 0, c.bytes);
    for (const BulkCopy::Row& row : c.rows) {
      for (std::uint32_t done = 0; done < row.bytes;) {
        std::uint32_t at = c.shared + row.shared + done;
        const std::uint32_t bytes = std::min(16 - at % 16, row.bytes - done);
        if (c.swizzle != 0) at ^= (at >> 7 & (c.swizzle / 16u - 1)) << 4;
        move(row.global + done, shared_ + at, bytes);
        done += bytes;
      }
    }
  }
  if (!c.to_shared) return async_read_done(c.shared, c.bytes, me, clocks_.now(c.warp));
  async_landed(w, c.lane, c.shared, c.bytes, c.time);
  const auto it = mbarriers_.find(c.mbarrier);
  if (it == mbarriers_.end())
    return finding("mbarrier", w, c.lane, *c.inst, "a copy completes where none is");
  it->second.bytes -= c.bytes;
  BlockClocks::join(&it->second.gathering, c.clock);
  complete_phase_if_due(&it->second);
}

void add_async_ops(OpTable* table) { table->insert({{"cp", cp}, {"mbarrier", mbarrier}}); }

}  // namespace zt::emulator::ptx
