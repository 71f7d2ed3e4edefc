#include "kernels/attention_backward.cuh"
#include "kernels/attention_forward.cuh"

namespace zt::kernels {
template void launch_attention<__half, 80>(const AttentionCall&, cudaStream_t);
template void launch_attention_backward<__half, 80>(const AttentionCall&, cudaStream_t);
}  // namespace zt::kernels
