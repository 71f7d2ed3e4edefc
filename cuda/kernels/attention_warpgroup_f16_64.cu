#include "kernels/attention_warpgroup.cuh"

namespace zt::kernels {
template void launch_attention_warpgroups<__half, 64>(const AttentionCall&, cudaStream_t);
}  // namespace zt::kernels
