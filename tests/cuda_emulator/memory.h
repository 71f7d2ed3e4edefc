// Device and pinned memory of one emulated device, with a shadow that knows of every two bytes who wrote them last, who
// read them since, and whether they exist and hold anything.
//
// Addresses are real ones of this process, so a kernel's pointer is loaded from as it is. Memory is filled with NaN patterns
// when it is allocated, with others when it is freed, and its addresses are never handed out again.
//
// An access that the declared order (history.h) does not put after an earlier conflicting one is a finding. Per granule the
// last writer and two readers are remembered: a reader replaces those that happen before it, so with up to two unordered
// readers nothing is missed. Ops that touch the two bytes of one granule count as touching the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "cuda_emulator/history.h"
#include "cuda_emulator/ptx/global_memory.h"
#include "cuda_emulator/source_line.h"

namespace zt::emulator {

enum class Place : std::uint8_t { device, pinned };

struct Allocation {
  std::size_t bytes = 0;
  Place place = Place::device;
  bool live = true;
  int number = 0;
  std::string name;  // "cudaMalloc"; a variable's name
  CallStack made_by;
};

class Memory final : public ptx::GlobalMemory {
 public:
  explicit Memory(int device);

  // The memory that an address lies in; none for ordinary host memory.
  static Memory* of(const void* address);

  // nullptr if the device's limit does not allow it.
  void* allocate(std::size_t bytes, Place place, const std::string& name);
  // The allocation exists from `op` on: others must come after it.
  void born(const void* start, const Op& op);
  // A finding if something that nothing orders before `op` may still use the allocation.
  void check_release(const void* start, const Op& op);
  // Ends an allocation; a finding if it is none that lives.
  void release(void* start, const Op& op);

  // Nothing if no allocation, living or freed, lies at the address.
  const Allocation* find(const void* address) const;
  int device() const { return device_; }
  std::size_t used() const { return used_; }

  // `bytes` from `address` on are touched by an op that is no kernel; false if they do not all exist.
  bool touch(const void* address, std::size_t bytes, ptx::AccessKind kind, const Op& op,
             const ptx::Site& site);

  // ptx::GlobalMemory, in the name of current_op().
  std::uint64_t place(const ptx::Variable& variable) override;
  std::uint64_t access(std::uint64_t address, std::uint64_t bytes, ptx::AccessKind kind,
                       const ptx::Site& site) override;
  void finding(const std::string& kind, const std::string& text, const std::string& where) override;

 private:
  enum class State : std::uint8_t { none, uninitialised, initialised, freed };
  struct Cell {
    std::uint32_t writer = 0;  // the op's id; the highest bit says that it wrote by atomics
    std::uint32_t readers[2] = {0, 0};
    bool operator==(const Cell&) const = default;
  };
  struct Request;  // one access, as the granules see it

  std::uint8_t* take(std::size_t bytes, std::size_t align, Allocation allocation, State state);
  std::size_t granule(const void* address) const;
  std::size_t visit_range(Request* request, std::size_t begin, std::size_t end);
  bool visit(Request* request, std::size_t granule);
  void visit_write(Request* request, Cell* cell, State* state);
  void visit_read(Request* request, Cell* cell, State* state);
  bool ordered(std::uint32_t earlier, const Op& later);
  void race(Request* request, std::uint32_t other, const char* other_did);
  void report_missing(Request* request, State state);
  std::string describe(const void* address) const;

  int device_;
  std::uint8_t* base_;
  Cell* cells_ = nullptr;
  State* states_ = nullptr;
  std::size_t top_;
  std::size_t used_ = 0;
  std::map<std::size_t, Allocation> allocations_;  // by offset from base_
  mutable std::recursive_mutex mutex_;
  // The last questions of order: most granules of an access ask the same.
  struct Answer {
    std::uint32_t earlier = 0, later = 0;
    bool yes = false;
  };
  std::array<Answer, 64> answers_{};
};

// What each device can hand out.
std::size_t device_memory_limit();

// An op that is no kernel, as the subject of a finding.
class OpSite final : public ptx::Site {
 public:
  explicit OpSite(const Op& op) : op_(op) {}
  std::string who() const override { return op_.name; }
  std::string where() const override { return ""; }

 private:
  const Op& op_;
};

// For work that runs now: true if the bytes may be used. Ordinary host memory always may.
bool op_reads(const void* address, std::size_t bytes);
bool op_writes(const void* address, std::size_t bytes);

// Host code at a return address touches memory; ordinary host memory is none of our business.
void host_touches(const void* address, std::size_t bytes, ptx::AccessKind kind, const void* return_address);

}  // namespace zt::emulator
