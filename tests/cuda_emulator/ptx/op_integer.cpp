// Integer arithmetic, logic, shifts and bit fields.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

// Picks by an integer type's name; bits count as unsigned.
#define ZT_BY_INTEGER(handler, type)                  \
  ((type) == "s16"         ? (handler<std::int16_t>)  \
   : (type) == "s32"       ? (handler<std::int32_t>)  \
   : (type) == "s64"       ? (handler<std::int64_t>)  \
   : type_bytes(type) == 2 ? (handler<std::uint16_t>) \
   : type_bytes(type) == 8 ? (handler<std::uint64_t>) \
                           : (handler<std::uint32_t>))

bool is_float(const std::string& type) {
  return type[0] == 'f' || type[0] == 't' || type.substr(0, 2) == "bf";
}

template <typename T>
void add(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  binary<U, U, U, [](U a, U b) { return U(a + b); }>(w, in, m);
}
template <typename T>
void subtract(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  binary<U, U, U, [](U a, U b) { return U(a - b); }>(w, in, m);
}
void add_saturated(Warp& w, const Inst& in, Mask m) {
  binary<std::int32_t, std::int32_t, std::int32_t, [](std::int32_t a, std::int32_t b) {
    const std::int64_t s = std::int64_t{a} + b;
    return std::int32_t(std::clamp<std::int64_t>(s, INT32_MIN, INT32_MAX));
  }>(w, in, m);
}
void subtract_saturated(Warp& w, const Inst& in, Mask m) {
  binary<std::int32_t, std::int32_t, std::int32_t, [](std::int32_t a, std::int32_t b) {
    const std::int64_t s = std::int64_t{a} - b;
    return std::int32_t(std::clamp<std::int64_t>(s, INT32_MIN, INT32_MAX));
  }>(w, in, m);
}
template <typename T>
void multiply(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  binary<U, U, U, [](U a, U b) { return U(std::uint64_t(a) * b); }>(w, in, m);
}
template <typename T>
void multiply_wide(Warp& w, const Inst& in, Mask m) {
  binary<Wide<T>, T, T, [](T a, T b) { return Wide<T>(Wide<T>(a) * Wide<T>(b)); }>(w, in, m);
}
template <typename T>
T high(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Huge = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T((Huge(a) * Huge(b)) >> 64);
  } else {
    return T((Wide<T>(a) * Wide<T>(b)) >> (sizeof(T) * 8));
  }
}
template <typename T>
void multiply_high(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return high(a, b); }>(w, in, m);
}
template <typename T>
void multiply_add(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  ternary<U, U, U, U, [](U a, U b, U c) { return U(std::uint64_t(a) * b + c); }>(w, in, m);
}
template <typename T>
void multiply_add_wide(Warp& w, const Inst& in, Mask m) {
  using W = Wide<T>;
  using U = Unsigned<W>;
  ternary<W, T, T, W, [](T a, T b, W c) { return W(U(W(a) * W(b)) + U(c)); }>(w, in, m);
}
template <typename T>
void multiply_add_high(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  ternary<T, T, T, T, [](T a, T b, T c) { return T(U(high(a, b)) + U(c)); }>(w, in, m);
}
template <typename T>
void divide(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) {
    if (b == 0) return T(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T(Unsigned<T>(0) - Unsigned<T>(a));
    }
    return T(a / b);
  }>(w, in, m);
}
template <typename T>
void remainder(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return T(0);
    }
    return T(a % b);
  }>(w, in, m);
}
template <typename T>
void minimum(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return a < b ? a : b; }>(w, in, m);
}
template <typename T>
void maximum(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return b < a ? a : b; }>(w, in, m);
}
template <typename T>
void negate(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<U, U, [](U a) { return U(0 - a); }>(w, in, m);
}
template <typename T>
void absolute(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<U, T, [](T a) { return a < 0 ? U(0 - U(a)) : U(a); }>(w, in, m);
}
template <typename T>
void sad_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  ternary<U, T, T, U, [](T a, T b, U c) { return U(c + (a < b ? U(b) - U(a) : U(a) - U(b))); }>(w, in, m);
}
template <typename T>
void and_lanes(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return T(a & b); }>(w, in, m);
}
template <typename T>
void or_lanes(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return T(a | b); }>(w, in, m);
}
template <typename T>
void xor_lanes(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return T(a ^ b); }>(w, in, m);
}
template <typename T>
void not_lanes(Warp& w, const Inst& in, Mask m) {
  unary<T, T, [](T a) { return T(~a); }>(w, in, m);
}
template <typename T>
void cnot_lanes(Warp& w, const Inst& in, Mask m) {
  unary<T, T, [](T a) { return T(a == 0); }>(w, in, m);
}

