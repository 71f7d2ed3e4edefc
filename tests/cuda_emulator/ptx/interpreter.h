// Executes the PTX that nvcc embedded in an object file, a warp at a time, and reports races, missing waits
// and misused memory.
//
// Source: NVIDIA, "Parallel Thread Execution ISA", version 9.0.
// Blocks run one after another; the warps of a block take turns. Whatever the hardware may do late is done as
// late as allowed: `cp.async` data lands at its wait, bulk copies when nothing else can run, `wgmma` reads
// shared memory at its wait. Only barriers, `__syncwarp`, mbarriers and (between blocks) fenced atomics order
// accesses; two unordered accesses are a finding whatever order really ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "global_memory.h"

namespace zt::emulator::ptx {

struct Dim {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// In which order blocks and warps get their turns.
enum class Order { forward, reverse, random };

// One kernel parameter: its place in the bytes that a launch passes.
struct Parameter {
  std::uint32_t offset = 0, bytes = 0;
};

// What a kernel says of itself in the module's text.
struct KernelInfo {
  std::string name;  // mangled
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t max_threads = 0;  // `.maxntid` or `.reqntid`; 0 = not said
  std::uint32_t static_shared_bytes = 0;
};

struct Launch {
  std::string kernel;  // mangled
  Dim grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  // `parameter_bytes` long
  std::uint64_t seed = 1;
  Order order = Order::random;
  bool check = true;  // look for races and count memory passes
};

// What a launch did. The counts of memory are made only with checks on.
struct Counters {
  std::uint64_t warp_instructions = 0;
  std::uint64_t mma = 0;            // warp-wide mma and wgmma instructions
  std::uint64_t bank_extra = 0;     // shared-memory passes beyond the least possible
  std::uint64_t sectors = 0;        // 32-byte sectors of global memory touched, by warp instruction
  std::uint64_t sectors_least = 0;  // the same, had lanes been adjacent
  Counters& operator+=(const Counters& o);
};

// One module on one device. Kernels are decoded when first launched, so an instruction that the interpreter
// does not know stops the test (zt::Error with file and line) only if its kernel runs. Launches of one module
// must not overlap in time; different modules may run in different threads.
class Module {
 public:
  // `text` starts at ".version". Places the module's variables in `memory`, which must outlive the module.
  Module(std::string_view text, GlobalMemory& memory);
  ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  std::vector<std::string> kernels() const;
  // Throws zt::Error when there is no such kernel.
  const KernelInfo& info(const std::string& kernel) const;

  Counters run(const Launch& launch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zt::emulator::ptx
