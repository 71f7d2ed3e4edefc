// Arithmetic of f32 and f64, and the approximate functions of the special function unit.
//
// The hardware's approximate functions differ in the last bits; here they are as exact as the host's.
#include <cmath>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "half.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

bool is_half(const std::string& type) {
  return type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2";
}

// `.ftz` flushes subnormal inputs and results.
template <bool kFlush, typename T>
T in_of(T x) {
  if constexpr (kFlush) return flush(x);
  return x;
}
template <typename T>
T saturate(T x) {
  return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}

enum : std::uint16_t { kFlushFlag = 1, kSaturateFlag = 2 };

template <typename T, bool kFlush, auto F>
void float_binary(Warp& w, const Inst& in, Mask m) {
  binary<T, T, T, [](T a, T b) { return in_of<kFlush>(F(in_of<kFlush>(a), in_of<kFlush>(b))); }>(w, in, m);
  if (in.flags & kSaturateFlag) {
    T* d = lanes_of<T>(w, in.d);
    each_lane(m, [=](int l) { d[l] = saturate(d[l]); });
  }
}

// For the other roundings the machine's mode is set around the loop; the result goes through a volatile so that
// no operation moves out of it.
template <typename T, auto F>
void directed_binary(Warp& w, const Inst& in, Mask m) {
  const RoundingScope scope{Rounding(in.width)};
  const T *a = lanes_of<T>(w, in.a), *b = lanes_of<T>(w, in.b);
  T* d = lanes_of<T>(w, in.d);
  for_lanes(m, [&](int l) {
    volatile T x = a[l], y = b[l];
    volatile T result = F(x, y);
    d[l] = in.flags & kSaturateFlag ? saturate(T(result)) : T(result);
  });
}

template <typename T, bool kFlush>
void float_fma(Warp& w, const Inst& in, Mask m) {
  ternary<T, T, T, T, [](T a, T b, T c) {
    if constexpr (sizeof(T) == 4)
      return in_of<kFlush>(__builtin_fmaf(in_of<kFlush>(a), in_of<kFlush>(b), in_of<kFlush>(c)));
    else
      return __builtin_fma(a, b, c);
  }>(w, in, m);
  if (in.flags & kSaturateFlag) {
    T* d = lanes_of<T>(w, in.d);
    each_lane(m, [=](int l) { d[l] = saturate(d[l]); });
  }
}

template <typename T>
void directed_fma(Warp& w, const Inst& in, Mask m) {
  const RoundingScope scope{Rounding(in.width)};
  const T *a = lanes_of<T>(w, in.a), *b = lanes_of<T>(w, in.b), *c = lanes_of<T>(w, in.c);
  T* d = lanes_of<T>(w, in.d);
  for_lanes(m, [&](int l) {
    volatile T x = a[l], y = b[l], z = c[l];
    volatile T result = std::fma(T(x), T(y), T(z));
    d[l] = in.flags & kSaturateFlag ? saturate(T(result)) : T(result);
  });
}

Rounding rounding(const Decoder& d) {
  return d.has("rz")   ? Rounding::zero
         : d.has("rm") ? Rounding::down
         : d.has("rp") ? Rounding::up
                       : Rounding::nearest;
}

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kDiv = [](auto a, auto b) { return a / b; };

template <auto F>
void arithmetic(Decoder& d) {
  const std::string type = d.type();
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.d = d.write(0, type_bytes(type));
  in.flags = d.has("sat") ? kSaturateFlag : 0;
  in.width = std::uint8_t(rounding(d));
  if (rounding(d) != Rounding::nearest)
    in.run = type == "f64" ? directed_binary<double, F> : directed_binary<float, F>;
  else if (type == "f64")
    in.run = float_binary<double, false, F>;
  else
    in.run = d.has("ftz") ? float_binary<float, true, F> : float_binary<float, false, F>;
  d.emit(in);
}