// Shifts by more than the width give zeros, or signs.
template <typename T>
void shift_left(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  binary<U, U, std::uint32_t, [](U a, std::uint32_t n) {
    const U shifted = U(std::uint64_t(a) << (n & (kBits - 1)));
    return n >= kBits ? U(0) : shifted;
  }>(w, in, m);
}
template <typename T>
void shift_right(Warp& w, const Inst& in, Mask m) {
  constexpr std::uint32_t kBits = sizeof(T) * 8;
  binary<T, T, std::uint32_t, [](T a, std::uint32_t n) {
    const std::uint32_t safe = n < kBits ? n : kBits - 1;
    const T shifted = T(a >> safe);
    if constexpr (std::is_signed_v<T>) return shifted;
    return n >= kBits ? T(0) : shifted;
  }>(w, in, m);
}

template <auto F>
void predicate_binary(Warp& w, const Inst& in, Mask m) {
  Mask& d = predicate(w, in.d);
  d = (d & ~m) | (F(predicate(w, in.a), predicate(w, in.b)) & m);
}

// Operands a and b of `type`, result of the same, or of twice its width.
void two_operands(Decoder& d, Handler run, const std::string& type, bool wide = false) {
  Inst in;
  in.run = run;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.d = d.write(0, type_bytes(type) * (wide ? 2 : 1));
  d.emit(in);
}

void one_operand(Decoder& d, Handler run, const std::string& type, std::uint32_t result_bytes = 0) {
  Inst in;
  in.run = run;
  in.a = d.read(1, type);
  in.d = d.write(0, result_bytes == 0 ? type_bytes(type) : result_bytes);
  d.emit(in);
}

std::string wide_type(const std::string& type) { return cat(type[0], type_bytes(type) * 16); }

}  // namespace

// Packed pairs of 16-bit integers.
template <typename T, auto F>
void packed_pairs(Warp& w, const Inst& in, Mask m) {
  binary<std::uint32_t, std::uint32_t, std::uint32_t, [](std::uint32_t a, std::uint32_t b) {
    const auto low = std::uint16_t(F(T(a), T(b))), high_part = std::uint16_t(F(T(a >> 16), T(b >> 16)));
    return std::uint32_t(low) | std::uint32_t(high_part) << 16;
  }>(w, in, m);
}

// Carries are kept a lane a bit, in a predicate of the decoder's that all of a kernel share.
template <typename T, int kOperation>  // 0 add, 1 sub
void with_carry(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  const U *a = lanes_of<U>(w, in.a), *b = lanes_of<U>(w, in.b);
  U* d = lanes_of<U>(w, in.d);
  Mask& carry = predicate(w, in.e);
  for_lanes(m, [&](int l) {
    const unsigned __int128 c = in.flags & 1 ? carry >> l & 1 : 0;
    const unsigned __int128 wide =
        kOperation == 0 ? (unsigned __int128)(a[l]) + b[l] + c : (unsigned __int128)(a[l]) - b[l] - c;
    d[l] = U(wide);
    if (in.flags & 2) carry = (carry & ~(1u << l)) | Mask(wide >> (sizeof(U) * 8) & 1) << l;
  });
}

