// Kernels of the objects that nvcc made, as the runtime knows them: by the address of their host stub.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_emulator/device.h"
#include "cuda_emulator/ptx/interpreter.h"

namespace zt::emulator {

// The PTX of one object file, and what each device made of it.
class FatBinary {
 public:
  // `wrapper` is what nvcc hands to __cudaRegisterFatBinary. Stops unless it holds exactly one PTX text of CUDA 13.0.
  explicit FatBinary(const void* wrapper);
  ptx::Module& on(Device& device);

 private:
  std::string text_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ptx::Module>> modules_;
};

struct Kernel {
  FatBinary* binary = nullptr;
  std::string mangled;
  std::string name;          // for people: "flash_forward<64>"
  int allowed_dynamic = -1;  // what cudaFuncSetAttribute allowed; -1: never asked
};

void add_kernel(const void* stub, FatBinary* binary, const std::string& mangled);
// Stops if nothing was registered for the address.
Kernel& kernel_of(const void* stub);

// "rms_norm_forward" of "void zt::cuda::(anonymous namespace)::rms_norm_forward<64>(Arguments)".
std::string bare_name(const std::string& demangled);
void count(const std::string& kernel, const ptx::Counters& counters);

}  // namespace zt::emulator
