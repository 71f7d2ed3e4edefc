// setp and set.
#include <cmath>
#include <map>

#include "block.h"
#include "decoder.h"
#include "half.h"
#include "lanewise.h"

namespace zt::emulator::ptx {

namespace {

// How a comparison of floats treats numbers that are none: ordered ones are false, the ...u forms true.
enum class Compare : std::uint16_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

std::optional<Compare> compare_of(const Decoder& d) {
  using enum Compare;
  static const std::map<std::string_view, Compare> kNames{
      {"eq", eq},   {"ne", ne},   {"lt", lt},   {"le", le},   {"gt", gt},   {"ge", ge},
      {"equ", equ}, {"neu", neu}, {"ltu", ltu}, {"leu", leu}, {"gtu", gtu}, {"geu", geu},
      {"num", num}, {"nan", nan}, {"lo", lt},   {"ls", le},   {"hi", gt},   {"hs", ge}};
  for (const std::string& m : d.modifiers()) {
    const auto it = kNames.find(m);
    if (it != kNames.end()) return it->second;
  }
  return std::nullopt;
}

template <typename T>
bool holds(Compare c, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (c) {
    case Compare::eq: return a == b;
    case Compare::ne: return !unordered && a != b;
    case Compare::lt: return a < b;
    case Compare::le: return a <= b;
    case Compare::gt: return a > b;
    case Compare::ge: return a >= b;
    case Compare::equ: return unordered || a == b;
    case Compare::neu: return a != b;
    case Compare::ltu: return unordered || a < b;
    case Compare::leu: return unordered || a <= b;
    case Compare::gtu: return unordered || a > b;
    case Compare::geu: return unordered || a >= b;
    case Compare::num: return !unordered;
    case Compare::nan: return unordered;
  }
  return false;
}

template <typename T>
auto value_of(T x) {
  if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
    return to_float(x);
  else
    return x;
}

// The lanes for which a C b, one loop for each comparison.
template <typename T, Compare kC>
Mask compare_all(const T* a, const T* b) {
  std::array<std::uint32_t, kLanes> truth;
#pragma GCC ivdep
  for (int l = 0; l < kLanes; ++l) truth[l] = holds(kC, value_of(a[l]), value_of(b[l])) ? 1u << l : 0u;
  Mask out = 0;
  for (int l = 0; l < kLanes; ++l) out |= truth[l];
  return out;
}

template <typename T>
using CompareAll = Mask (*)(const T*, const T*);

template <typename T>
Mask compare_lanes(Compare c, const T* a, const T* b) {
  using enum Compare;
  static constexpr CompareAll<T> kAll[] = {
      compare_all<T, eq>,  compare_all<T, ne>,  compare_all<T, lt>,  compare_all<T, le>,  compare_all<T, gt>,
      compare_all<T, ge>,  compare_all<T, equ>, compare_all<T, neu>, compare_all<T, ltu>, compare_all<T, leu>,
      compare_all<T, gtu>, compare_all<T, geu>, compare_all<T, num>, compare_all<T, nan>};
  return kAll[int(c)](a, b);
}

// setp.C{.bool} p|q, a, b{, c}: p = bool(C, c), q = bool(not C, c). flags: comparison, and 1 xor 2 or 3 in bits 8, 9.
template <typename T>
void setp_lanes(Warp& w, const Inst& in, Mask m) {
  const Mask truth = compare_lanes(Compare(in.flags & 0xff), lanes_of<T>(w, in.a), lanes_of<T>(w, in.b));
  const auto combine = [&](Mask t) {
    switch (in.flags >> 8) {
      case 1: return t & predicate(w, in.c);
      case 2: return t | predicate(w, in.c);
      case 3: return t ^ predicate(w, in.c);
      default: return t;
    }
  };
  const Mask first = combine(truth), second = combine(~truth);
  Mask& p = predicate(w, in.d);
  p = (p & ~m) | (first & m);
  if (in.e == kNoRef) return;
  Mask& q = predicate(w, in.e);
  q = (q & ~m) | (second & m);
}

// f16x2 and bf16x2: p for the lower halves, q for the upper.
template <typename H>
void setp_pairs(Warp& w, const Inst& in, Mask m) {
  const std::uint32_t *a = lanes_of<std::uint32_t>(w, in.a), *b = lanes_of<std::uint32_t>(w, in.b);
  Mask low = 0, high = 0;
  for (int l = 0; l < kLanes; ++l) {
    const auto half = [](std::uint32_t x, int i) { return to_float(H{std::uint16_t(x >> (i * 16))}); };
    low |= Mask{holds(Compare(in.flags & 0xff), half(a[l], 0), half(b[l], 0))} << l;
    high |= Mask{holds(Compare(in.flags & 0xff), half(a[l], 1), half(b[l], 1))} << l;
  }
  Mask& p = predicate(w, in.d);
  p = (p & ~m) | (low & m);
  if (in.e == kNoRef) return;
  Mask& q = predicate(w, in.e);
  q = (q & ~m) | (high & m);
}

std::string base_type(const std::string& type) {
  return type[0] == 'b' && type.substr(0, 2) != "bf" ? "u" + type.substr(1) : type;
}

Handler setp_handler(const std::string& type) {
  static const std::map<std::string_view, Handler> kHandlers{
      {"s16", setp_lanes<std::int16_t>}, {"u16", setp_lanes<std::uint16_t>},
      {"s32", setp_lanes<std::int32_t>}, {"u32", setp_lanes<std::uint32_t>},
      {"s64", setp_lanes<std::int64_t>}, {"u64", setp_lanes<std::uint64_t>},
      {"f32", setp_lanes<float>},        {"f64", setp_lanes<double>},
      {"f16", setp_lanes<F16>},          {"bf16", setp_lanes<Bf16>},
      {"f16x2", setp_pairs<F16>},        {"bf16x2", setp_pairs<Bf16>}};
  const auto it = kHandlers.find(type);
  return it == kHandlers.end() ? nullptr : it->second;
}

void setp(Decoder& d) {
  const std::string type = base_type(d.last_type());
  const auto c = compare_of(d);
  Inst in;
  in.run = setp_handler(type);
  if (!c || in.run == nullptr) d.refuse();
  // Integers know no number that is none.
  in.flags = std::uint16_t(std::uint16_t(*c) | (d.has("and")   ? 1
                                                : d.has("or")  ? 2
                                                : d.has("xor") ? 3
                                                               : 0)
                                                   << 8);
  in.a = d.read(1, type);
  in.b = d.read(2, type);
  if (in.flags >> 8) in.c = d.read_predicate(3);
  const std::string& out = d.operand(0);
  const std::size_t bar = out.find('|');
  in.d = d.write_predicate(out.substr(0, bar));
  if (bar != std::string::npos) in.e = d.write_predicate(out.substr(bar + 1));
  d.emit(in);
}

// set.C.D.T d, a, b: all ones (integers) or 1.0 where it holds. The comparison goes into a temporary predicate.
template <typename D>
void set_value(Warp& w, const Inst& in, Mask m) {
  const Mask p = predicate(w, in.a), q = in.b == kNoRef ? 0 : predicate(w, in.b);
  D* d = lanes_of<D>(w, in.d);
  const auto ones = D(in.imm), upper = D(std::uint64_t(in.imm) << 16);
  const bool pair = in.b != kNoRef;
  each_lane(m, [=](int l) { d[l] = D((p >> l & 1 ? ones : D(0)) | (pair && (q >> l & 1) ? upper : D(0))); });
}

void set(Decoder& d) {
  const std::string result = d.type(), type = base_type(d.last_type());
  const auto c = compare_of(d);
  Inst test;
  test.run = setp_handler(type);
  if (!c || test.run == nullptr) d.refuse();
  test.flags = std::uint16_t(*c);
  test.a = d.read(1, type);
  test.b = d.read(2, type);
  test.d = d.temporary(0);
  const bool pair = type_bytes(type) == 4 && type.find("x2") != std::string::npos;
  if (pair) test.e = d.temporary(0);
  if (d.has("and") || d.has("or") || d.has("xor")) d.refuse("with a third operand");
  d.emit_before(test);
  Inst in;
  in.a = test.d;
  in.b = pair ? test.e : kNoRef;
  in.imm = result == "f32"                          ? 0x3f800000
           : result == "f16" || result == "f16x2"   ? 0x3c00
           : result == "bf16" || result == "bf16x2" ? 0x3f80
           : pair                                   ? 0xffff
                                                    : -1;
  in.d = d.write(0, type_bytes(result));
  in.run = type_bytes(result) == 2   ? set_value<std::uint16_t>
           : type_bytes(result) == 4 ? set_value<std::uint32_t>
                                     : set_value<std::uint64_t>;
  d.emit(in);
}

}  // namespace

void add_compare_ops(OpTable* table) { table->insert({{"setp", setp}, {"set", set}}); }

}  // namespace zt::emulator::ptx
