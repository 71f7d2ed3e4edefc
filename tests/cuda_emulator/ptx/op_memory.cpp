// ld, st, and what only hints at memory: prefetch, cache policies, fences.
#include <algorithm>

#include "base/text.h"
#include "block.h"
#include "lanewise.h"
#include "memory_ops.h"

namespace zt::emulator::ptx {

void addresses_of(const Warp& w, const Inst& in, Mask m, Addresses* out) {
  if (in.wide_address) {
    const std::uint64_t* a = lanes_of<std::uint64_t>(w, in.a);
    each_lane(m, [&](int l) { (*out)[l] = a[l] + std::uint64_t(in.imm); });
  } else {
    const std::uint32_t* a = lanes_of<std::uint32_t>(w, in.a);
    each_lane(m, [&](int l) { (*out)[l] = std::uint32_t(a[l] + std::uint32_t(in.imm)); });
  }
}

void mention_space(const Decoder& d, Inst* in) {
  in->space = d.has("shared") || d.has("shared::cta") || d.has("shared::cluster") ? Space::shared
              : d.has("global") || d.has("const")                                 ? Space::global
              : d.has("local")                                                    ? Space::local
              : d.has("param") || d.has("param::entry")                           ? Space::param
                                                                                  : Space::generic;
}

namespace {

enum : std::uint16_t { kStrong = 1, kSigned = 2, kAcquire = 4, kRelease = 8 };

// Local memory is the thread's own: only its bounds are checked.
Mask allow_local(Warp& w, const Inst& in, const Addresses& offset, Mask m, std::uint32_t bytes) {
  Mask fine = m;
  for_lanes(m, [&](int l) {
    if (offset[l] + bytes <= w.block->launch().program.local_bytes) return;
    w.block->finding("out of bounds", w, l, in, cat("local byte ", offset[l]));
    fine &= ~(1u << l);
  });
  return fine;
}

void resolve_shared(Warp& w, const Inst& in, const Addresses& offset, Mask m, std::uint32_t bytes,
                    AccessKind kind, Resolved* out) {
  Block& block = *w.block;
  const Mask fine = block.allow_shared(w, in, offset.data(), m, bytes, kind);
  if (block.checks()) block.count_banks(offset.data(), fine, bytes);
  for_lanes(fine, [&](int l) { out->at[l] = block.shared() + offset[l]; });
  out->fine |= fine;
}

void resolve_global(Warp& w, const Inst& in, const Addresses& address, Mask m, std::uint32_t bytes,
                    AccessKind kind, Resolved* out) {
  const Mask fine = w.block->allow_global(w, in, address.data(), m, bytes, kind, (in.flags & kStrong) != 0);
  for_lanes(fine, [&](int l) { out->at[l] = reinterpret_cast<std::uint8_t*>(address[l]); });
  out->fine |= fine;
}

// A generic address is a host address; which memory it is in decides.
void resolve_generic(Warp& w, const Inst& in, const Addresses& address, Mask m, std::uint32_t bytes,
                     AccessKind kind, Resolved* out) {
  Block& block = *w.block;
  const auto shared = reinterpret_cast<std::uint64_t>(block.shared());
  const auto params = reinterpret_cast<std::uint64_t>(block.launch().parameters.data());
  const std::uint64_t local = reinterpret_cast<std::uint64_t>(block.local(w, 0));
  const std::uint64_t local_bytes = block.launch().program.local_bytes;
  Mask in_shared = 0, in_global = 0;
  Addresses offset{};
  for_lanes(m, [&](int l) {
    const std::uint64_t a = address[l];
    if (a - shared < block.shared_bytes() + std::uint64_t{4096}) {
      in_shared |= 1u << l;
      offset[l] = a - shared;
    } else if (a - params + bytes <= block.launch().parameters.size() ||
               a - (local + std::uint64_t(l) * local_bytes) + bytes <= local_bytes) {
      out->at[l] = reinterpret_cast<std::uint8_t*>(a);
      out->fine |= 1u << l;
    } else {
      in_global |= 1u << l;
    }
  });
  if (in_shared != 0) resolve_shared(w, in, offset, in_shared, bytes, kind, out);
  if (in_global != 0) resolve_global(w, in, address, in_global, bytes, kind, out);
}

}  // namespace

void resolve(Warp& w, const Inst& in, Mask m, std::uint32_t bytes, AccessKind kind, Resolved* out) {
  Addresses address;
  addresses_of(w, in, m, &address);
  switch (in.space) {
    case Space::shared: return resolve_shared(w, in, address, m, bytes, kind, out);
    case Space::global:
    case Space::constant: return resolve_global(w, in, address, m, bytes, kind, out);
    case Space::local: {
      out->fine = allow_local(w, in, address, m, bytes);
      for_lanes(out->fine, [&](int l) { out->at[l] = w.block->local(w, l) + address[l]; });
      return;
    }
    case Space::param: {
      const std::vector<std::byte>& params = w.block->launch().parameters;
      const auto start = reinterpret_cast<std::uint64_t>(params.data());
      for_lanes(m, [&](int l) {
        if (address[l] - start + bytes > params.size()) {
          w.block->finding("out of bounds", w, l, in, cat("parameter byte ", address[l] - start));
          return;
        }
        out->at[l] = reinterpret_cast<std::uint8_t*>(address[l]);
        out->fine |= 1u << l;
      });
      return;
    }
    case Space::generic: return resolve_generic(w, in, address, m, bytes, kind, out);
  }
}

namespace {

// Memory holds T, the register R; a lane whose access was refused gets all ones.
template <typename T, typename R>
void load(Warp& w, const Inst& in, Mask m) {
  Resolved r;
  resolve(w, in, m, std::uint32_t(sizeof(T)) * in.count, AccessKind::read, &r);
  const Ref* registers = &w.block->launch().program.lists[in.list];
  for (int i = 0; i < in.count; ++i) {
    R* d = lanes_of<R>(w, registers[i]);
    for_lanes(r.fine, [&](int l) {
      T x;
      std::memcpy(&x, r.at[l] + std::size_t(i) * sizeof(T), sizeof(T));
      d[l] = R(x);
    });
    for_lanes(m & ~r.fine, [&](int l) { d[l] = R(~R(0)); });
  }
}

template <typename T, typename R>
void store(Warp& w, const Inst& in, Mask m) {
  Resolved r;
  resolve(w, in, m, std::uint32_t(sizeof(T)) * in.count, AccessKind::write, &r);
  const Ref* registers = &w.block->launch().program.lists[in.list];
  for (int i = 0; i < in.count; ++i) {
    const R* a = lanes_of<R>(w, registers[i]);
    for_lanes(r.fine, [&](int l) {
      const T x = T(a[l]);
      std::memcpy(r.at[l] + std::size_t(i) * sizeof(T), &x, sizeof(T));
    });
  }
}

template <typename T>
Handler load_into(std::uint32_t register_bytes) {
  using Sign16 = std::conditional_t<std::is_signed_v<T>, std::int16_t, std::uint16_t>;
  using Sign32 = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
  using Sign64 = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  return register_bytes == 2 ? load<T, Sign16> : register_bytes == 4 ? load<T, Sign32> : load<T, Sign64>;
}

Handler load_handler(std::uint32_t bytes, bool sign, std::uint32_t register_bytes) {
  switch (bytes) {
    case 1: return sign ? load_into<std::int8_t>(register_bytes) : load_into<std::uint8_t>(register_bytes);
    case 2: return sign ? load_into<std::int16_t>(register_bytes) : load_into<std::uint16_t>(register_bytes);
    case 4: return sign ? load_into<std::int32_t>(register_bytes) : load_into<std::uint32_t>(register_bytes);
    default: return load<std::uint64_t, std::uint64_t>;
  }
}

template <typename T>
Handler store_from(std::uint32_t register_bytes) {
  return register_bytes == 2   ? store<T, std::uint16_t>
         : register_bytes == 4 ? store<T, std::uint32_t>
                               : store<T, std::uint64_t>;
}

Handler store_handler(std::uint32_t bytes, std::uint32_t register_bytes) {
  switch (bytes) {
    case 1: return store_from<std::uint8_t>(register_bytes);
    case 2: return store_from<std::uint16_t>(register_bytes);
    case 4: return store_from<std::uint32_t>(register_bytes);
    default: return store<std::uint64_t, std::uint64_t>;
  }
}

std::uint16_t memory_flags(const Decoder& d) {
  const bool strong = d.has("relaxed") || d.has("acquire") || d.has("release");
  return std::uint16_t((strong ? kStrong : 0) | (d.has("acquire") ? kAcquire : 0) |
                       (d.has("release") ? kRelease : 0));
}

// A parameter at a known place is a constant of the launch.
void load_parameter(Decoder& d, const Inst& where, const std::vector<std::string>& out,
                    const std::string& type) {
  const std::uint32_t bytes = type_bytes(type);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (d.ignored(out[i])) continue;
    const std::uint32_t width = d.declared_bytes(out[i]);
    if (width == 0) d.refuse(cat("unknown register ", out[i]));
    Inst in;
    in.a =
        d.parameter_value(std::uint32_t(where.imm) + std::uint32_t(i) * bytes, bytes, width, type[0] == 's');
    in.d = d.write_text(out[i], width);
    in.run = width == 2   ? unary<std::uint16_t, std::uint16_t, [](std::uint16_t x) { return x; }>
             : width == 4 ? unary<std::uint32_t, std::uint32_t, [](std::uint32_t x) { return x; }>
                          : unary<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x; }>;
    d.emit(in);
  }
}

