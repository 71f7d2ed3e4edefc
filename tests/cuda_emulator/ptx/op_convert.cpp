// cvt: between integers, between floats, and across; packed forms.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "half.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

enum : std::uint16_t { kRoundingMask = 3, kFlush = 4, kSaturate = 8, kRelu = 16, kToInteger = 32 };

Rounding rounding_of(const Inst& in) { return Rounding(in.flags & kRoundingMask); }

double round_to_integer(double x, Rounding r) {
  switch (r) {
    case Rounding::nearest: return std::nearbyint(x);
    case Rounding::zero: return std::trunc(x);
    case Rounding::down: return std::floor(x);
    case Rounding::up: return std::ceil(x);
  }
  return x;
}

// Out of range gives the nearest limit, no number gives 0.
template <typename I>
I to_integer(double x) {
  using L = std::numeric_limits<I>;
  if (x != x) return I(0);
  if (x <= double(L::min())) return L::min();
  if (x >= double(L::max())) return L::max();
  return I(x);
}

template <typename F>
double value(F x) {
  if constexpr (std::is_same_v<F, Bf16> || std::is_same_v<F, F16>)
    return double(to_float(x));
  else
    return double(x);
}

template <typename I, typename F>
void float_to_integer(Warp& w, const Inst& in, Mask m) {
  const F* a = lanes_of<F>(w, in.a);
  // Bytes live in 16-bit registers.
  using Slot = std::conditional_t<sizeof(I) == 1,
                                  std::conditional_t<std::is_signed_v<I>, std::int16_t, std::uint16_t>, I>;
  Slot* d = lanes_of<Slot>(w, in.d);
  for_lanes(m, [&](int l) {
    double x = value(a[l]);
    if ((in.flags & kFlush) != 0 && std::fabs(x) < double(std::numeric_limits<float>::min())) x = 0;
    d[l] = to_integer<I>(round_to_integer(x, rounding_of(in)));
  });
}

// One rounding from an exact value. An integer of 64 bits does not fit a double, so f32 and f64 are rounded by the
// machine straight from the integer.
template <typename F>
F round_float(double x, Rounding r) {
  if constexpr (std::is_same_v<F, Bf16>) {
    return round_bf16(to_odd(x), r);
  } else if constexpr (std::is_same_v<F, F16>) {
    return round_f16(to_odd(x), r);
  } else {
    if (r == Rounding::nearest) return F(x);
    const RoundingScope scope(r);
    volatile double in = x;
    volatile F out = F(in);
    return out;
  }
}

template <typename F, typename I>
void integer_to_float(Warp& w, const Inst& in, Mask m) {
  const I* a = lanes_of<I>(w, in.a);
  F* d = lanes_of<F>(w, in.d);
  const Rounding r = rounding_of(in);
  if constexpr (std::is_floating_point_v<F>) {
    const RoundingScope scope(r);
    for_lanes(m, [&](int l) {
      volatile I x = a[l];
      volatile F y = F(x);
      d[l] = y;
    });
  } else {
    for_lanes(m, [&](int l) { d[l] = round_float<F>(double(a[l]), r); });
  }
}

template <typename D, typename A>
void float_to_float(Warp& w, const Inst& in, Mask m) {
  const A* a = lanes_of<A>(w, in.a);
  D* d = lanes_of<D>(w, in.d);
  const Rounding r = rounding_of(in);
  if (in.flags == 0) {  // the common ones, as plain loops
    if constexpr (std::is_same_v<D, float> && sizeof(A) == 2) {
      each_lane(m, [=](int l) { d[l] = to_float(a[l]); });
      return;
    } else if constexpr (std::is_same_v<A, float> && std::is_same_v<D, Bf16>) {
      each_lane(m, [=](int l) { d[l] = round_bf16(a[l]); });
      return;
    }
  }
  for_lanes(m, [&](int l) {
    double x = value(a[l]);
    if ((in.flags & kFlush) != 0 && std::fabs(x) < double(std::numeric_limits<float>::min()))
      x = std::copysign(0.0, x);
    if ((in.flags & kToInteger) != 0) x = round_to_integer(x, r);
    if ((in.flags & kSaturate) != 0) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    if ((in.flags & kRelu) != 0) x = x > 0 || x != x ? x : 0.0;
    d[l] = round_float<D>(x, (in.flags & kToInteger) != 0 ? Rounding::nearest : r);
  });
}

template <typename D, typename A>
void integer_to_integer(Warp& w, const Inst& in, Mask m) {
  using SlotD = std::conditional_t<sizeof(D) == 1,
                                   std::conditional_t<std::is_signed_v<D>, std::int16_t, std::uint16_t>, D>;
  using SlotA = std::conditional_t<sizeof(A) == 1, std::uint16_t, A>;
  const SlotA* a = lanes_of<SlotA>(w, in.a);
  SlotD* d = lanes_of<SlotD>(w, in.d);
  if ((in.flags & kSaturate) == 0) {
    each_lane(m, [=](int l) { d[l] = SlotD(D(A(a[l]))); });
    return;
  }
  for_lanes(m, [&](int l) {
    const __int128 x = A(a[l]);
    const __int128 low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
    d[l] = SlotD(D(x < low ? low : x > high ? high : x));
  });
}

