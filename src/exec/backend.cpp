#include "exec/backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace zt::exec {
namespace {

namespace fs = std::filesystem;

class HostBackend final : public Backend {
 public:
  explicit HostBackend(comm::Communicator& hosts) : hosts_(hosts) {}
  device::Device& device() override { return device::host(); }
  std::unique_ptr<kernels::Kernels> make_kernels(Dtype dtype) override {
    return kernels::make_cpu_kernels(dtype);
  }
  comm::Communicator& comm() override { return hosts_; }

 private:
  comm::Communicator& hosts_;
};

// The module beside the program, or where an installation puts it; empty where it was not built.
fs::path module_file() {
  std::error_code none;
  const fs::path here = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& folder : {here / "lib", here / "../lib/zerotrain", here})
    if (fs::exists(folder / "libzerotrain_cuda.so", none)) return folder / "libzerotrain_cuda.so";
  return {};
}

std::string last_failure() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

struct Module {
  bool built = false;
  CudaBackend* make = nullptr;
  std::string why_not;
};

// It stays open until the program ends.
Module open_module() {
  const fs::path file = module_file();
  if (file.empty())
    return {false, nullptr, "this program was built without it (-DZEROTRAIN_CUDA=ON builds it)"};
  // First, because the module's libraries take a tenth of a second and 94 MB.
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr)
    return {true, nullptr, cat("there is no driver for NVIDIA GPUs (", last_failure(), ")")};
  void* const module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return {true, nullptr, cat("its module cannot be used: ", last_failure())};
  auto* const make = reinterpret_cast<CudaBackend*>(::dlsym(module, kCudaBackend));
  auto* const gpus = reinterpret_cast<CudaGpus*>(::dlsym(module, kCudaGpus));
  if (make == nullptr || gpus == nullptr)
    return {true, nullptr, cat("its module is not this program's: ", last_failure())};
  std::string why_none;
  if (gpus(&why_none) == 0) return {true, nullptr, why_none};
  return {true, make, ""};
}

// The ranks that can use a GPU.
std::vector<int> able(comm::Communicator& hosts, bool mine) {
  const std::int32_t here = mine ? 1 : 0;
  std::vector<std::int32_t> all(static_cast<std::size_t>(hosts.size()));
  hosts.exchange<std::int32_t>({&here, 1}, all);
  std::vector<int> ranks;
  for (int rank = 0; rank < hosts.size(); ++rank)
    if (all[static_cast<std::size_t>(rank)] != 0) ranks.push_back(rank);
  return ranks;
}

}  // namespace

OpenedBackend open_backend(recipe::Device wanted, comm::Communicator& hosts) {
  if (wanted == recipe::Device::cpu) return {std::make_unique<HostBackend>(hosts), ""};
  const Module module = open_module();
  const auto ranks = static_cast<int>(able(hosts, module.make != nullptr).size());
  if (ranks == hosts.size()) return {std::unique_ptr<Backend>(module.make(hosts)), ""};
  const std::string here = module.make != nullptr ? "this rank could use one" : module.why_not;
  if (wanted == recipe::Device::cuda)
    throw Error(
        Blame::machine,
        cat("run.device is cuda, and ", hosts.size() - ranks, " of ", hosts.size(),
            " ranks can't use a GPU: ", here),
        "run.device: auto takes the processor where there is no GPU; `zerotrain doctor` says what it finds");
  if (ranks > 0)
    throw Error(Blame::machine,
                cat(ranks, " of ", hosts.size(), " ranks can use a GPU, the others can't: ", here),
                "start ranks only where there are GPUs, or set run.device: cpu");
  return {std::make_unique<HostBackend>(hosts), module.built ? module.why_not : ""};
}

EngineOptions on(Backend& backend, EngineOptions options) {
  options.device = &backend.device();
  options.kernels = [&backend](Dtype dtype) { return backend.make_kernels(dtype); };
  return options;
}

}  // namespace zt::exec
