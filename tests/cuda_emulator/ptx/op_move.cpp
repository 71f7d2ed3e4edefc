// mov (with packing and unpacking), cvta, selp, slct, prmt, and the decoder's helpers.
#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

template <typename D, typename A>
constexpr auto kCast = [](A x) { return D(x); };

void copy_predicate(Warp& w, const Inst& in, Mask mask) {
  Mask& d = predicate(w, in.d);
  d = (d & ~mask) | (predicate(w, in.a) & mask);
}

void invert_predicate(Warp& w, const Inst& in, Mask mask) {
  Mask& d = predicate(w, in.d);
  d = (d & ~mask) | (~predicate(w, in.a) & mask);
}

Handler copy_handler(std::uint32_t bytes) {
  switch (bytes) {
    case 0: return copy_predicate;
    case 2: return unary<std::uint16_t, std::uint16_t, kCast<std::uint16_t, std::uint16_t>>;
    case 4: return unary<std::uint32_t, std::uint32_t, kCast<std::uint32_t, std::uint32_t>>;
    default: return unary<std::uint64_t, std::uint64_t, kCast<std::uint64_t, std::uint64_t>>;
  }
}

// mov.b64 d, {a, b}: parts of P into a whole of W.
template <typename W, typename P>
void pack(Warp& w, const Inst& in, Mask mask) {
  W* d = lanes_of<W>(w, in.d);
  const Ref* parts = &w.block->launch().program.lists[in.list];
  for_lanes(mask, [&](int l) {
    W v = 0;
    for (int i = 0; i < in.count; ++i) v |= W(W(lanes_of<P>(w, parts[i])[l]) << (i * int(sizeof(P)) * 8));
    d[l] = v;
  });
}

template <typename W, typename P>
void unpack(Warp& w, const Inst& in, Mask mask) {
  const W* a = lanes_of<W>(w, in.a);
  const Ref* parts = &w.block->launch().program.lists[in.list];
  for (int i = 0; i < in.count; ++i) {
    P* part = lanes_of<P>(w, parts[i]);
    each_lane(mask, [=](int l) { part[l] = P(a[l] >> (i * int(sizeof(P)) * 8)); });
  }
}

// Parts of one byte live in 16-bit registers.
void pack_bytes(Warp& w, const Inst& in, Mask mask) {
  const Ref* parts = &w.block->launch().program.lists[in.list];
  for_lanes(mask, [&](int l) {
    std::uint32_t v = 0;
    for (int i = 0; i < in.count; ++i)
      v |= std::uint32_t(lanes_of<std::uint16_t>(w, parts[i])[l] & 0xff) << (i * 8);
    if (in.width == 2)
      lanes_of<std::uint16_t>(w, in.d)[l] = std::uint16_t(v);
    else
      lanes_of<std::uint32_t>(w, in.d)[l] = v;
  });
}

void unpack_bytes(Warp& w, const Inst& in, Mask mask) {
  const Ref* parts = &w.block->launch().program.lists[in.list];
  for_lanes(mask, [&](int l) {
    const std::uint32_t v =
        in.width == 2 ? lanes_of<std::uint16_t>(w, in.a)[l] : lanes_of<std::uint32_t>(w, in.a)[l];
    for (int i = 0; i < in.count; ++i)
      lanes_of<std::uint16_t>(w, parts[i])[l] = std::uint16_t(v >> (i * 8) & 0xff);
  });
}

Handler pack_handler(std::uint32_t whole, std::uint32_t part) {
  if (part == 1) return pack_bytes;
  if (whole == 8) return part == 4 ? pack<std::uint64_t, std::uint32_t> : pack<std::uint64_t, std::uint16_t>;
  return pack<std::uint32_t, std::uint16_t>;
}

Handler unpack_handler(std::uint32_t whole, std::uint32_t part) {
  if (part == 1) return unpack_bytes;
  if (whole == 8)
    return part == 4 ? unpack<std::uint64_t, std::uint32_t> : unpack<std::uint64_t, std::uint16_t>;
  return unpack<std::uint32_t, std::uint16_t>;
}

