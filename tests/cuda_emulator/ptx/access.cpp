// The checks on every access of a block: bounds, alignment, initialisation, order.
#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>

#include "base/text.h"
#include "block.h"

namespace zt::emulator::ptx {

namespace {

// A kernel's name as the source has it, without its parameters.
std::string readable(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  constexpr std::string_view kHidden = "(anonymous namespace)::";
  for (std::size_t at = name.find(kHidden); at != std::string::npos; at = name.find(kHidden))
    name.erase(at, kHidden.size());
  name = name.substr(0, name.rfind('('));
  return starts_with(name, "void ") ? name.substr(5) : name;
}

class InstSite final : public Site {
 public:
  InstSite(const LaunchState& launch, std::uint32_t block, std::uint32_t thread, const Inst& inst)
      : launch_(launch), block_(block), thread_(thread), inst_(inst) {}
  std::string who() const override {
    return cat(readable(launch_.info.name), " block ", block_, " thread ", thread_);
  }
  std::string where() const override { return launch_.where(inst_); }

 private:
  const LaunchState& launch_;
  std::uint32_t block_, thread_;
  const Inst& inst_;
};

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read: return "read";
    case AccessKind::write: return "write";
    case AccessKind::atomic: return "atomic";
  }
  return "";
}

}  // namespace

std::string LaunchState::where(const Inst& inst) const {
  const SourceLine& s = program.sources[inst.source];
  if (s.file == 0) return cat("PTX line ", s.text_line);
  const auto name = [&](int file) {
    const auto it = files.find(file);
    return it == files.end() ? std::string("?") : it->second;
  };
  std::string out = cat(name(s.file), ":", s.line);
  if (s.outer_file != 0) out += cat(" from ", name(s.outer_file), ":", s.outer_line);
  return out;
}

void Block::finding(const char* kind, const Warp& w, int lane, const Inst& inst, const std::string& text) {
  if (!l_.reported.emplace(&inst, kind).second) return;  // once for each instruction and kind
  const InstSite site(l_, number_, std::uint32_t(w.index * kLanes + lane), inst);
  l_.memory.finding(kind, cat(site.who(), ": ", text), site.where());
}

bool Block::ordered(const Epoch& e, int warp, int lane, bool atomic) const {
  if (e.none() || (e.atomic() && atomic)) return true;
  if (e.in_flight()) return false;
  if (e.block() != (number_ & 0xfffff)) return l_.order.ordered(e);
  return clocks_.ordered(e.thread(), e.time(), warp, lane);
}

void Block::report_race(const Epoch& other, const char* what, Warp& w, int lane, const Inst& inst,
                        bool is_shared, std::uint64_t address) {
  const std::string memory =
      is_shared ? cat("shared byte ", address) : cat("global address ", fmt::format("{:#x}", address));
  const bool agent = other.thread() >= kFirstAgent;
  const std::string whom = cat(agent ? "the wgmma of warpgroup " : "thread ",
                               agent ? other.thread() - kFirstAgent : other.thread(),
                               other.block() == (number_ & 0xfffff) ? "" : cat(" of block ", other.block()));
  const char* kind = !other.in_flight() ? (is_shared ? "shared race" : "global race")
                     : agent            ? "wgmma"
                                        : "cp.async";
  finding(kind, w, lane, inst,
          cat(what, other.in_flight() ? " in flight" : "", " at ", memory, " against ", whom));
}

