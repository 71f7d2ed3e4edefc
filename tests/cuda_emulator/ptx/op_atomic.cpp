// atom and red.
#include <algorithm>
#include <type_traits>

#include "base/text.h"
#include "block.h"
#include "half.h"
#include "memory_ops.h"

namespace zt::emulator::ptx {

namespace {

enum class Atomic : std::uint8_t { add, min, max, inc, dec, and_, or_, xor_, exch, cas };

template <typename H>
struct Pair {
  H low, high;
};

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
    return round_half<T>(double(to_float(a)) + double(to_float(b)));
  else if constexpr (std::is_same_v<T, Pair<Bf16>> || std::is_same_v<T, Pair<F16>>)
    return T{sum(a.low, b.low), sum(a.high, b.high)};
  else if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  else
    return a + b;
}

template <typename T>
T apply(Atomic op, T old, T b, T c) {
  if (op == Atomic::add) return sum(old, b);
  if (op == Atomic::exch) return b;
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case Atomic::min: return std::min(old, b);
      case Atomic::max: return std::max(old, b);
      case Atomic::inc: return old >= b ? T(0) : T(old + 1);
      case Atomic::dec: return old == 0 || old > b ? b : T(old - 1);
      case Atomic::and_: return T(old & b);
      case Atomic::or_: return T(old | b);
      case Atomic::xor_: return T(old ^ b);
      case Atomic::cas: return old == b ? c : old;
      case Atomic::add:
      case Atomic::exch: break;
    }
  }
  return old;
}

enum : std::uint16_t { kAcquire = 1, kRelease = 2 };

// With a fence before it, an atomic releases what its thread knows; the next fence acquires.
void order_by_atomic(Warp& w, const Inst& in, Mask m, const std::uint64_t* address) {
  Block& block = *w.block;
  if (!block.checks()) return;
  if (w.fences != 0 || (in.flags & kRelease) != 0) {
    const BlockClocks::Snapshot snapshot = block.clocks().release(w.index, m);
    for_lanes(m,
              [&](int l) { block.launch().order.release(address[l], block.number() & 0xfffff, snapshot); });
  }
  for_lanes(m, [&](int l) {
    if ((in.flags & kAcquire) != 0) block.launch().order.acquire(address[l]);
    if (std::find(w.atomic_addresses.begin(), w.atomic_addresses.end(), address[l]) ==
        w.atomic_addresses.end())
      w.atomic_addresses.push_back(address[l]);
  });
  w.atomics_since_fence = true;
}

template <typename T>
void atomic_lanes(Warp& w, const Inst& in, Mask m) {
  Resolved r;
  resolve(w, in, m, sizeof(T), AccessKind::atomic, &r);
  const T* b = lanes_of<T>(w, in.b);
  const T* c = in.c == kNoRef ? b : lanes_of<T>(w, in.c);
  T* d = in.d == kNoRef ? nullptr : lanes_of<T>(w, in.d);
  if (in.space != Space::shared) {
    Addresses address;
    addresses_of(w, in, m, &address);
    order_by_atomic(w, in, r.fine, address.data());
  }
  for_lanes(r.fine, [&](int l) {
    T old;
    std::memcpy(&old, r.at[l], sizeof(T));
    const T changed = apply(Atomic(in.width), old, b[l], c[l]);
    std::memcpy(r.at[l], &changed, sizeof(T));
    if (d != nullptr) d[l] = old;
  });
  w.block->event();
}

// Vectors of atomics are that many single ones.
void decode(Decoder& d, bool returns) {
  static const std::map<std::string_view, Atomic> kNames{
      {"add", Atomic::add},   {"min", Atomic::min},  {"max", Atomic::max}, {"inc", Atomic::inc},
      {"dec", Atomic::dec},   {"and", Atomic::and_}, {"or", Atomic::or_},  {"xor", Atomic::xor_},
      {"exch", Atomic::exch}, {"cas", Atomic::cas}};
  static const std::map<std::string_view, Handler> kHandlers{
      {"u32", atomic_lanes<std::uint32_t>}, {"s32", atomic_lanes<std::int32_t>},
      {"u64", atomic_lanes<std::uint64_t>}, {"s64", atomic_lanes<std::int64_t>},
      {"u16", atomic_lanes<std::uint16_t>}, {"f32", atomic_lanes<float>},
      {"f64", atomic_lanes<double>},        {"f16", atomic_lanes<F16>},
      {"bf16", atomic_lanes<Bf16>},         {"f16x2", atomic_lanes<Pair<F16>>},
      {"bf16x2", atomic_lanes<Pair<Bf16>>}};
  std::string type = d.type();
  const std::string own_type = type;
  if (type[0] == 'b' && type.substr(0, 2) != "bf") type[0] = 'u';
  const auto handler = kHandlers.find(type);
  const auto op = std::find_if(d.modifiers().begin(), d.modifiers().end(),
                               [](const auto& m) { return kNames.contains(m); });
  if (handler == kHandlers.end() || op == d.modifiers().end()) d.refuse();
  Inst in;
  mention_space(d, &in);
  in.run = handler->second;
  in.width = std::uint8_t(kNames.at(*op));
  in.flags = std::uint16_t((d.has("acquire") || d.has("acq_rel") ? kAcquire : 0) |
                           (d.has("release") || d.has("acq_rel") ? kRelease : 0));
  const std::size_t at = returns ? 1 : 0;
  d.address(at, &in);
  const std::vector<std::string> values = d.elements(at + 1);
  const std::int64_t start = in.imm;
  for (std::size_t i = 0; i < values.size(); ++i) {
    in.imm = start + std::int64_t(i * type_bytes(type));
    in.b = d.read_text(values[i], own_type);
    if (kNames.at(*op) == Atomic::cas) in.c = d.read(at + 2, own_type);
    if (returns) in.d = d.write_text(d.elements(0)[i], type_bytes(type));
    d.emit(in);
  }
}

void atom(Decoder& d) { decode(d, true); }
void red(Decoder& d) {
  if (d.has("async")) d.refuse();
  decode(d, false);
}

}  // namespace

void add_atomic_ops(OpTable* table) { table->insert({{"atom", atom}, {"red", red}}); }

}  // namespace zt::emulator::ptx
