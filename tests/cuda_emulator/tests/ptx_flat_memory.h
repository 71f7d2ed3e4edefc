// Memory for tests of the interpreter alone: allocations with a shadow of initialised bytes, and a list of
// findings. A launch goes straight to the interpreter, without streams.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_emulator/ptx/interpreter.h"

namespace zt::emulator::ptx::testing {

struct Found {
  std::string kind, text, where;
};

class FlatMemory final : public GlobalMemory {
 public:
  ~FlatMemory() override {
    for (auto& [address, a] : allocations_) std::free(reinterpret_cast<void*>(address));
  }

  // Device memory, not initialised.
  std::uint64_t allocate(std::size_t bytes) {
    void* p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    std::memset(p, 0xff, bytes);
    allocations_[reinterpret_cast<std::uint64_t>(p)] = {bytes, std::vector<std::uint8_t>(bytes)};
    return reinterpret_cast<std::uint64_t>(p);
  }
  template <typename T>
  std::uint64_t upload(const std::vector<T>& values) {
    const std::uint64_t p = allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(p), values.data(), values.size() * sizeof(T));
    allocations_[p].initialised.assign(values.size() * sizeof(T), 1);
    return p;
  }
  template <typename T>
  std::vector<T> download(std::uint64_t p, std::size_t n) const {
    std::vector<T> out(n);
    std::memcpy(out.data(), reinterpret_cast<const void*>(p), n * sizeof(T));
    return out;
  }
  std::vector<Found> findings;
  std::map<std::string, std::uint64_t> variables;

  std::uint64_t place(const Variable& v) override { return variables[v.name] = upload(v.initial); }

  std::uint64_t access(std::uint64_t address, std::uint64_t bytes, AccessKind kind,
                       const Site& site) override {
    auto it = allocations_.upper_bound(address);
    if (it == allocations_.begin()) return outside(site);
    --it;
    Allocation& a = it->second;
    const std::uint64_t from = address - it->first;
    if (from >= a.bytes) return outside(site);
    const std::uint64_t exists = std::min(bytes, a.bytes - from);
    if (kind == AccessKind::write) {
      std::memset(&a.initialised[from], 1, exists);
    } else if (std::memchr(&a.initialised[from], 0, exists) != nullptr) {
      finding("uninitialised read", site.who(), site.where());
    }
    if (exists < bytes) outside(site);
    return exists;
  }

  void finding(const std::string& kind, const std::string& text, const std::string& where) override {
    findings.push_back({kind, text, where});
  }

 private:
  struct Allocation {
    std::size_t bytes = 0;
    std::vector<std::uint8_t> initialised;
  };

  std::uint64_t outside(const Site& site) {
    finding("out of bounds", site.who(), site.where());
    return 0;
  }

  std::map<std::uint64_t, Allocation> allocations_;
};

}  // namespace zt::emulator::ptx::testing