template <typename T, bool kHigh>
void multiply_add_carry(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  const T *a = lanes_of<T>(w, in.a), *b = lanes_of<T>(w, in.b);
  const U* c = lanes_of<U>(w, in.c);
  U* d = lanes_of<U>(w, in.d);
  Mask& carry = predicate(w, in.e);
  for_lanes(m, [&](int l) {
    const U product = kHigh ? U(high(a[l], b[l])) : U(U(a[l]) * U(b[l]));
    const unsigned __int128 wide = (unsigned __int128)(product) + c[l] + (in.flags & 1 ? carry >> l & 1 : 0);
    d[l] = U(wide);
    if (in.flags & 2) carry = (carry & ~(1u << l)) | Mask(wide >> (sizeof(U) * 8) & 1) << l;
  });
}

namespace {

void decode_add(Decoder& d);
void decode_sub(Decoder& d);

template <typename T>
void add_with_carry(Warp& w, const Inst& in, Mask m) {
  with_carry<T, 0>(w, in, m);
}
template <typename T>
void sub_with_carry(Warp& w, const Inst& in, Mask m) {
  with_carry<T, 1>(w, in, m);
}
template <typename T>
void mad_low_carry(Warp& w, const Inst& in, Mask m) {
  multiply_add_carry<T, false>(w, in, m);
}
template <typename T>
void mad_high_carry(Warp& w, const Inst& in, Mask m) {
  multiply_add_carry<T, true>(w, in, m);
}

// add.cc sets the carry, addc takes it, addc.cc does both.
void carry_arithmetic(Decoder& d, Handler run, bool takes) {
  Inst in;
  in.flags = std::uint16_t((takes ? 1 : 0) | (d.has("cc") ? 2 : 0));
  in.run = run;
  in.a = d.read(1, d.type());
  in.b = d.read(2, d.type());
  if (d.operands() > 3) in.c = d.read(3, d.type());
  in.e = d.special(Special::carry);
  in.d = d.write(0, type_bytes(d.type()));
  d.emit(in);
}

template <typename T, auto F>
Handler pairs() {
  return packed_pairs<T, F>;
}

void decode_add(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_add(d);
  if (d.has("cc") || d.name() == "addc")
    return carry_arithmetic(d, ZT_BY_INTEGER(add_with_carry, type), d.name() == "addc");
  if (type == "u16x2" || type == "s16x2")
    return two_operands(d, pairs<std::uint16_t, [](std::uint16_t a, std::uint16_t b) { return a + b; }>(),
                        type);
  two_operands(d, d.has("sat") ? add_saturated : ZT_BY_INTEGER(add, type), type);
}

void decode_sub(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_sub(d);
  if (d.has("cc") || d.name() == "subc")
    return carry_arithmetic(d, ZT_BY_INTEGER(sub_with_carry, type), d.name() == "subc");
  two_operands(d, d.has("sat") ? subtract_saturated : ZT_BY_INTEGER(subtract, type), type);
}

void decode_mul(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_mul(d);
  if (d.has("wide"))
    return two_operands(d,
                        type == "s16"   ? multiply_wide<std::int16_t>
                        : type == "u16" ? multiply_wide<std::uint16_t>
                        : type == "s32" ? multiply_wide<std::int32_t>
                                        : multiply_wide<std::uint32_t>,
                        type, true);
  two_operands(d, d.has("hi") ? ZT_BY_INTEGER(multiply_high, type) : ZT_BY_INTEGER(multiply, type), type);
}

// The lower 24 bits of both, sign-extended for s32; `hi` gives bits 16..47 of the product.
void decode_mul24(Decoder& d) {
  const bool sign = d.type() == "s32";
  const Handler low =
      sign ? binary<std::int32_t, std::int32_t, std::int32_t,
                    [](std::int32_t a, std::int32_t b) {
                      return std::int32_t(std::uint32_t(a << 8 >> 8) * std::uint32_t(b << 8 >> 8));
                    }>
           : binary<std::uint32_t, std::uint32_t, std::uint32_t,
                    [](std::uint32_t a, std::uint32_t b) { return (a & 0xffffff) * (b & 0xffffff); }>;
  if (d.has("hi")) d.refuse();
  two_operands(d, low, d.type());
}

void decode_mad(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_fma(d);
  const bool takes = d.name() == "madc";
  if (takes || d.has("cc"))
    return carry_arithmetic(
        d, d.has("hi") ? ZT_BY_INTEGER(mad_high_carry, type) : ZT_BY_INTEGER(mad_low_carry, type), takes);
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  const bool wide = d.has("wide");
  in.c = d.read(3, wide ? wide_type(type) : type);
  in.d = d.write(0, type_bytes(type) * (wide ? 2 : 1));
  if (wide)
    in.run = type == "s16"   ? multiply_add_wide<std::int16_t>
             : type == "u16" ? multiply_add_wide<std::uint16_t>
             : type == "s32" ? multiply_add_wide<std::int32_t>
                             : multiply_add_wide<std::uint32_t>;
  else
    in.run = d.has("hi") ? ZT_BY_INTEGER(multiply_add_high, type) : ZT_BY_INTEGER(multiply_add, type);
  d.emit(in);
}

void decode_div(Decoder& d) {
  if (is_float(d.type())) return decode_float_div(d);
  two_operands(d, ZT_BY_INTEGER(divide, d.type()), d.type());
}
void decode_rem(Decoder& d) { two_operands(d, ZT_BY_INTEGER(remainder, d.type()), d.type()); }

void decode_min(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_min(d);
  if (type == "s16x2")
    return two_operands(
        d, pairs<std::int16_t, [](std::int16_t a, std::int16_t b) { return a < b ? a : b; }>(), type);
  if (type == "u16x2")
    return two_operands(
        d, pairs<std::uint16_t, [](std::uint16_t a, std::uint16_t b) { return a < b ? a : b; }>(), type);
  two_operands(d, ZT_BY_INTEGER(minimum, type), type);
}
void decode_max(Decoder& d) {
  const std::string type = d.type();
  if (is_float(type)) return decode_float_max(d);
  if (type == "s16x2")
    return two_operands(
        d, pairs<std::int16_t, [](std::int16_t a, std::int16_t b) { return b < a ? a : b; }>(), type);
  if (type == "u16x2")
    return two_operands(
        d, pairs<std::uint16_t, [](std::uint16_t a, std::uint16_t b) { return b < a ? a : b; }>(), type);
  two_operands(d, ZT_BY_INTEGER(maximum, type), type);
}
void decode_neg(Decoder& d) {
  if (is_float(d.type())) return decode_float_neg(d);
  one_operand(d, ZT_BY_INTEGER(negate, d.type()), d.type());
}
void decode_abs(Decoder& d) {
  if (is_float(d.type())) return decode_float_abs(d);
  one_operand(d, ZT_BY_INTEGER(absolute, d.type()), d.type());
}
void decode_sad(Decoder& d) {
  Inst in;
  in.run = ZT_BY_INTEGER(sad_lanes, d.type());
  in.a = d.read(1, d.type());
  in.b = d.read(2, d.type());
  in.c = d.read(3, d.type());
  in.d = d.write(0, type_bytes(d.type()));
  d.emit(in);
}

void logic(Decoder& d, Handler on_predicates, Handler on_bits) {
  if (d.type() != "pred") return two_operands(d, on_bits, d.type());
  Inst in;
  in.run = on_predicates;
  in.a = d.read_predicate(1);
  in.b = d.read_predicate(2);
  in.d = d.write_predicate(d.operand(0));
  d.emit(in);
}
void decode_and(Decoder& d) {
  logic(d, predicate_binary<[](Mask a, Mask b) { return a & b; }>, ZT_BY_INTEGER(and_lanes, d.type()));
}
void decode_or(Decoder& d) {
  logic(d, predicate_binary<[](Mask a, Mask b) { return a | b; }>, ZT_BY_INTEGER(or_lanes, d.type()));
}
void decode_xor(Decoder& d) {
  logic(d, predicate_binary<[](Mask a, Mask b) { return a ^ b; }>, ZT_BY_INTEGER(xor_lanes, d.type()));
}
void decode_not(Decoder& d) {
  if (d.type() != "pred") return one_operand(d, ZT_BY_INTEGER(not_lanes, d.type()), d.type());
  Inst in;
  in.run = not_predicate_handler();
  in.a = d.read_predicate(1);
  in.d = d.write_predicate(d.operand(0));
  d.emit(in);
}
void decode_cnot(Decoder& d) { one_operand(d, ZT_BY_INTEGER(cnot_lanes, d.type()), d.type()); }

void shift(Decoder& d, Handler run) {
  Inst in;
  in.run = run;
  in.a = d.read(1, d.type());
  in.b = d.read(2, "u32");
  in.d = d.write(0, type_bytes(d.type()));
  d.emit(in);
}
void decode_shl(Decoder& d) { shift(d, ZT_BY_INTEGER(shift_left, d.type())); }
void decode_shr(Decoder& d) { shift(d, ZT_BY_INTEGER(shift_right, d.type())); }

// shf.l/r: the pair {b, a} shifted, upper or lower half kept.
template <bool kLeft, bool kWrap>
void funnel(Warp& w, const Inst& in, Mask m) {
  ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
          [](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
            const std::uint32_t n = kWrap ? c & 31 : (c < 32 ? c : 32);
            const std::uint64_t pair = std::uint64_t{b} << 32 | a;
            if constexpr (kLeft) return n == 32 ? a : std::uint32_t((pair << n) >> 32);
            return std::uint32_t(n == 32 ? b : pair >> n);
          }>(w, in, m);
}
void decode_shf(Decoder& d) {
  Inst in;
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.c = d.read(3, "u32");
  in.d = d.write(0, 4);
  in.run = d.has("l") ? (d.has("wrap") ? funnel<true, true> : funnel<true, false>)
                      : (d.has("wrap") ? funnel<false, true> : funnel<false, false>);
  d.emit(in);
}

// lop3: the truth table `imm` by the bits of a, b, c.
void lop3_lanes(Warp& w, const Inst& in, Mask m) {
  const std::uint32_t *a = lanes_of<std::uint32_t>(w, in.a), *b = lanes_of<std::uint32_t>(w, in.b),
                      *c = lanes_of<std::uint32_t>(w, in.c);
  std::uint32_t* d = lanes_of<std::uint32_t>(w, in.d);
  const auto table = std::uint32_t(in.imm);
  each_lane(m, [=](int l) {
    std::uint32_t out = 0;
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t row = (i & 4 ? a[l] : ~a[l]) & (i & 2 ? b[l] : ~b[l]) & (i & 1 ? c[l] : ~c[l]);
      out |= table >> i & 1 ? row : 0;
    }
    d[l] = out;
  });
}
void decode_lop3(Decoder& d) {
  if (d.operands() != 5) d.refuse("predicate form");
  Inst in;
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.c = d.read(3, "b32");
  in.imm = d.literal(4);
  in.d = d.write(0, 4);
  in.run = lop3_lanes;
  d.emit(in);
}

