#include "comm/nccl.h"

#include <nccl.h>

#include <exception>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "device/stream.h"

namespace zt::cuda {
namespace {

void check_nccl(ncclResult_t status, const char* what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw Error(Blame::peer, cat("NCCL cannot ", what, ": ", ncclGetErrorString(status)),
              "NCCL_DEBUG=INFO in the environment makes NCCL say more");
}

ncclDataType_t type_of(Dtype dtype) { return dtype == Dtype::bf16 ? ncclBfloat16 : ncclFloat32; }

class Nccl final : public comm::Communicator {
 public:
  Nccl(comm::Communicator& hosts, CudaDevice& device)
      : Communicator(hosts.rank(), hosts.size()), hosts_(hosts), device_(device) {
    if (hosts.size() == 1) return;
    ncclUniqueId id{};
    if (hosts.rank() == 0) check_nccl(ncclGetUniqueId(&id), "begin");
    hosts.broadcast(&id, sizeof id, 0);
    check_nccl(ncclCommInitRank(&comm_, hosts.size(), id, hosts.rank()), "join the ranks");
    device.watch([this] { look_for_errors(); });
  }
  ~Nccl() override {
    device_.watch({});
    // Destroying waits for what is under way, which after a failure may never end.
    if (std::uncaught_exceptions() > 0)
      abort();
    else if (comm_ != nullptr)
      ncclCommDestroy(comm_);
  }

  void abandon(std::exception_ptr why) noexcept override {
    abort();
    hosts_.abandon(std::move(why));
  }
  std::unique_ptr<Communicator> split(int) override {
    throw Error(Blame::bug, "GPUs are not split into groups yet known to a plan");
  }
  std::int64_t buffer_bytes() const override { return hosts_.buffer_bytes(); }
  std::string transport() const override { return "nccl"; }

 private:
  // Ends what this rank's GPU is doing together with others.
  void abort() noexcept {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

  // NCCL learns of failures from the network only; of ranks on this node the hosts know.
  void look_for_errors() {
    try {
      hosts_.require_others("the GPU's collectives");
      const std::lock_guard lock(mutex_);
      ncclResult_t status = ncclSuccess;
      if (comm_ == nullptr) throw Error(Blame::peer, "another rank has failed");
      check_nccl(ncclCommGetAsyncError(comm_, &status), "say how it is");
      check_nccl(status, "go on");
    } catch (...) {
      abort();  // else nothing that was enqueued here would end
      throw;
    }
  }

  void do_all_gather(std::byte* whole, std::int64_t slice_bytes) override {
    check_nccl(ncclAllGather(whole + rank() * slice_bytes, whole, static_cast<std::size_t>(slice_bytes),
                             ncclInt8, comm_, current_stream()),
               "gather");
  }
  void do_reduce_scatter(std::byte* whole, Dtype dtype, Dtype wire, std::int64_t slice_elements) override {
    if (wire != dtype)
      throw Error(Blame::usage,
                  cat("gradients kept as ", name(dtype), " cannot travel as ", name(wire), " between GPUs"),
                  cat("set comm.grad_dtype to ", name(dtype)));
    check_nccl(ncclReduceScatter(whole, whole + rank() * slice_elements * size_of(dtype),
                                 static_cast<std::size_t>(slice_elements), type_of(dtype), ncclSum, comm_,
                                 current_stream()),
               "add gradients");
  }
  void do_broadcast(std::byte* data, std::int64_t bytes, int root) override {
    hosts_.broadcast(data, bytes, root);
  }
  void do_exchange(std::span<const std::byte> mine, std::span<std::byte> all) override {
    hosts_.exchange(mine, all);
  }
  void do_barrier() override { hosts_.barrier(); }
  void do_rendezvous(const std::function<void()>& idle) override { hosts_.rendezvous(idle); }

  comm::Communicator& hosts_;
  CudaDevice& device_;
  std::mutex mutex_;  // of what abandon() takes away
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<comm::Communicator> make_nccl(comm::Communicator& hosts, CudaDevice& device) {
  return std::make_unique<Nccl>(hosts, device);
}

}  // namespace zt::cuda