// Looks at one granule and remembers the access. False when something was reported.
bool Block::record(Cell* c, Warp& w, int lane, const Inst& inst, AccessKind kind, bool strong, bool is_shared,
                   std::uint64_t address) {
  const std::uint32_t block = number_ & 0xfffff;
  const Epoch me(block, false, std::uint32_t(w.index * kLanes + lane), clocks_.now(w.index),
                 strong || kind == AccessKind::atomic);
  if (is_shared && !c->write.none() && c->write.block() != block) *c = Cell{};
  if (kind == AccessKind::read) {
    if (c->read0 == me) return true;
    if (is_shared && c->write.none()) {
      finding("uninitialised read", w, lane, inst, cat("shared byte ", address));
      c->write = me;
      return false;
    }
    if (!ordered(c->write, w.index, lane, strong)) {
      report_race(c->write, "read after write", w, lane, inst, is_shared, address);
      return false;
    }
    if (c->read0.in_flight()) {
      c->read1 = me;
    } else {
      if (!c->read0.none() && (c->read0.thread() != me.thread() || c->read0.block() != block))
        c->read1 = c->read0;
      c->read0 = me;
    }
    return true;
  }
  const bool atomic = me.atomic();
  const struct {
    const Epoch& e;
    const char* what;
  } earlier[] = {
      {c->write, "write after write"}, {c->read0, "write after read"}, {c->read1, "write after read"}};
  bool fine = true;
  for (const auto& [e, what] : earlier) {
    if (!fine || ordered(e, w.index, lane, atomic)) continue;
    report_race(e, what, w, lane, inst, is_shared, address);
    fine = false;
  }
  c->write = me;
  if (!atomic) c->read0 = c->read1 = Epoch();
  return fine;
}

Mask Block::allow_global(Warp& w, const Inst& inst, const std::uint64_t* address, Mask mask,
                         std::uint32_t bytes, AccessKind kind, bool strong) {
  Mask fine = mask;
  for_lanes(mask, [&](int l) {
    if ((address[l] & (bytes - 1)) == 0) return;
    finding("misaligned", w, l, inst,
            cat(bytes, "-byte ", verb(kind), " at ", fmt::format("{:#x}", address[l])));
    fine &= ~(1u << l);
  });
  Mask fresh = fine;
  if (checks()) {
    count_sectors(address, fine, bytes);
    fresh = 0;
    for_lanes(fine, [&](int l) {
      const auto [first, last] = l_.global_shadow.page(address[l])
                                     .cells(std::uint32_t(address[l] & (ShadowPage::kBytes - 1)), bytes);
      for (Cell* c = first; c != last; ++c) {
        if (c->write.none() && (kind != AccessKind::read || c->read0.none())) fresh |= 1u << l;
        if (!record(c, w, l, inst, kind, strong, false, address[l])) break;
      }
    });
  }
  // Lanes side by side ask the memory as one range.
  while (fresh != 0) {
    const int first = std::countr_zero(fresh);
    std::uint64_t end = address[first] + bytes;
    Mask together = 1u << first;
    for (Mask rest = fresh & ~together; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (address[l] != end && address[l] + bytes != end) break;
      end = address[l] + bytes;
      together |= 1u << l;
    }
    const InstSite site(l_, number_, std::uint32_t(w.index * kLanes + first), inst);
    const std::uint64_t exists = l_.memory.access(address[first], end - address[first], kind, site);
    if (exists < end - address[first]) {
      for_lanes(together, [&](int l) {
        if (address[l] + bytes > address[first] + exists) fine &= ~(1u << l);
      });
    }
    fresh &= ~together;
  }
  return fine;
}

std::uint64_t Block::allow_global_range(Warp& w, int lane, const Inst& inst, std::uint64_t address,
                                        std::uint32_t bytes, AccessKind kind) {
  if (checks()) {
    for (std::uint64_t at = address; at < address + bytes;) {
      const std::uint64_t page_end = (at | (ShadowPage::kBytes - 1)) + 1;
      const std::uint64_t end = std::min(address + bytes, page_end);
      const auto [first, last] = l_.global_shadow.page(at).cells(std::uint32_t(at & (ShadowPage::kBytes - 1)),
                                                                 std::uint32_t(end - at));
      for (Cell* c = first; c != last; ++c) {
        if (!record(c, w, lane, inst, kind, false, false, at)) break;
      }
      at = end;
    }
  }
  const InstSite site(l_, number_, std::uint32_t(w.index * kLanes + lane), inst);
  return l_.memory.access(address, bytes, kind, site);
}