// min and max give the number when one side is none, unless `.NaN` asks otherwise; -0 is below +0.
template <typename T>
T lesser(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T>
T greater(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return b < a ? a : b;
}
template <typename T>
T spoil(T a, T b, T result) {
  return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : result;
}

template <bool kMin>
void extreme(Decoder& d) {
  const std::string type = d.type();
  if (d.has("xorsign") || d.operands() > 3) d.refuse();
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.d = d.write(0, type_bytes(type));
  if (type == "f64") {
    in.run =
        float_binary<double, false, [](double a, double b) { return kMin ? lesser(a, b) : greater(a, b); }>;
  } else if (d.has("NaN")) {
    in.run = float_binary<float, false,
                          [](float a, float b) { return spoil(a, b, kMin ? lesser(a, b) : greater(a, b)); }>;
  } else if (d.has("ftz")) {
    in.run = float_binary<float, true, [](float a, float b) { return kMin ? lesser(a, b) : greater(a, b); }>;
  } else {
    in.run = float_binary<float, false, [](float a, float b) { return kMin ? lesser(a, b) : greater(a, b); }>;
  }
  d.emit(in);
}

void one(Decoder& d, Handler on_float, Handler on_double) {
  const std::string type = d.type();
  Inst in;
  in.run = type == "f64" ? on_double : on_float;
  in.flags = d.has("ftz") ? kFlushFlag : 0;
  in.a = d.read(1, type);
  in.d = d.write(0, type_bytes(type));
  d.emit(in);
}

// A function of one float; `.ftz` on both sides by flag.
template <auto F>
void function(Warp& w, const Inst& in, Mask m) {
  const float* a = lanes_of<float>(w, in.a);
  float* d = lanes_of<float>(w, in.d);
  if (in.flags & kFlushFlag)
    each_lane(m, [=](int l) { d[l] = flush(F(flush(a[l]))); });
  else
    each_lane(m, [=](int l) { d[l] = F(a[l]); });
}
template <auto F>
void function64(Warp& w, const Inst& in, Mask m) {
  unary<double, double, F>(w, in, m);
}

// 2^x. Splits x into an integer and a rest in [-1/2, 1/2], whose power is a polynomial (Taylor at 0, error below
// 1e-8 of the value), so that the loop over lanes becomes vector instructions.
float exp2_of(float x) {
  const float clamped = x < -151.f ? -151.f : x > 129.f ? 129.f : x;
  const float whole = __builtin_rintf(clamped);
  const float r = clamped - whole;
  float p = 1.5252734e-5f;
  p = __builtin_fmaf(p, r, 1.5403530e-4f);
  p = __builtin_fmaf(p, r, 1.3333558e-3f);
  p = __builtin_fmaf(p, r, 9.6181291e-3f);
  p = __builtin_fmaf(p, r, 5.5504109e-2f);
  p = __builtin_fmaf(p, r, 2.4022651e-1f);
  p = __builtin_fmaf(p, r, 6.9314718e-1f);
  p = __builtin_fmaf(p, r, 1.0f);
  const int n = int(whole), half = n / 2;  // in two steps, so that neither factor leaves the range
  const float first = from_bits<float>(std::uint32_t(half + 127) << 23);
  const float second = from_bits<float>(std::uint32_t(n - half + 127) << 23);
  const float result = p * first * second;
  return x != x ? x : result;
}

void ex2(Decoder& d) {
  if (is_half(d.type())) return decode_half_function(d);
  one(d, function<[](float x) { return exp2_of(x); }>, nullptr);
}
void lg2(Decoder& d) {
  one(d, function<[](float x) { return std::log2(x); }>, nullptr);
}
void sine(Decoder& d) {
  one(d, function<[](float x) { return std::sin(x); }>, nullptr);
}
void cosine(Decoder& d) {
  one(d, function<[](float x) { return std::cos(x); }>, nullptr);
}
void tanh_approx(Decoder& d) {
  if (is_half(d.type())) return decode_half_function(d);
  one(d, function<[](float x) { return std::tanh(x); }>, nullptr);
}
// rcp.approx.ftz.f64 gives the upper half of the reciprocal's mantissa only; its users refine it.
void rcp(Decoder& d) {
  if (rounding(d) != Rounding::nearest) d.refuse("rounding");
  const Handler coarse =
      function64<[](double x) { return from_bits<double>(bits_of(1.0 / x) & 0xffffffff00000000ull); }>;
  const Handler exact = function64<[](double x) { return 1.0 / x; }>;
  one(d, function<[](float x) { return 1.0f / x; }>, d.has("approx") ? coarse : exact);
}
void rsqrt(Decoder& d) {
  const Handler coarse = function64<[](double x) {
    return from_bits<double>(bits_of(1.0 / std::sqrt(x)) & 0xffffffff00000000ull);
  }>;
  const Handler fine = function64<[](double x) { return 1.0 / std::sqrt(x); }>;
  one(d, function<[](float x) { return float(1.0 / std::sqrt(double(x))); }>, d.has("ftz") ? coarse : fine);
}
void sqrt_of(Decoder& d) {
  if (rounding(d) != Rounding::nearest) d.refuse("rounding");
  one(d, function<[](float x) { return std::sqrt(x); }>, function64<[](double x) { return std::sqrt(x); }>);
}

// testp.X.T p, a.
template <typename T>
void test_lanes(Warp& w, const Inst& in, Mask m) {
  const T* a = lanes_of<T>(w, in.a);
  Mask& d = predicate(w, in.d);
  Mask out = 0;
  for_lanes(m, [&](int l) {
    const int c = std::fpclassify(a[l]);
    const bool truth[] = {std::isfinite(a[l]), c == FP_INFINITE, c != FP_NAN,
                          c == FP_NAN,         c == FP_NORMAL,   c == FP_SUBNORMAL};
    out |= Mask{truth[in.flags]} << l;
  });
  d = (d & ~m) | out;
}
void testp(Decoder& d) {
  Inst in;
  const char* names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  for (std::uint16_t i = 0; i < 6; ++i) {
    if (d.has(names[i])) in.flags = i;
  }
  in.run = d.type() == "f64" ? test_lanes<double> : test_lanes<float>;
  in.a = d.read(1, d.type());
  in.d = d.write_predicate(d.operand(0));
  d.emit(in);
}

// copysign d, a, b: the sign of a on b.
void copysign_of(Decoder& d) {
  Inst in;
  in.a = d.read(1, d.type());
  in.b = d.read(2, d.type());
  in.d = d.write(0, type_bytes(d.type()));
  in.run = d.type() == "f64"
               ? binary<double, double, double, [](double a, double b) { return std::copysign(b, a); }>
               : binary<float, float, float, [](float a, float b) { return std::copysign(b, a); }>;
  d.emit(in);
}

}  // namespace

