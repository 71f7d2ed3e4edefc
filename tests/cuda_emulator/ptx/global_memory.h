// What the interpreter needs of the memory that kernels see outside their block.
//
// A device address is a host address: the interpreter loads and stores through it once the access was
// allowed. Races between threads of one launch are the interpreter's to find. Everything that needs more than
// one launch is found behind this interface: bounds, lifetime, initialisation, order between streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zt::emulator::ptx {

enum class AccessKind : std::uint8_t { read, write, atomic };

// A thread at an instruction. Texts are made only when a finding asks for them.
class Site {
 public:
  virtual ~Site() = default;
  virtual std::string who() const = 0;    // "rmsnorm_forward block 3 thread 17"
  virtual std::string where() const = 0;  // "norm.cu:41 from norm.cu:77"
};

// A module's `.global` or `.const` variable.
struct Variable {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t align = 1;
  bool constant = false;           // `.const`: kernels only read it
  std::vector<std::byte> initial;  // `bytes` long; all zeros when the text has no initialiser
};

class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;

  // Gives a variable its place and its initial bytes; returns its address. Called once for each variable, by
  // the Module's constructor.
  virtual std::uint64_t place(const Variable& variable) = 0;

  // The launch that runs now is about to touch [address, address + bytes). Adjacent accesses of a warp's
  // lanes arrive as one range. May be called only once for accesses of the same kind to the same bytes in a
  // launch (a read after the launch's own write needs no call). Reports what is wrong with it as a finding,
  // and returns how many bytes from `address` on exist: all of them unless the range leaves an allocation or
  // meets freed or foreign memory. Bytes beyond are not touched.
  virtual std::uint64_t access(std::uint64_t address, std::uint64_t bytes, AccessKind kind,
                               const Site& site) = 0;

  // Takes a finding of the interpreter. `kind` is a name such as "shared race", `text` says who and what.
  virtual void finding(const std::string& kind, const std::string& text, const std::string& where) = 0;
};

}  // namespace zt::emulator::ptx