Mask Block::allow_shared(Warp& w, const Inst& inst, const std::uint64_t* address, Mask mask,
                         std::uint32_t bytes, AccessKind kind, std::uint32_t align) {
  Mask fine = mask;
  const std::uint64_t low_bits = (align != 0 ? align : bytes) - 1;
  for_lanes(mask, [&](int l) {
    if ((address[l] & low_bits) != 0) {
      finding("misaligned", w, l, inst, cat(bytes, "-byte ", verb(kind), " of shared byte ", address[l]));
      fine &= ~(1u << l);
    } else if (address[l] + bytes > shared_bytes_) {
      finding("out of bounds", w, l, inst,
              cat(verb(kind), " of shared byte ", address[l], ", the block has ", shared_bytes_));
      fine &= ~(1u << l);
    }
  });
  if (!checks()) return fine;
  for_lanes(fine, [&](int l) {
    const auto [first, last] =
        shared_shadow_.page(address[l]).cells(std::uint32_t(address[l] & (ShadowPage::kBytes - 1)), bytes);
    for (Cell* c = first; c != last; ++c) {
      if (!record(c, w, l, inst, kind, false, true, address[l])) break;
    }
    if (kind != AccessKind::read) mark_written(w, std::uint32_t(address[l]), bytes);
  });
  return fine;
}

bool Block::range_in_shared(Warp& w, int lane, const Inst& inst, std::uint64_t offset, std::uint32_t bytes) {
  if (offset + bytes <= shared_bytes_) return true;
  finding("out of bounds", w, lane, inst,
          cat(bytes, " bytes at shared byte ", offset, ", the block has ", shared_bytes_));
  return false;
}

namespace {

// Calls f(cell, offset) for the granules of a range that may cross pages.
template <typename F>
void for_cells(Shadow* shadow, std::uint32_t offset, std::uint32_t bytes, F f) {
  for (std::uint32_t at = offset; at < offset + bytes;) {
    const std::uint32_t end = std::min(offset + bytes, (at | (ShadowPage::kBytes - 1)) + 1);
    ShadowPage& page = shadow->page(at);
    const auto [first, last] = page.cells(at & (ShadowPage::kBytes - 1), end - at);
    for (Cell* c = first; c != last; ++c, at += page.granule()) {
      if (!f(c, at)) return;
    }
    at = end;
  }
}

}  // namespace

// An asynchronous copy is about to overwrite the range; until it has landed nobody may touch it.
void Block::async_write(Warp& w, int lane, const Inst& inst, std::uint32_t offset, std::uint32_t bytes) {
  if (!checks()) return;
  for_cells(&shared_shadow_, offset, bytes, [&](Cell* c, std::uint32_t at) {
    return record(c, w, lane, inst, AccessKind::write, false, true, at);
  });
  const Epoch flight(number_ & 0xfffff, true, std::uint32_t(w.index * kLanes + lane), clocks_.now(w.index),
                     false);
  for_cells(&shared_shadow_, offset, bytes, [&](Cell* c, std::uint32_t) {
    c->write = flight;
    return true;
  });
}

void Block::async_landed(Warp& w, int lane, std::uint32_t offset, std::uint32_t bytes, std::uint32_t time) {
  if (!checks()) return;
  const Epoch landed(number_ & 0xfffff, false, std::uint32_t(w.index * kLanes + lane), time, false);
  for_cells(&shared_shadow_, offset, bytes, [&](Cell* c, std::uint32_t) {
    c->write = landed;
    return true;
  });
}

// wgmma or a bulk store will read the range some time until it is waited for.
void Block::async_read(Warp& w, const Inst& inst, std::uint32_t offset, std::uint32_t bytes,
                       std::uint32_t agent) {
  if (!checks()) return;
  const Epoch flight(number_ & 0xfffff, true, agent, 0, false);
  for_cells(&shared_shadow_, offset, bytes, [&](Cell* c, std::uint32_t at) {
    if (c->read0 == flight) return true;
    if (!record(c, w, 0, inst, AccessKind::read, false, true, at)) return false;
    if (!c->read0.in_flight()) c->read0 = flight;
    return true;
  });
}

void Block::async_read_done(std::uint32_t offset, std::uint32_t bytes, std::uint32_t agent,
                            std::uint32_t time) {
  if (!checks()) return;
  const Epoch flight(number_ & 0xfffff, true, agent, 0, false);
  const Epoch done(number_ & 0xfffff, false, agent, time, false);
  for_cells(&shared_shadow_, offset, bytes, [&](Cell* c, std::uint32_t) {
    if (c->read0 == flight) c->read0 = done;
    return true;
  });
}