// Registers of a vector may be named "_" or hold more bits than memory; all have one width.
void ld(Decoder& d) {
  const std::string type = d.type();
  const std::uint32_t bytes = type_bytes(type);
  if (bytes == 0 || bytes > 8) d.refuse();
  Inst in;
  mention_space(d, &in);
  const std::vector<std::string> out = d.elements(0);
  d.address(1, &in);
  const std::string& place = d.operand(1);
  if (in.space == Space::param && d.parameter(trim(place.substr(1, place.find_first_of("+]") - 1))))
    return load_parameter(d, in, out, type);
  in.flags = memory_flags(d);
  in.count = std::uint16_t(out.size());
  std::uint32_t width = 0;
  for (const std::string& o : out) width = std::max(width, d.declared_bytes(o));
  if (width < std::min(bytes, 2u)) d.refuse("no register to load into");
  std::vector<Ref> registers;
  for (const std::string& o : out) {
    if (!d.ignored(o) && d.declared_bytes(o) != width) d.refuse("registers of different widths");
    registers.push_back(d.write_text(o, width));
  }
  in.list = d.add_list(registers);
  in.run = load_handler(bytes, type[0] == 's', width);
  d.emit(in);
  if (in.flags & kAcquire) d.emit_after(fence_inst());
}

void st(Decoder& d) {
  const std::string type = d.type();
  const std::uint32_t bytes = type_bytes(type);
  if (bytes == 0 || bytes > 8) d.refuse();
  Inst in;
  mention_space(d, &in);
  if (in.space == Space::param) d.refuse("a call");
  d.address(0, &in);
  in.flags = memory_flags(d);
  const std::vector<std::string> from = d.elements(1);
  in.count = std::uint16_t(from.size());
  std::uint32_t width = 0;
  for (const std::string& f : from) width = std::max(width, d.declared_bytes(f));
  width = std::max({width, bytes, 2u});
  std::vector<Ref> registers;
  for (const std::string& f : from) {
    const std::uint32_t declared = d.declared_bytes(f);
    if (declared != 0 && declared != width) d.refuse("registers of different widths");
    registers.push_back(
        d.read_text(f, declared == 0 && (type == "f32" || type == "f64") ? type : cat("b", width * 8)));
  }
  in.list = d.add_list(registers);
  in.run = store_handler(bytes, width);
  if (in.flags & kRelease) {
    Inst fence = fence_inst();
    d.emit_before(fence);
  }
  d.emit(in);
}