template <typename T>
void popc_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<std::uint32_t, U, [](U a) { return std::uint32_t(std::popcount(a)); }>(w, in, m);
}
template <typename T>
void clz_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<std::uint32_t, U, [](U a) { return std::uint32_t(std::countl_zero(a)); }>(w, in, m);
}
template <typename T>
void brev_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<U, U, [](U a) {
    U out = 0;
    for (unsigned i = 0; i < sizeof(U) * 8; ++i) out |= U((a >> i & 1) << (sizeof(U) * 8 - 1 - i));
    return out;
  }>(w, in, m);
}
// bfind: the highest bit that is not a sign; `shiftamt` counts from the top.
template <typename T, bool kShift>
void bfind_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  unary<std::uint32_t, T, [](T a) {
    const U x = std::is_signed_v<T> && a < 0 ? U(~a) : U(a);
    if (x == 0) return ~0u;
    const auto zeros = std::uint32_t(std::countl_zero(x));
    return kShift ? zeros : std::uint32_t(sizeof(U) * 8 - 1) - zeros;
  }>(w, in, m);
}
template <typename T>
void bfind_bit(Warp& w, const Inst& in, Mask m) {
  bfind_lanes<T, false>(w, in, m);
}
template <typename T>
void bfind_shift(Warp& w, const Inst& in, Mask m) {
  bfind_lanes<T, true>(w, in, m);
}

