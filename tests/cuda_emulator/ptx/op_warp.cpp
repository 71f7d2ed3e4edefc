// Instructions of a whole warp: shuffles, votes, matches, reductions.
#include <algorithm>
#include <bit>

#include "base/text.h"
#include "block.h"
#include "decoder.h"

namespace zt::emulator::ptx {

// Lanes that an instruction names must come to it. Those of the warp that are still on their way are waited for;
// those that never can come are a finding, and the instruction runs without them.
bool gather(Warp& w, const Inst& in, Mask present, Mask members) {
  const Mask missing = members & w.existing & ~present;
  if (missing == 0) {
    w.forced = false;
    return true;
  }
  const Mask never = (missing & ~w.live) | (missing & w.waiting()) | (missing & w.lanes);
  if (never == 0 && !w.forced) {
    --w.pc;
    w.leave(Group::State::parked);
    return false;
  }
  w.forced = false;
  w.block->finding("warp collective", w, std::countr_zero(present), in,
                   cat("names lanes ", fmt::format("{:08x}", members), " but only ",
                       fmt::format("{:08x}", present), " are there"));
  return true;
}

namespace {

enum class Shuffle : std::uint16_t { xor_, down, up, index };

// Source: PTX ISA 9.0, "shfl.sync": c packs the segment mask (bits 8..12) and the clamp (bits 0..4).
void shuffle(Warp& w, const Inst& in, Mask m) {
  const int first = std::countr_zero(m);
  const Mask members = lanes_of<std::uint32_t>(w, in.e)[first];
  if (!gather(w, in, m, members)) return;
  const std::uint32_t *a = lanes_of<std::uint32_t>(w, in.a), *b = lanes_of<std::uint32_t>(w, in.b),
                      *c = lanes_of<std::uint32_t>(w, in.c);
  std::uint32_t out[kLanes];
  Mask in_range = 0;
  for_lanes(m, [&](int l) {
    const int by = int(b[l] & 31), clamp = int(c[l] & 31), segment = int(c[l] >> 8 & 31);
    const int low = l & segment, high = low | (clamp & ~segment);
    int source = l;
    bool fine = false;
    switch (Shuffle(in.flags)) {
      case Shuffle::xor_:
        source = l ^ by;
        fine = source <= high;
        break;
      case Shuffle::down:
        source = l + by;
        fine = source <= high;
        break;
      case Shuffle::up:
        source = l - by;
        fine = source >= high;
        break;
      case Shuffle::index:
        source = low | (by & ~segment);
        fine = source <= high;
        break;
    }
    if (!fine) source = l;
    if (fine) in_range |= 1u << l;
    out[l] = m >> source & 1 ? a[source] : 0xffffffffu;
    if (fine && (m >> source & 1) == 0 && (w.existing >> source & 1) != 0 && (members >> source & 1) == 0)
      w.block->finding("warp collective", w, l, in,
                       cat("reads lane ", source, ", which the mask does not name"));
  });
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = out[l]; });
  const Ref p = Ref(in.imm);
  if (p != kNoRef) predicate(w, p) = (predicate(w, p) & ~m) | in_range;
}

void shfl(Decoder& d) {
  Inst in;
  in.run = shuffle;
  in.flags = std::uint16_t(d.has("bfly")   ? Shuffle::xor_
                           : d.has("down") ? Shuffle::down
                           : d.has("up")   ? Shuffle::up
                                           : Shuffle::index);
  const std::string& out = d.operand(0);
  const std::size_t bar = out.find('|');
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.c = d.read(3, "b32");
  in.e = d.read(4, "b32");
  in.d = d.write_text(out.substr(0, bar), 4);
  in.imm = bar == std::string::npos ? kNoRef : d.write_predicate(out.substr(bar + 1));
  d.emit(in);
}

enum class Vote : std::uint16_t { all, any, uniform, ballot };

void vote_lanes(Warp& w, const Inst& in, Mask m) {
  const Mask members = lanes_of<std::uint32_t>(w, in.b)[std::countr_zero(m)];
  if (!gather(w, in, m, members)) return;
  const Mask p = predicate(w, in.a) & m;
  if (Vote(in.flags) == Vote::ballot) {
    std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
    for_lanes(m, [&](int l) { d[l] = p; });
    return;
  }
  const bool truth = Vote(in.flags) == Vote::all   ? p == m
                     : Vote(in.flags) == Vote::any ? p != 0
                                                   : p == m || p == 0;
  Mask& d = predicate(w, in.d);
  d = (d & ~m) | (truth ? m : 0);
}

