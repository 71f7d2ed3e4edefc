// What the module libzerotrain_cuda.so offers to the program.
#include "exec/backend.h"

#include "comm/choice.h"
#include "comm/nccl.h"
#include "device/cuda_device.h"
#include "kernels/cuda_kernels.h"

namespace zt::cuda {
namespace {

class GpuBackend final : public exec::Backend {
 public:
  explicit GpuBackend(comm::Communicator& hosts)
      : device_(choose_gpu(hosts).ordinal), comm_(make_nccl(hosts, device_)) {}
  device::Device& device() override { return device_; }
  std::unique_ptr<kernels::Kernels> make_kernels(Dtype) override {
    return std::make_unique<kernels::CudaKernels>();
  }
  comm::Communicator& comm() override { return *comm_; }

 private:
  CudaDevice device_;
  std::unique_ptr<comm::Communicator> comm_;
};

}  // namespace
}  // namespace zt::cuda

extern "C" __attribute__((visibility("default"))) int zerotrain_cuda_gpus(std::string* why_none) {
  return zt::cuda::usable_gpus(why_none);
}

extern "C" __attribute__((visibility("default"))) zt::exec::Backend* zerotrain_cuda_backend(
    zt::comm::Communicator& hosts) {
  return new zt::cuda::GpuBackend(hosts);
}
