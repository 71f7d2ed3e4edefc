// What a test says to the emulated GPU, and what it asks of it.
//
// The emulator is a shared library (target ztemu) that stands in at link time for libcudart, libcublasLt and libnccl. It
// runs the PTX that nvcc embedded in our objects, keeps a happens-before order of everything enqueued, and reports whatever
// that order does not allow, whatever order really ran. A test passes only if take_findings() is empty at its end.
//
// The environment sets the same as configure() for programs that do not call it: ZEROTRAIN_EMULATOR_SEED (a number),
// _POLICY (lazy, eager, random), _ORDER (forward, reverse, random), _CHECK (0, 1), _HOLD_MS (how long a wait may make no
// progress before it is a deadlock), _DEVICES (devices shown), _MEMORY_MIB (of each), _VERBOSE (1:
// every op as it runs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zt::emulator {

// Kinds: "shared race", "global race", "stream race", "uninitialised read", "out of bounds", "misaligned", "use after free",
// "free before last use", "bad free", "bad address in kernel", "host touches device memory", "wrong device",
// "divergent barrier", "warp collective", "cp.async", "mbarrier", "wgmma", "kernel deadlock", "stream deadlock",
// "collective mismatch", "memcpy kind", "default stream", "blocking stream", "destroyed stream", "event", "launch",
// "cublasLt", "nccl".
struct Finding {
  std::string kind;
  std::string text;   // who did what to which memory, against whom
  std::string where;  // "norm.cu:12" or "norm.cu:12 from norm.cu:40"; of an op that is no kernel, its name
};

// All findings since the last call, of every device of this process; a place that errs many times is reported once.
std::vector<Finding> take_findings();
// One a line, for a test's message: "kind: text (where)".
std::string to_string(const std::vector<Finding>& findings);

// When enqueued work runs: as late as a wait allows, at once, or by a coin an op.
enum class Policy : std::uint8_t { lazy, eager, random };
// In what order blocks and warps take turns.
enum class Order : std::uint8_t { forward, reverse, random };

// Holds for everything enqueued afterwards. Without `check` only results tell (faster: for measuring).
void configure(std::uint64_t seed, Policy policy, Order order, bool check = true);
// Bytes that each device can hand out from now on; more is cudaErrorMemoryAllocation.
void set_device_memory(std::size_t bytes);
// How long a wait may make no progress before it is reported as a deadlock.
void set_patience_ms(int milliseconds);

// Of all launches of a kernel since reset_counters(); `kernel` is its name without namespace, arguments and parameters
// ("rms_norm_forward"), so instantiations of a template add up.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t warp_instructions = 0;
  std::uint64_t mma = 0;            // mma.sync and wgmma instructions
  std::uint64_t bank_extra = 0;     // shared-memory passes beyond the one that each instruction needs
  std::uint64_t sectors = 0;        // 32-byte sectors of global memory that were touched
  std::uint64_t sectors_least = 0;  // as many as the same bytes side by side would have needed
};
Counters counters(const std::string& kernel);
void reset_counters();

// One call of cudaStreamWaitEvent. A wait that orders nothing new (`needed` is false) may be dropped without harm.
struct Wait {
  std::string place;  // "stream.cpp:30 from executor.cpp:88"
  bool needed = false;
};
// All waits on streams of a device since configure().
std::vector<Wait> waits(int device);
// The wait of that number (from 0, counted a device since configure()) will do nothing; -1: none. A test proves with it
// that every wait of a program is needed, and that a missing one is reported.
void forget_wait(int device, std::int64_t number);

}  // namespace zt::emulator