// A clock that only goes forward.
template <typename T>
void read_clock(Warp& w, const Inst& in, Mask mask) {
  T* d = lanes_of<T>(w, in.d);
  each_lane(mask, [&](int l) { d[l] = T(w.instructions); });
  ++w.instructions;
}

void mov(Decoder& d) {
  const std::string type = d.type();
  const std::uint32_t bytes = type == "pred" ? 0 : type_bytes(type);
  Inst in;
  in.width = std::uint8_t(bytes);
  if (type == "pred") {
    in.a = d.read_predicate(1);
    in.d = d.write_predicate(d.operand(0));
    in.run = copy_predicate;
  } else if (d.is_vector(1)) {
    std::vector<Ref> parts;
    const auto elements = d.elements(1);
    const std::uint32_t part = bytes / std::uint32_t(elements.size());
    for (const auto& e : elements) parts.push_back(d.read_text(e, cat("b", part * 8)));
    in.run = pack_handler(bytes, part);
    in.list = d.add_list(parts);
    in.count = std::uint16_t(parts.size());
    in.d = d.write(0, bytes);
  } else if (d.is_vector(0)) {
    std::vector<Ref> parts;
    const auto elements = d.elements(0);
    const std::uint32_t part = bytes / std::uint32_t(elements.size());
    for (const auto& e : elements) parts.push_back(d.write_text(e, part));
    in.run = unpack_handler(bytes, part);
    in.list = d.add_list(parts);
    in.count = std::uint16_t(parts.size());
    in.a = d.read(1, type);
  } else if (d.operand(1) == "%clock64" || d.operand(1) == "%globaltimer" || d.operand(1) == "%clock") {
    in.run = bytes == 8 ? read_clock<std::uint64_t> : read_clock<std::uint32_t>;
    in.d = d.write(0, bytes);
  } else {
    in.a = d.read(1, type);
    in.d = d.write(0, bytes);
    in.run = copy_handler(bytes);
  }
  d.emit(in);
}

// Generic addresses are host addresses: of the block's shared buffer, of the thread's local memory, or global.
enum : std::uint16_t { kToGeneric = 0, kFromGeneric = 1 };

void cvta_shared(Warp& w, const Inst& in, Mask mask) {
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(w.block->shared());
  const std::uint64_t* a = lanes_of<std::uint64_t>(w, in.a);
  std::uint64_t* d = lanes_of<std::uint64_t>(w, in.d);
  const std::uint64_t add = in.flags == kToGeneric ? base : -base;
  each_lane(mask, [=](int l) { d[l] = a[l] + add; });
}

void cvta_local(Warp& w, const Inst& in, Mask mask) {
  const std::uint64_t* a = lanes_of<std::uint64_t>(w, in.a);
  std::uint64_t* d = lanes_of<std::uint64_t>(w, in.d);
  for_lanes(mask, [&](int l) {
    const std::uint64_t base = reinterpret_cast<std::uint64_t>(w.block->local(w, l));
    d[l] = in.flags == kToGeneric ? a[l] + base : a[l] - base;
  });
}

void cvta(Decoder& d) {
  Inst in;
  in.flags = d.has("to") ? kFromGeneric : kToGeneric;
  in.run = d.has("shared") || d.has("shared::cta") ? cvta_shared
           : d.has("local")                        ? cvta_local
                                                   : copy_handler(8);
  in.a = d.read(1, d.type());
  in.d = d.write(0, 8);
  d.emit(in);
}

