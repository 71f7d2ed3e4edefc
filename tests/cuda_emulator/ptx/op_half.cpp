// Arithmetic of f16 and bf16, single and in pairs. Computed in double, which holds sums and products of such
// numbers exactly, and rounded once.
#include <cmath>

#include "base/text.h"
#include "block.h"
#include "decoder.h"
#include "half.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

enum : std::uint16_t { kRelu = 1, kSaturate = 2, kNan = 4, kFlush = 8 };

struct Add {
  static double of(double a, double b, double) { return a + b; }
};
struct Sub {
  static double of(double a, double b, double) { return a - b; }
};
struct Mul {
  static double of(double a, double b, double) { return a * b; }
};
struct Fma {
  static double of(double a, double b, double c) { return a * b + c; }
};
struct Min {
  static double of(double a, double b, double) {
    if (a == b) return std::signbit(a) ? a : b;
    return std::fmin(a, b);
  }
};
struct Max {
  static double of(double a, double b, double) {
    if (a == b) return std::signbit(a) ? b : a;
    return std::fmax(a, b);
  }
};

template <typename H, typename Op>
H half_of(H a, H b, H c, std::uint16_t flags) {
  const double x = double(to_float(a)), y = double(to_float(b)), z = double(to_float(c));
  double r = Op::of(x, y, z);
  if ((flags & kNan) != 0 && (x != x || y != y)) r = NAN;
  if ((flags & kRelu) != 0) r = r > 0 || r != r ? r : 0.0;
  if ((flags & kSaturate) != 0) r = r > 0 ? (r < 1 ? r : 1.0) : 0.0;
  return round_half<H>(r);
}

template <typename H, typename Op>
void single(Warp& w, const Inst& in, Mask m) {
  const H *a = lanes_of<H>(w, in.a), *b = lanes_of<H>(w, in.b), *c = lanes_of<H>(w, in.c);
  H* d = lanes_of<H>(w, in.d);
  const std::uint16_t flags = in.flags;
  each_lane(m, [=](int l) { d[l] = half_of<H, Op>(a[l], b[l], c[l], flags); });
}

template <typename H>
struct Pair {
  H low, high;
};

template <typename H, typename Op>
void both(Warp& w, const Inst& in, Mask m) {
  const auto *a = lanes_of<Pair<H>>(w, in.a), *b = lanes_of<Pair<H>>(w, in.b),
             *c = lanes_of<Pair<H>>(w, in.c);
  auto* d = lanes_of<Pair<H>>(w, in.d);
  const std::uint16_t flags = in.flags;
  each_lane(m, [=](int l) {
    const Pair<H> r{half_of<H, Op>(a[l].low, b[l].low, c[l].low, flags),
                    half_of<H, Op>(a[l].high, b[l].high, c[l].high, flags)};
    d[l] = r;
  });
}

template <typename Op>
Handler pick(const std::string& type) {
  return type == "f16"     ? single<F16, Op>
         : type == "bf16"  ? single<Bf16, Op>
         : type == "f16x2" ? both<F16, Op>
                           : both<Bf16, Op>;
}

// Sign bits only.
void sign_bits(Decoder& d, bool negate) {
  const bool pair = type_bytes(d.type()) == 4;
  Inst in;
  in.a = d.read(1, d.type());
  in.d = d.write(0, type_bytes(d.type()));
  if (negate)
    in.run =
        pair
            ? unary<std::uint32_t, std::uint32_t, [](std::uint32_t x) { return x ^ 0x80008000u; }>
            : unary<std::uint16_t, std::uint16_t, [](std::uint16_t x) { return std::uint16_t(x ^ 0x8000u); }>;
  else
    in.run =
        pair
            ? unary<std::uint32_t, std::uint32_t, [](std::uint32_t x) { return x & 0x7fff7fffu; }>
            : unary<std::uint16_t, std::uint16_t, [](std::uint16_t x) { return std::uint16_t(x & 0x7fffu); }>;
  d.emit(in);
}

template <typename H, auto F>
void function_single(Warp& w, const Inst& in, Mask m) {
  unary<H, H, [](H x) { return round_half<H>(F(double(to_float(x)))); }>(w, in, m);
}
template <typename H, auto F>
void function_both(Warp& w, const Inst& in, Mask m) {
  unary<Pair<H>, Pair<H>, [](Pair<H> x) {
    return Pair<H>{round_half<H>(F(double(to_float(x.low)))), round_half<H>(F(double(to_float(x.high))))};
  }>(w, in, m);
}
template <auto F>
Handler pick_function(const std::string& type) {
  return type == "f16"     ? function_single<F16, F>
         : type == "bf16"  ? function_single<Bf16, F>
         : type == "f16x2" ? function_both<F16, F>
                           : function_both<Bf16, F>;
}

}  // namespace

void decode_half_arithmetic(Decoder& d) {
  const std::string& name = d.name();
  if (name == "neg" || name == "abs") return sign_bits(d, name == "neg");
  if (d.has("xorsign")) d.refuse();
  const std::string type = d.type();
  Inst in;
  in.flags =
      std::uint16_t((d.has("relu") ? kRelu : 0) | (d.has("sat") ? kSaturate : 0) | (d.has("NaN") ? kNan : 0));
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  in.c = name == "fma" ? d.read(3, type) : in.a;
  in.d = d.write(0, type_bytes(type));
  in.run = name == "add"   ? pick<Add>(type)
           : name == "sub" ? pick<Sub>(type)
           : name == "mul" ? pick<Mul>(type)
           : name == "fma" ? pick<Fma>(type)
           : name == "min" ? pick<Min>(type)
                           : pick<Max>(type);
  d.emit(in);
}

void decode_half_function(Decoder& d) {
  Inst in;
  in.a = d.read(1, d.type());
  in.d = d.write(0, type_bytes(d.type()));
  in.run = d.name() == "ex2" ? pick_function<[](double x) { return std::exp2(x); }>(d.type())
                             : pick_function<[](double x) { return std::tanh(x); }>(d.type());
  d.emit(in);
}

}  // namespace zt::emulator::ptx
