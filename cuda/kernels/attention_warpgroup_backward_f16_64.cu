#include "kernels/attention_warpgroup_backward.cuh"

namespace zt::kernels {
template void launch_attention_backward_warpgroups<__half, 64>(const AttentionCall&, cudaStream_t);
}  // namespace zt::kernels
