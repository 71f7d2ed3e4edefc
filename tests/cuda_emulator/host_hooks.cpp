// What the host's own code does to pinned and device memory.
//
// Sources compiled with -fsanitize=thread call these for each load and store; ThreadSanitizer itself is not linked. Block
// functions of libc are caught with the linker's --wrap in the test program, so the emulator's own calls are not.
#include <cstdint>
#include <cstring>

#include "cuda_emulator/memory.h"

namespace {

using zt::emulator::host_touches;
using Kind = zt::emulator::ptx::AccessKind;

}  // namespace

#define ZT_CALLER __builtin_return_address(0)

#define ZT_ACCESSES(bytes)                                                                               \
  void __tsan_read##bytes(void* p) { host_touches(p, bytes, Kind::read, ZT_CALLER); }                    \
  void __tsan_write##bytes(void* p) { host_touches(p, bytes, Kind::write, ZT_CALLER); }                  \
  void __tsan_unaligned_read##bytes(void* p) { host_touches(p, bytes, Kind::read, ZT_CALLER); }          \
  void __tsan_unaligned_write##bytes(void* p) { host_touches(p, bytes, Kind::write, ZT_CALLER); }        \
  void __tsan_volatile_read##bytes(void* p) { host_touches(p, bytes, Kind::read, ZT_CALLER); }           \
  void __tsan_volatile_write##bytes(void* p) { host_touches(p, bytes, Kind::write, ZT_CALLER); }         \
  void __tsan_unaligned_volatile_read##bytes(void* p) { host_touches(p, bytes, Kind::read, ZT_CALLER); } \
  void __tsan_unaligned_volatile_write##bytes(void* p) { host_touches(p, bytes, Kind::write, ZT_CALLER); }

// Atomics of host code order its own threads; the emulator sees one host, so they are plain operations to it.
#define ZT_ATOMICS(T, bits)                                                                               \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                                             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_and(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_or(volatile T* p, T v, int) {                                             \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_xor(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int, int) {                 \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int, int) {                   \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

ZT_ACCESSES(1)
ZT_ACCESSES(2)
ZT_ACCESSES(4)
ZT_ACCESSES(8)
ZT_ACCESSES(16)

void __tsan_read_range(void* p, std::size_t bytes) { host_touches(p, bytes, Kind::read, ZT_CALLER); }
void __tsan_write_range(void* p, std::size_t bytes) { host_touches(p, bytes, Kind::write, ZT_CALLER); }

ZT_ATOMICS(std::uint8_t, 8)
ZT_ATOMICS(std::uint16_t, 16)
ZT_ATOMICS(std::uint32_t, 32)
ZT_ATOMICS(std::uint64_t, 64)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  host_touches(from, bytes, Kind::read, ZT_CALLER);
  host_touches(to, bytes, Kind::write, ZT_CALLER);
  return std::memcpy(to, from, bytes);
}

void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  host_touches(from, bytes, Kind::read, ZT_CALLER);
  host_touches(to, bytes, Kind::write, ZT_CALLER);
  return std::memmove(to, from, bytes);
}

void* __wrap_memset(void* to, int value, std::size_t bytes) {
  host_touches(to, bytes, Kind::write, ZT_CALLER);
  return std::memset(to, value, bytes);
}
}