// A memory fence orders this thread's atomics with what it did before and does after, between blocks too.
void fence(Warp& w, const Inst&, Mask) {
  ++w.fences;
  if (!w.atomics_since_fence) return;
  for (const std::uint64_t address : w.atomic_addresses) w.block->launch().order.acquire(address);
  w.atomic_addresses.clear();
  w.atomics_since_fence = false;
}

void proxy_fence(Warp& w, const Inst&, Mask) { w.block->proxy_fence(w); }

void publish_mbarriers(Warp& w, const Inst&, Mask m) { w.block->publish_mbarriers(w, m); }

void nothing(Warp&, const Inst&, Mask) {}

void decode_fence(Decoder& d) {
  Inst in;
  const bool cta = d.has("cta");
  in.run = d.has("proxy")           ? (d.has("async") || d.has("async::generic") ? proxy_fence : nothing)
           : d.has("mbarrier_init") ? publish_mbarriers
           : cta                    ? nothing
                                    : fence;
  for (const std::string& m : d.modifiers()) {
    if (starts_with(m, "async")) in.run = proxy_fence;
  }
  d.emit(in);
}

void hint(Decoder& d) {
  Inst in;
  in.run = nothing;
  d.emit(in);
}

// A cache policy is a number nobody looks at.
void createpolicy(Decoder& d) {
  Inst in;
  in.run = unary<std::uint64_t, std::uint64_t, [](std::uint64_t x) { return x; }>;
  in.a = d.constant(0, 8);
  in.d = d.write(0, 8);
  d.emit(in);
}

}  // namespace

Inst fence_inst() {
  Inst in;
  in.run = fence;
  return in;
}

void add_memory_ops(OpTable* table) {
  table->insert({{"ld", ld},
                 {"ldu", ld},
                 {"st", st},
                 {"membar", decode_fence},
                 {"fence", decode_fence},
                 {"prefetch", hint},
                 {"prefetchu", hint},
                 {"applypriority", hint},
                 {"discard", hint},
                 {"createpolicy", createpolicy},
                 {"nanosleep", hint},
                 {"setmaxnreg", hint},
                 {"pmevent", hint}});
}

}  // namespace zt::emulator::ptx
