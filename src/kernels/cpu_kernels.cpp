#include "kernels/cpu_kernels.h"

namespace zt::kernels {

CpuKernels::CpuKernels() : matmuls_(make_matmul_cache()), attention_(make_attention_scratch()) {}

CpuKernels::~CpuKernels() = default;

std::unique_ptr<Kernels> make_cpu_kernels() { return std::make_unique<CpuKernels>(); }

}  // namespace zt::kernels