template <typename T>
void select(Warp& w, const Inst& in, Mask mask) {
  const Mask p = predicate(w, in.c);
  T* d = lanes_of<T>(w, in.d);
  const T *a = lanes_of<T>(w, in.a), *b = lanes_of<T>(w, in.b);
  each_lane(mask, [=](int l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
}

void selp(Decoder& d) {
  const std::string type = d.type();
  const std::uint32_t bytes = type_bytes(type);
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.c = d.read_predicate(3);
  in.d = d.write(0, bytes);
  in.run = bytes == 2 ? select<std::uint16_t> : bytes == 4 ? select<std::uint32_t> : select<std::uint64_t>;
  d.emit(in);
}

// slct.T.s32/f32 d, a, b, c: a where c >= 0, else b.
template <typename T, typename C>
void slct_lanes(Warp& w, const Inst& in, Mask mask) {
  ternary<T, T, T, C, [](T a, T b, C c) { return c >= C(0) ? a : b; }>(w, in, mask);
}

void slct(Decoder& d) {
  const std::string type = d.type(), by = d.last_type();
  const std::uint32_t bytes = type_bytes(type);
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.c = d.read(3, by);
  in.d = d.write(0, bytes);
  const bool is_float = by == "f32";
  if (bytes == 2)
    in.run = is_float ? slct_lanes<std::uint16_t, float> : slct_lanes<std::uint16_t, std::int32_t>;
  else if (bytes == 4)
    in.run = is_float ? slct_lanes<std::uint32_t, float> : slct_lanes<std::uint32_t, std::int32_t>;
  else
    in.run = is_float ? slct_lanes<std::uint64_t, float> : slct_lanes<std::uint64_t, std::int32_t>;
  d.emit(in);
}

// Source: PTX ISA 9.0, "prmt", default mode: each nibble picks a byte of {b, a}; its top bit spreads the sign.
std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t s = selector >> (i * 4) & 15;
    std::uint32_t byte = std::uint32_t(bytes >> ((s & 7) * 8)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (i * 8);
  }
  return out;
}

// prmt's named modes pick by the two low bits of c.
std::uint32_t permute_mode(std::uint32_t a, std::uint32_t b, std::uint32_t c, int mode) {
  static constexpr std::uint32_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return permute(a, b, kSelectors[mode][c & 3]);
}

void permute_lanes(Warp& w, const Inst& in, Mask mask) {
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  const std::uint32_t *a = lanes_of<std::uint32_t>(w, in.a), *b = lanes_of<std::uint32_t>(w, in.b),
                      *c = lanes_of<std::uint32_t>(w, in.c);
  for_lanes(mask, [&](int l) {
    d[l] = in.flags == 0 ? permute(a[l], b[l], c[l]) : permute_mode(a[l], b[l], c[l], in.flags - 1);
  });
}

void prmt(Decoder& d) {
  Inst in;
  int mode = 0;
  for (const char* name : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    ++mode;
    if (d.has(name)) in.flags = std::uint16_t(mode);
  }
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.c = d.read(3, "b32");
  in.d = d.write(0, 4);
  in.run = permute_lanes;
  d.emit(in);
}

}  // namespace

Handler narrow_handler(std::uint32_t from, std::uint32_t to) {
  if (from == 8)
    return to == 4 ? unary<std::uint32_t, std::uint64_t, kCast<std::uint32_t, std::uint64_t>>
                   : unary<std::uint16_t, std::uint64_t, kCast<std::uint16_t, std::uint64_t>>;
  return unary<std::uint16_t, std::uint32_t, kCast<std::uint16_t, std::uint32_t>>;
}

Handler widen_handler(std::uint32_t from, std::uint32_t to, bool sign) {
  if (from == 4)
    return sign ? unary<std::int64_t, std::int32_t, kCast<std::int64_t, std::int32_t>>
                : unary<std::uint64_t, std::uint32_t, kCast<std::uint64_t, std::uint32_t>>;
  if (to == 8)
    return sign ? unary<std::int64_t, std::int16_t, kCast<std::int64_t, std::int16_t>>
                : unary<std::uint64_t, std::uint16_t, kCast<std::uint64_t, std::uint16_t>>;
  return sign ? unary<std::int32_t, std::int16_t, kCast<std::int32_t, std::int16_t>>
              : unary<std::uint32_t, std::uint16_t, kCast<std::uint32_t, std::uint16_t>>;
}

Handler not_predicate_handler() { return invert_predicate; }

void add_move_ops(OpTable* table) {
  table->insert({{"mov", mov}, {"cvta", cvta}, {"selp", selp}, {"slct", slct}, {"prmt", prmt}});
}

}  // namespace zt::emulator::ptx
