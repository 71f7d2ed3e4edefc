#include "cuda_emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "cuda_emulator/emulator.h"
#include "cuda_emulator/findings.h"
#include "cuda_emulator/settings.h"

namespace zt::emulator {
namespace {

using ptx::AccessKind;

constexpr int kDevices = 16;
constexpr std::size_t kSpan = std::size_t{32}
                              << 30;  // addresses of one device; touched pages alone cost memory
constexpr std::size_t kGranule = 2;
constexpr std::size_t kRedZone = 512;  // behind every allocation, so that overruns meet nothing
constexpr std::uint8_t kFresh = 0xff;  // NaN in every floating type
constexpr std::uint8_t kFreed = 0xfd;
constexpr std::uint32_t kAtomic = 0x80000000U;

// Where the region of all devices begins; null until memory is first asked for.
std::atomic<std::uint8_t*> region{nullptr};

template <typename T>
T* reserve(std::size_t count) {
  void* p = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) stop(cat("no ", count * sizeof(T), " bytes of address space to be had"), "");
  return static_cast<T*>(p);
}

std::uint8_t* region_of(int device) {
  static std::uint8_t* const base = reserve<std::uint8_t>(kDevices * kSpan);
  region = base;
  return base + device * kSpan;
}

std::array<std::atomic<Memory*>, kDevices> memories{};

std::uint32_t id_of(std::uint32_t writer) { return writer & ~kAtomic; }

}  // namespace

std::size_t device_memory_limit() { return settings().device_memory; }
void set_device_memory(std::size_t bytes) { settings().device_memory = bytes; }

struct Memory::Request {
  const void* address;
  std::size_t bytes;
  AccessKind kind;
  const Op& op;
  const ptx::Site& site;
  bool must_be_initialised;
  bool reported = false;  // one finding an access is enough
  std::uint32_t mark() const { return op.id | (kind == AccessKind::atomic ? kAtomic : 0); }
  const char* verb() const { return kind == AccessKind::read ? "reads" : "writes"; }
};

Memory::Memory(int device)
    : device_(device),
      base_(region_of(device)),
      cells_(reserve<Cell>(kSpan / kGranule)),
      states_(reserve<State>(kSpan / kGranule)),
      top_(1 << 16) {
  memories[device] = this;
}

Memory* Memory::of(const void* address) {
  const std::uint8_t* base = region.load(std::memory_order_relaxed);
  const auto* p = static_cast<const std::uint8_t*>(address);
  if (base == nullptr || p < base || p >= base + kDevices * kSpan) return nullptr;
  return memories[static_cast<std::size_t>(p - base) / kSpan];
}

std::size_t Memory::granule(const void* address) const {
  return static_cast<std::size_t>(static_cast<const std::uint8_t*>(address) - base_) / kGranule;
}

std::uint8_t* Memory::take(std::size_t bytes, std::size_t align, Allocation allocation, State state) {
  const std::lock_guard lock(mutex_);
  const std::size_t at = (top_ + align - 1) / align * align;
  if (at + bytes + kRedZone > kSpan)
    stop("the device's addresses are used up (freed ones are not handed out again): split this test", "");
  top_ = at + bytes + kRedZone;
  allocation.number = static_cast<int>(allocations_.size()) + 1;
  allocations_[at] = std::move(allocation);
  std::memset(base_ + at, kFresh, bytes);
  std::memset(states_ + at / kGranule, static_cast<int>(state), (bytes + kGranule - 1) / kGranule);
  return base_ + at;
}

void* Memory::allocate(std::size_t bytes, Place place, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (place == Place::device) {
    if (used_ + bytes > device_memory_limit()) return nullptr;
    used_ += bytes;
  }
  return take(bytes, 512, {bytes, place, true, 0, name, CallStack::here()}, State::uninitialised);
}

void Memory::born(const void* start, const Op& op) {
  const std::lock_guard lock(mutex_);
  const std::size_t begin = granule(start);
  const std::size_t count = (find(start)->bytes + kGranule - 1) / kGranule;
  std::fill_n(cells_ + begin, count, Cell{op.id, {0, 0}});
}

