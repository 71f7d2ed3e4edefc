// Where a rank computes: its device, the kernels that run there, and how its ranks' collectives travel.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "device/device.h"
#include "exec/engine.h"
#include "kernels/kernels.h"
#include "recipe/settings.h"

namespace zt::exec {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual device::Device& device() = 0;
  virtual std::unique_ptr<kernels::Kernels> make_kernels(Dtype dtype) = 0;
  // Of what lies in the device's memory; small messages travel between the hosts.
  virtual comm::Communicator& comm() = 0;
};

struct OpenedBackend {
  std::unique_ptr<Backend> backend;
  std::string note;  // why it is not a GPU, where this program could use one; or ""
};

// GPUs are used through a module of their own, libzerotrain_cuda.so, that is opened only where there is a driver: a rank
// that computes on its processor doesn't pay for CUDA's libraries. Collective; `hosts` must outlive it. `auto` takes GPUs
// where every rank has one, and the processor where none has. Error(machine) where only some have one, or where the
// recipe asks for GPUs and there are none; Error(usage) where ranks would share one.
OpenedBackend open_backend(recipe::Device wanted, comm::Communicator& hosts);

// Of a command that one process does alone.
class LoneBackend {
 public:
  // Throws as open_backend.
  explicit LoneBackend(recipe::Device wanted)
      : hosts_(comm::solo()), opened_(open_backend(wanted, *hosts_)) {}
  Backend& operator*() const { return *opened_.backend; }
  Backend* operator->() const { return opened_.backend.get(); }

 private:
  std::unique_ptr<comm::Communicator> hosts_;
  OpenedBackend opened_;
};

// The same options on this backend, which must outlive the engine.
EngineOptions on(Backend& backend, EngineOptions options);

// What the module offers, under these names: the backend, and how many GPUs this process may use; where there are none, why.
inline constexpr const char* kCudaBackend = "zerotrain_cuda_backend";
using CudaBackend = Backend*(comm::Communicator& hosts);
inline constexpr const char* kCudaGpus = "zerotrain_cuda_gpus";
using CudaGpus = int(std::string* why_none);

}  // namespace zt::exec
