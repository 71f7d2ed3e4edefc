// Collectives among GPUs: big ones by NCCL on the stream that the calling thread has entered, small messages between
// hosts by the communicator of the hosts.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/cuda_device.h"

namespace zt::cuda {

// Collective. `whole` buffers of its all_gather, reduce_scatter and all_reduce lie in the device's memory, and are ready
// when the stream is; everything else is as the host's communicator does it. Gradients that travel in the format they are kept
// in are added by NCCL in an order of its own; those kept in fp32 that travel as bf16 are sent to their owner, who adds
// them in fp32 in rank order. That takes `buffer_bytes` of the device's memory, claimed at once where there are several
// ranks. Both must outlive it. A failure of another rank ends the wait for the GPU with Error(peer).
std::unique_ptr<comm::Communicator> make_nccl(comm::Communicator& hosts, CudaDevice& device,
                                              std::int64_t buffer_bytes = comm::kGpuBufferBytes);

}  // namespace zt::cuda
