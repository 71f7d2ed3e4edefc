#include "kernels/cpu_kernels.h"

namespace zt::kernels {

CpuKernels::CpuKernels(Dtype dtype)
    : matmuls_(make_matmul_cache(dtype)), attention_(make_attention_scratch()) {}

CpuKernels::~CpuKernels() = default;

std::unique_ptr<Kernels> make_cpu_kernels(Dtype dtype) { return std::make_unique<CpuKernels>(dtype); }

}  // namespace zt::kernels