void vote(Decoder& d) {
  Inst in;
  in.run = vote_lanes;
  in.flags = std::uint16_t(d.has("ballot") ? Vote::ballot
                           : d.has("all")  ? Vote::all
                           : d.has("any")  ? Vote::any
                                           : Vote::uniform);
  in.a = d.read_predicate(1);
  in.b = d.read(2, "b32");
  in.d = d.has("ballot") ? d.write(0, 4) : d.write_predicate(d.operand(0));
  d.emit(in);
}

void active_lanes(Warp& w, const Inst& in, Mask m) {
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = m; });
}

void activemask(Decoder& d) {
  Inst in;
  in.run = active_lanes;
  in.d = d.write(0, 4);
  d.emit(in);
}

template <typename T>
void match_any(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, lanes_of<std::uint32_t>(w, in.b)[std::countr_zero(m)])) return;
  const T* a = lanes_of<T>(w, in.a);
  std::uint32_t out[kLanes];
  for_lanes(m, [&](int l) {
    out[l] = 0;
    for_lanes(m, [&](int k) { out[l] |= a[k] == a[l] ? 1u << k : 0; });
  });
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = out[l]; });
}

template <typename T>
void match_all(Warp& w, const Inst& in, Mask m) {
  const int first = std::countr_zero(m);
  if (!gather(w, in, m, lanes_of<std::uint32_t>(w, in.b)[first])) return;
  const T* a = lanes_of<T>(w, in.a);
  bool same = true;
  for_lanes(m, [&](int l) { same &= a[l] == a[first]; });
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = same ? m : 0; });
  if (in.e != kNoRef) predicate(w, in.e) = (predicate(w, in.e) & ~m) | (same ? m : 0);
}

void match(Decoder& d) {
  const bool wide = type_bytes(d.type()) == 8;
  Inst in;
  in.run = d.has("any") ? (wide ? match_any<std::uint64_t> : match_any<std::uint32_t>)
                        : (wide ? match_all<std::uint64_t> : match_all<std::uint32_t>);
  const std::string& out = d.operand(0);
  const std::size_t bar = out.find('|');
  in.a = d.read(1, d.type());
  in.b = d.read(2, "b32");
  in.d = d.write_text(out.substr(0, bar), 4);
  if (bar != std::string::npos) in.e = d.write_predicate(out.substr(bar + 1));
  d.emit(in);
}

template <typename T, auto F>
void reduce(Warp& w, const Inst& in, Mask m) {
  const int first = std::countr_zero(m);
  if (!gather(w, in, m, lanes_of<std::uint32_t>(w, in.b)[first])) return;
  const T* a = lanes_of<T>(w, in.a);
  T sum = a[first];
  for_lanes(m & (m - 1), [&](int l) { sum = F(sum, a[l]); });
  T* d = lanes_of<T>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = sum; });
}

void redux(Decoder& d) {
  Inst in;
  const bool sign = d.type() == "s32";
  using U = std::uint32_t;
  using S = std::int32_t;
  if (d.type() == "f32") d.refuse();
  in.run = d.has("add")   ? reduce<U, [](U a, U b) { return a + b; }>
           : d.has("min") ? (sign ? reduce<S, [](S a, S b) { return std::min(a, b); }>
                                  : reduce<U, [](U a, U b) { return std::min(a, b); }>)
           : d.has("max") ? (sign ? reduce<S, [](S a, S b) { return std::max(a, b); }>
                                  : reduce<U, [](U a, U b) { return std::max(a, b); }>)
           : d.has("and") ? reduce<U, [](U a, U b) { return a & b; }>
           : d.has("or")  ? reduce<U, [](U a, U b) { return a | b; }>
                          : reduce<U, [](U a, U b) { return a ^ b; }>;
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.d = d.write(0, 4);
  d.emit(in);
}

// elect.sync d|p, mask: the lowest lane.
void elect_lane(Warp& w, const Inst& in, Mask m) {
  if (!gather(w, in, m, lanes_of<std::uint32_t>(w, in.a)[std::countr_zero(m)])) return;
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  for_lanes(m, [&](int l) { d[l] = std::uint32_t(std::countr_zero(m)); });
  predicate(w, in.e) = (predicate(w, in.e) & ~m) | (m & -m);
}

void elect(Decoder& d) {
  Inst in;
  in.run = elect_lane;
  const std::string& out = d.operand(0);
  const std::size_t bar = out.find('|');
  if (bar == std::string::npos) d.refuse();
  in.a = d.read(1, "b32");
  in.d = d.write_text(out.substr(0, bar), 4);
  in.e = d.write_predicate(out.substr(bar + 1));
  d.emit(in);
}

}  // namespace

void add_warp_ops(OpTable* table) {
  table->insert({{"shfl", shfl},
                 {"vote", vote},
                 {"activemask", activemask},
                 {"match", match},
                 {"redux", redux},
                 {"elect", elect}});
}

}  // namespace zt::emulator::ptx