void decode_popc(Decoder& d) { one_operand(d, ZT_BY_INTEGER(popc_lanes, d.type()), d.type(), 4); }
void decode_clz(Decoder& d) { one_operand(d, ZT_BY_INTEGER(clz_lanes, d.type()), d.type(), 4); }
void decode_brev(Decoder& d) { one_operand(d, ZT_BY_INTEGER(brev_lanes, d.type()), d.type()); }
void decode_bfind(Decoder& d) {
  one_operand(d,
              d.has("shiftamt") ? ZT_BY_INTEGER(bfind_shift, d.type()) : ZT_BY_INTEGER(bfind_bit, d.type()),
              d.type(), 4);
}

// bfe: `c` bits of a from bit `b`, sign-extended for signed types.
template <typename T>
void bfe_lanes(Warp& w, const Inst& in, Mask m) {
  using U = Unsigned<T>;
  ternary<U, U, std::uint32_t, std::uint32_t, [](U a, std::uint32_t from, std::uint32_t n) {
    constexpr std::uint32_t kBits = sizeof(T) * 8;
    from &= 0xff;
    n &= 0xff;
    if (n == 0) return U(0);
    const U shifted = from >= kBits ? U(0) : U(a >> from);
    const U low = n >= kBits ? U(~U(0)) : U((U(1) << n) - 1);
    if constexpr (std::is_signed_v<T>) {
      const std::uint32_t top = std::min(from + n - 1, kBits - 1);
      const bool sign = ((a >> top) & 1) != 0;
      const std::uint32_t have = from >= kBits ? 0 : (n < kBits - from ? n : kBits - from);
      const U extend = have >= kBits ? U(0) : U(~U(0)) << have;
      return U((shifted & low) | (sign ? extend : U(0)));
    }
    return U(shifted & low);
  }>(w, in, m);
}
void decode_bfe(Decoder& d) {
  Inst in;
  in.run = d.type() == "s32"   ? bfe_lanes<std::int32_t>
           : d.type() == "s64" ? bfe_lanes<std::int64_t>
           : d.type() == "u64" ? bfe_lanes<std::uint64_t>
                               : bfe_lanes<std::uint32_t>;
  in.a = d.read(1, d.type());
  in.b = d.read(2, "u32");
  in.c = d.read(3, "u32");
  in.d = d.write(0, type_bytes(d.type()));
  d.emit(in);
}