void Memory::check_release(const void* start, const Op& op) {
  const std::lock_guard lock(mutex_);
  const Allocation* a = find(start);
  if (a == nullptr || !a->live || !settings().check) return;
  const std::size_t begin = granule(start);
  const std::size_t end = begin + (a->bytes + kGranule - 1) / kGranule;
  for (std::size_t g = begin; g < end; ++g) {
    const Cell& c = cells_[g];
    for (const std::uint32_t other : {id_of(c.writer), c.readers[0], c.readers[1]}) {
      if (ordered(other, op)) continue;
      const Op& busy = op_of(other);
      report("free before last use",
             cat(op.name, " ends ", describe(base_ + g * kGranule), " while ", busy.name, " on stream ",
                 busy.component, " may still use it"),
             CallStack::here().text());
      return;
    }
  }
}

void Memory::release(void* start, const Op& op) {
  const std::lock_guard lock(mutex_);
  const auto at = allocations_.find(static_cast<std::size_t>(static_cast<std::uint8_t*>(start) - base_));
  if (at == allocations_.end() || !at->second.live) {
    report("bad free", cat(op.name, ": ", start, " is not the start of a live allocation"),
           CallStack::here().text());
    return;
  }
  Allocation& a = at->second;
  a.live = false;
  if (a.place == Place::device) used_ -= a.bytes;
  std::memset(start, kFreed, a.bytes);
  std::fill_n(states_ + granule(start), (a.bytes + kGranule - 1) / kGranule, State::freed);
}

const Allocation* Memory::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::size_t>(static_cast<const std::uint8_t*>(address) - base_);
  auto at = allocations_.upper_bound(offset);
  if (at == allocations_.begin()) return nullptr;
  --at;
  return offset < at->first + std::max<std::size_t>(at->second.bytes, 1) ? &at->second : nullptr;
}

std::string Memory::describe(const void* address) const {
  const auto offset = static_cast<std::size_t>(static_cast<const std::uint8_t*>(address) - base_);
  auto at = allocations_.upper_bound(offset);
  if (at == allocations_.begin()) return "no allocation";
  --at;
  const Allocation& a = at->second;
  return cat("byte ", offset - at->first, " of ", a.bytes, " of allocation ", a.number, " (", a.name,
             a.place == Place::pinned ? ", pinned" : "", " at ", a.made_by.text(), ")");
}

bool Memory::touch(const void* address, std::size_t bytes, AccessKind kind, const Op& op,
                   const ptx::Site& site) {
  Request request{address, bytes, kind, op, site, true};
  const std::lock_guard lock(mutex_);
  if (op.device != device_) {
    report("wrong device",
           cat(site.who(), " of device ", op.device, " ", request.verb(), " ", describe(address),
               " of device ", device_),
           site.where());
    return true;
  }
  // What fills pinned memory may be a library that was not instrumented (a file being read).
  const Allocation* a = find(address);
  request.must_be_initialised = a == nullptr || a->place == Place::device;
  const std::size_t end = granule(static_cast<const std::uint8_t*>(address) + bytes + kGranule - 1);
  return visit_range(&request, granule(address), end) == end;
}

std::uint64_t Memory::access(std::uint64_t address, std::uint64_t bytes, AccessKind kind,
                             const ptx::Site& site) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(address);
  const Op& op = *current_op();
  Memory* owner = of(p);
  if (owner == nullptr) {
    report("bad address in kernel",
           fmt::format("{} {} {} bytes at {:#x}, which is no device memory", site.who(),
                       kind == AccessKind::read ? "reads" : "writes", bytes, address),
           site.where());
    return 0;
  }
  if (owner != this) {
    owner->touch(p, bytes, kind, op, site);
    return 0;
  }
  Request request{p, bytes, kind, op, site, true};
  const std::lock_guard lock(mutex_);
  const std::size_t begin = granule(p);
  const std::size_t end = granule(p + bytes + kGranule - 1);
  const std::size_t reached = visit_range(&request, begin, end);
  if (reached == end) return bytes;
  return reached == begin ? 0 : reached * kGranule - static_cast<std::size_t>(p - base_);
}

// Returns the first granule that does not exist, or `end`. Neighbours mostly have the same history, so what the visit of one
// made of it holds for the next.
std::size_t Memory::visit_range(Request* request, std::size_t begin, std::size_t end) {
  Cell before, after;
  State state_before = State::none, state_after = State::none;
  for (std::size_t g = begin; g < end; ++g) {
    Cell& cell = cells_[g];
    State& state = states_[g];
    if (state != State::none && state == state_before && cell == before) {
      cell = after;
      state = state_after;
      continue;
    }
    before = cell;
    state_before = state;
    if (!visit(request, g)) return g;
    after = cell;
    state_after = state;
  }
  return end;
}

