// Collectives among GPUs: big ones by NCCL on the stream that the calling thread has entered, small messages between
// hosts by the communicator of the hosts.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/cuda_device.h"

namespace zt::cuda {

// Collective. `whole` buffers of its all_gather, reduce_scatter and all_reduce lie in the device's memory, and are ready
// when the stream is; everything else is as the host's communicator does it. Gradients travel in the format they are kept
// in; NCCL adds them in an order of its own. Both must outlive it. A failure of another rank ends the wait for the GPU
// with Error(peer).
std::unique_ptr<comm::Communicator> make_nccl(comm::Communicator& hosts, CudaDevice& device);

}  // namespace zt::cuda