void decode_float_add(Decoder& d) { is_half(d.type()) ? decode_half_arithmetic(d) : arithmetic<kAdd>(d); }
void decode_float_sub(Decoder& d) { is_half(d.type()) ? decode_half_arithmetic(d) : arithmetic<kSub>(d); }
void decode_float_mul(Decoder& d) { is_half(d.type()) ? decode_half_arithmetic(d) : arithmetic<kMul>(d); }

void decode_float_fma(Decoder& d) {
  const std::string type = d.type();
  if (is_half(type)) return decode_half_arithmetic(d);
  Inst in;
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.c = d.read(3, type);
  in.d = d.write(0, type_bytes(type));
  in.flags = d.has("sat") ? kSaturateFlag : 0;
  in.width = std::uint8_t(rounding(d));
  if (rounding(d) != Rounding::nearest)
    in.run = type == "f64" ? directed_fma<double> : directed_fma<float>;
  else if (type == "f64")
    in.run = float_fma<double, false>;
  else
    in.run = d.has("ftz") ? float_fma<float, true> : float_fma<float, false>;
  d.emit(in);
}

void decode_float_div(Decoder& d) { arithmetic<kDiv>(d); }
void decode_float_min(Decoder& d) { is_half(d.type()) ? decode_half_arithmetic(d) : extreme<true>(d); }
void decode_float_max(Decoder& d) { is_half(d.type()) ? decode_half_arithmetic(d) : extreme<false>(d); }

void decode_float_neg(Decoder& d) {
  if (is_half(d.type())) return decode_half_arithmetic(d);
  one(d, function<[](float x) { return -x; }>, function64<[](double x) { return -x; }>);
}
void decode_float_abs(Decoder& d) {
  if (is_half(d.type())) return decode_half_arithmetic(d);
  one(d, function<[](float x) { return std::fabs(x); }>, function64<[](double x) { return std::fabs(x); }>);
}

void add_float_ops(OpTable* table) {
  table->insert({{"fma", decode_float_fma},
                 {"ex2", ex2},
                 {"lg2", lg2},
                 {"sin", sine},
                 {"cos", cosine},
                 {"tanh", tanh_approx},
                 {"rcp", rcp},
                 {"rsqrt", rsqrt},
                 {"sqrt", sqrt_of},
                 {"testp", testp},
                 {"copysign", copysign_of}});
}

}  // namespace zt::emulator::ptx
