#include "allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> held = 0, most = 0;

void* noted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const std::int64_t now = held += static_cast<std::int64_t>(malloc_usable_size(block));
  std::int64_t seen = most;
  while (seen < now && !most.compare_exchange_weak(seen, now)) {
  }
  return block;
}

void release(void* block) noexcept {
  if (block != nullptr) held -= static_cast<std::int64_t>(malloc_usable_size(block));
  std::free(block);
}

std::size_t rounded(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

void* operator new(std::size_t size) { return noted(std::malloc(size == 0 ? 1 : size)); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return noted(std::aligned_alloc(to, rounded(size == 0 ? 1 : size, to)));
}
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept {
  return operator new(size, nothrow);
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { release(block); }

namespace zt::fuzz {

Allocations::Allocations() : begin_(held) { most = begin_; }
std::int64_t Allocations::peak() const { return most - begin_; }

}  // namespace zt::fuzz