// Two floats into a pair: the first operand is the upper half.
template <typename H>
void pack_pair(Warp& w, const Inst& in, Mask m) {
  const float *a = lanes_of<float>(w, in.a), *b = lanes_of<float>(w, in.b);
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  const Rounding r = rounding_of(in);
  const bool relu = (in.flags & kRelu) != 0;
  const auto one = [=](float x) {
    if (relu) x = x > 0 || x != x ? x : 0.f;
    if constexpr (std::is_same_v<H, Bf16>)
      return std::uint32_t(round_bf16(x, r).bits);
    else
      return std::uint32_t(round_f16(x, r).bits);
  };
  if (in.flags == 0) {
    each_lane(m, [=](int l) {
      if constexpr (std::is_same_v<H, Bf16>)
        d[l] = std::uint32_t(round_bf16(b[l]).bits) | std::uint32_t(round_bf16(a[l]).bits) << 16;
      else
        d[l] = std::uint32_t(round_f16(b[l]).bits) | std::uint32_t(round_f16(a[l]).bits) << 16;
    });
  } else {
    for_lanes(m, [&](int l) { d[l] = one(b[l]) | one(a[l]) << 16; });
  }
}

// clang-format off
#define ZT_INTEGERS(X) \
  X("s8", std::int8_t) \
  X("u8", std::uint8_t) \
  X("s16", std::int16_t) \
  X("u16", std::uint16_t) \
  X("s32", std::int32_t) \
  X("u32", std::uint32_t) \
  X("s64", std::int64_t) \
  X("u64", std::uint64_t)
// clang-format on
#define ZT_CASE(name, type) \
  if (a == name) return Make::template handler<D, type>();
template <typename Make, typename D>
Handler by_integer(const std::string& a) {
  ZT_INTEGERS(ZT_CASE)
  return nullptr;
}
template <typename Make, typename D>
Handler by_float(const std::string& a) {
  ZT_CASE("f32", float) ZT_CASE("f64", double) ZT_CASE("f16", F16) ZT_CASE("bf16", Bf16) return nullptr;
}
#undef ZT_CASE

struct IntegerToInteger {
  template <typename D, typename A>
  static Handler handler() {
    return integer_to_integer<D, A>;
  }
};
struct FloatToFloat {
  template <typename D, typename A>
  static Handler handler() {
    return float_to_float<D, A>;
  }
};
struct FloatToInteger {
  template <typename D, typename A>
  static Handler handler() {
    return float_to_integer<D, A>;
  }
};
struct IntegerToFloat {
  template <typename D, typename A>
  static Handler handler() {
    if constexpr (sizeof(A) == 1)
      return nullptr;  // widened first
    else
      return integer_to_float<D, A>;
  }
};

bool is_float(const std::string& t) { return t[0] == 'f' || t.substr(0, 2) == "bf" || t[0] == 't'; }

Handler convert_handler(const std::string& to, const std::string& from) {
#define ZT_INTEGER(name, type) \
  if (to == name)              \
    return is_float(from) ? by_float<FloatToInteger, type>(from) : by_integer<IntegerToInteger, type>(from);
  ZT_INTEGERS(ZT_INTEGER)
#undef ZT_INTEGER
#undef ZT_INTEGERS
#define ZT_FLOAT(name, type) \
  if (to == name)            \
    return is_float(from) ? by_float<FloatToFloat, type>(from) : by_integer<IntegerToFloat, type>(from);
  // clang-format off
  ZT_FLOAT("f32", float)
  ZT_FLOAT("f64", double)
  ZT_FLOAT("f16", F16)
  ZT_FLOAT("bf16", Bf16)
  // clang-format on
#undef ZT_FLOAT
  return nullptr;
}

std::string as_value(std::string type) {
  if (type == "b8" || type == "b16" || type == "b32" || type == "b64") type[0] = 'u';
  return type;
}

void convert_pair(Decoder& d, Inst in, const std::string& to) {
  if (d.operands() != 3) d.refuse("only from two f32");
  in.a = d.read(1, "f32");
  in.b = d.read(2, "f32");
  in.d = d.write(0, 4);
  in.run = to == "bf16x2" ? pack_pair<Bf16> : pack_pair<F16>;
  d.emit(in);
}

void cvt(Decoder& d) {
  const std::string to = as_value(d.type()), from = as_value(d.last_type());
  Inst in;
  const bool to_integer = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  const Rounding r = d.has("rz") || d.has("rzi")   ? Rounding::zero
                     : d.has("rm") || d.has("rmi") ? Rounding::down
                     : d.has("rp") || d.has("rpi") ? Rounding::up
                                                   : Rounding::nearest;
  in.flags = std::uint16_t(std::uint16_t(r) | (d.has("ftz") ? kFlush : 0) | (d.has("sat") ? kSaturate : 0) |
                           (d.has("relu") ? kRelu : 0) | (to_integer && is_float(to) ? kToInteger : 0));
  if (d.has("satfinite") || d.has("scaled") || d.has("rs")) d.refuse();
  if (to == "bf16x2" || to == "f16x2") return convert_pair(d, in, to);
  if (to == "tf32") {
    in.run = d.has("rz") ? unary<float, float, [](float x) { return to_tf32(x); }>
                         : unary<float, float, [](float x) { return round_tf32(x); }>;
    in.a = d.read(1, "b32");
    in.d = d.write(0, 4);
    return d.emit(in);
  }
  std::string source = from;
  if (is_float(to) && type_bytes(from) == 1) {  // by way of 16 bits
    Inst first;
    source = from[0] == 's' ? "s16" : "u16";
    first.run = convert_handler(source, from);
    first.a = d.read(1, "b16");
    first.d = d.temporary(2);
    d.emit_before(first);
    in.a = first.d;
  } else {
    in.a = d.read(1, type_bytes(from) == 1 ? "b16" : from);
  }
  in.run = convert_handler(to, source);
  if (in.run == nullptr) d.refuse();
  in.d = d.write(0, type_bytes(to), to[0] == 's');
  d.emit(in);
}

}  // namespace

void add_convert_ops(OpTable* table) { table->insert({{"cvt", cvt}}); }

}  // namespace zt::emulator::ptx