// bfi f, a, b, c, d: the low d bits of a put into b at bit c.
template <typename U>
void bfi_lanes(Warp& w, const Inst& in, Mask m) {
  const U *a = lanes_of<U>(w, in.a), *b = lanes_of<U>(w, in.b);
  const std::uint32_t *c = lanes_of<std::uint32_t>(w, in.c), *n = lanes_of<std::uint32_t>(w, in.e);
  U* d = lanes_of<U>(w, in.d);
  constexpr std::uint32_t kBits = sizeof(U) * 8;
  each_lane(m, [=](int l) {
    const std::uint32_t at = c[l] & 0xff, bits = n[l] & 0xff;
    const U low = bits >= kBits ? U(~U(0)) : U((U(1) << bits) - 1);
    const U field = at >= kBits ? U(0) : U(low << at);
    d[l] = U((b[l] & ~field) | (at >= kBits ? U(0) : U(a[l] << at) & field));
  });
}
void decode_bfi(Decoder& d) {
  Inst in;
  in.run = type_bytes(d.type()) == 8 ? bfi_lanes<std::uint64_t> : bfi_lanes<std::uint32_t>;
  in.a = d.read(1, d.type());
  in.b = d.read(2, d.type());
  in.c = d.read(3, "u32");
  in.e = d.read(4, "u32");
  in.d = d.write(0, type_bytes(d.type()));
  d.emit(in);
}