// False if the granule does not exist.
bool Memory::visit(Request* request, std::size_t g) {
  State& state = states_[g];
  if (state == State::none || state == State::freed) {
    report_missing(request, state);
    return false;
  }
  if (!settings().check) {
    if (request->kind != AccessKind::read) state = State::initialised;
    return true;
  }
  if (request->kind == AccessKind::read)
    visit_read(request, &cells_[g], &state);
  else
    visit_write(request, &cells_[g], &state);
  return true;
}

void Memory::visit_write(Request* request, Cell* cell, State* state) {
  const bool atomic = request->kind == AccessKind::atomic;
  const bool both_atomic = atomic && (cell->writer & kAtomic) != 0;
  if (atomic && *state == State::uninitialised && !request->reported) {
    request->reported = true;
    report("uninitialised read",
           cat(request->site.who(), " adds to ", describe(base_ + (state - states_) * kGranule)),
           request->site.where());
  }
  if (!both_atomic && !ordered(id_of(cell->writer), request->op))
    race(request, id_of(cell->writer), "writes");
  for (const std::uint32_t reader : cell->readers)
    if (!ordered(reader, request->op)) race(request, reader, "reads");
  *cell = {request->mark(), {0, 0}};
  *state = State::initialised;
}

void Memory::visit_read(Request* request, Cell* cell, State* state) {
  if (*state == State::uninitialised && request->must_be_initialised && !request->reported) {
    request->reported = true;
    report("uninitialised read",
           cat(request->site.who(), " reads ", describe(base_ + (state - states_) * kGranule)),
           request->site.where());
  }
  if (!ordered(id_of(cell->writer), request->op)) race(request, id_of(cell->writer), "writes");
  const std::uint32_t me = request->op.id;
  std::uint32_t* r = cell->readers;
  if (r[0] == me) return;
  if (ordered(r[0], request->op)) {
    r[0] = me;
    if (r[1] == me || ordered(r[1], request->op)) r[1] = 0;
  } else if (r[1] != me) {
    r[1] = me;
  }
}

bool Memory::ordered(std::uint32_t earlier, const Op& later) {
  if (earlier == 0 || earlier == later.id) return true;
  Answer& known = answers_[earlier % answers_.size()];
  if (known.earlier != earlier || known.later != later.id)
    known = {earlier, later.id, happens_before(earlier, later)};
  return known.yes;
}

void Memory::race(Request* request, std::uint32_t other, const char* other_did) {
  if (std::exchange(request->reported, true)) return;
  const auto on = [](const Op& op) {
    return op.component == 0 ? std::string() : cat(" on stream ", op.component);
  };
  const Op& o = op_of(other);
  report("stream race",
         cat(request->site.who(), on(request->op), " ", request->verb(), " ", describe(request->address),
             ", ", o.name, on(o), " ", other_did, " it, and nothing orders the two"),
         request->site.where());
}

void Memory::report_missing(Request* request, State state) {
  report(state == State::freed ? "use after free" : "out of bounds",
         cat(request->site.who(), " ", request->verb(), " ", request->bytes, " bytes, ",
             state == State::freed ? "freed: " : "the nearest before: ", describe(request->address)),
         request->site.where());
}

std::uint64_t Memory::place(const ptx::Variable& variable) {
  Allocation a{variable.bytes, Place::device, true, 0, variable.name, {}};
  std::uint8_t* at = take(variable.bytes, std::max<std::size_t>(variable.align, 256), a, State::initialised);
  std::memcpy(at, variable.initial.data(), variable.initial.size());
  return reinterpret_cast<std::uint64_t>(at);
}

void Memory::finding(const std::string& kind, const std::string& text, const std::string& where) {
  report(kind, text, where);
}

namespace {

bool op_touches(const void* address, std::size_t bytes, AccessKind kind) {
  Memory* memory = Memory::of(address);
  if (memory == nullptr || bytes == 0) return true;
  const Op& op = *current_op();
  return memory->touch(address, bytes, kind, op, OpSite(op));
}

}  // namespace

bool op_reads(const void* address, std::size_t bytes) { return op_touches(address, bytes, AccessKind::read); }
bool op_writes(const void* address, std::size_t bytes) {
  return op_touches(address, bytes, AccessKind::write);
}

}  // namespace zt::emulator