void Block::mark_written(const Warp& w, std::uint32_t offset, std::uint32_t bytes) {
  const std::uint32_t stamp = std::uint32_t(w.index) << 26 | (tick_ & 0x3ffffff);
  for (std::uint32_t g = offset / 16; g <= (offset + bytes - 1) / 16; ++g) written_at_[g] = stamp;
}

// Ordinary writes become visible to the asynchronous proxy by a fence.proxy.async: of the writer afterwards, or
// of the reader once it has synchronised with the writer.
// Source: PTX ISA 9.0, "Memory consistency model", proxies.
void Block::require_proxy_fence(Warp& w, const Inst& inst, std::uint32_t offset, std::uint32_t bytes) {
  if (!checks()) return;
  for (std::uint32_t g = offset / 16; g <= (offset + bytes - 1) / 16; ++g) {
    if (written_at_[g] == 0) continue;
    const std::uint32_t writer = written_at_[g] >> 26, at = written_at_[g] & 0x3ffffff;
    if (warps_[writer].fenced_at > at || w.fenced_at > at) continue;
    finding("proxy fence", w, 0, inst,
            cat("no fence.proxy.async between the store of warp ", writer, " to shared byte ", g * 16,
                " and its asynchronous read"));
    return;
  }
}

void Block::publish_mbarriers(Warp& w, Mask lanes) {
  ++tick_;
  for_lanes(lanes, [&](int l) { w.published_at[std::size_t(l)] = tick_; });
}

// The first state of an mbarrier is such a write, and a copy that reports to it works on it by that proxy. The
// thread that ran the init has a fence for this alone.
// Source: PTX ISA 9.0, "membar, fence": .mbarrier_init orders the thread's own prior inits.
void Block::require_published(Warp& w, int lane, const Inst& inst, std::uint32_t mbarrier) {
  const auto it = mbarriers_.find(mbarrier);
  if (!checks() || it == mbarriers_.end()) return;
  const MBarrier& b = it->second;
  const Warp& maker = warps_[std::size_t(b.warp)];
  const std::uint32_t published = maker.published_at[std::size_t(b.lane)];
  if (std::max({published, maker.fenced_at, w.fenced_at}) > b.made_at) return;
  finding("mbarrier", w, lane, inst,
          "reports to a barrier after whose init there was no fence.mbarrier_init or fence.proxy.async");
}

// A pass serves one 4-byte word of each of the 32 banks. Accesses of 8 and 16 bytes go by halves and quarters of
// the warp, as the hardware documents.
void Block::count_banks(const std::uint64_t* offset, Mask mask, std::uint32_t bytes) {
  const int at_once = bytes <= 4 ? 32 : int(128 / bytes);
  for (int from = 0; from < kLanes; from += at_once) {
    std::array<std::uint8_t, 32> load{};
    std::array<std::array<std::uint32_t, 32>, 32> words;
    int passes = 0;
    for (int l = from; l < from + at_once; ++l) {
      if ((mask >> l & 1) == 0) continue;
      for (std::uint32_t word = std::uint32_t(offset[l] / 4); word * 4 < offset[l] + bytes; ++word) {
        auto& bank = words[word % 32];
        std::uint8_t& n = load[word % 32];
        if (std::find(bank.begin(), bank.begin() + n, word) != bank.begin() + n) continue;
        if (n < 32) bank[n++] = word;
        passes = std::max(passes, int(n));
      }
    }
    l_.counters.bank_extra += std::uint64_t(std::max(0, passes - 1));
  }
}

void Block::count_sectors(const std::uint64_t* address, Mask mask, std::uint32_t bytes) {
  std::array<std::uint64_t, 64> seen;
  std::size_t n = 0;
  for_lanes(mask, [&](int l) {
    const std::uint64_t sector = address[l] / 32;
    if (n != 0 && seen[n - 1] == sector) return;
    if (std::find(seen.begin(), seen.begin() + n, sector) == seen.begin() + n) seen[n++] = sector;
  });
  l_.counters.sectors += n;
  l_.counters.sectors_least += (std::uint64_t(std::popcount(mask)) * bytes + 31) / 32;
}

}  // namespace zt::emulator::ptx