// bmsk d, a, b: b ones from bit a.
void decode_bmsk(Decoder& d) {
  const Handler run =
      d.has("clamp")
          ? binary<std::uint32_t, std::uint32_t, std::uint32_t,
                   [](std::uint32_t a, std::uint32_t b) {
                     const std::uint32_t ones = b >= 32 ? ~0u : (1u << b) - 1;
                     return a >= 32 ? 0u : ones << a;
                   }>
          : binary<std::uint32_t, std::uint32_t, std::uint32_t,
                   [](std::uint32_t a, std::uint32_t b) { return ((1u << (b & 31)) - 1) << (a & 31); }>;
  two_operands(d, run, "b32");
}

template <typename A, typename B>
std::uint32_t byte_product(std::uint32_t a, std::uint32_t b, int shift_by) {
  return std::uint32_t(std::int32_t(A(a >> shift_by)) * std::int32_t(B(b >> shift_by)));
}

template <typename A, typename B>
void dot_bytes(Warp& w, const Inst& in, Mask m) {
  ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
          [](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
            for (int i = 0; i < 4; ++i) c += byte_product<A, B>(a, b, i * 8);
            return c;
          }>(w, in, m);
}
void decode_dp4a(Decoder& d) {
  const bool sa = d.modifiers()[0] == "s32", sb = d.modifiers()[1] == "s32";
  Inst in;
  in.run = sa ? (sb ? dot_bytes<std::int8_t, std::int8_t> : dot_bytes<std::int8_t, std::uint8_t>)
              : (sb ? dot_bytes<std::uint8_t, std::int8_t> : dot_bytes<std::uint8_t, std::uint8_t>);
  in.a = d.read(1, "b32");
  in.b = d.read(2, "b32");
  in.c = d.read(3, "b32");
  in.d = d.write(0, 4);
  d.emit(in);
}

}  // namespace

Handler add_handler(bool wide) { return wide ? add<std::uint64_t> : add<std::uint32_t>; }

void add_integer_ops(OpTable* table) {
  table->insert({{"add", decode_add},   {"addc", decode_add}, {"sub", decode_sub},   {"subc", decode_sub},
                 {"mul", decode_mul},   {"mad", decode_mad},  {"madc", decode_mad},  {"mul24", decode_mul24},
                 {"div", decode_div},   {"rem", decode_rem},  {"min", decode_min},   {"max", decode_max},
                 {"neg", decode_neg},   {"abs", decode_abs},  {"sad", decode_sad},   {"and", decode_and},
                 {"or", decode_or},     {"xor", decode_xor},  {"not", decode_not},   {"cnot", decode_cnot},
                 {"shl", decode_shl},   {"shr", decode_shr},  {"shf", decode_shf},   {"lop3", decode_lop3},
                 {"popc", decode_popc}, {"clz", decode_clz},  {"brev", decode_brev}, {"bfind", decode_bfind},
                 {"bfe", decode_bfe},   {"bfi", decode_bfi},  {"bmsk", decode_bmsk}, {"dp4a", decode_dp4a}});
}

}  // namespace zt::emulator::ptx
