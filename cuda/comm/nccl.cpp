#include "comm/nccl.h"

#include <nccl.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "comm/narrow.h"
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
  Nccl(comm::Communicator& hosts, CudaDevice& device, std::int64_t buffer_bytes)
      : Communicator(hosts.rank(), hosts.size()), hosts_(hosts), device_(device) {
    if (hosts.size() == 1) return;
    buffer_ = device.claim(buffer_bytes, "gradients on their way");
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
  std::int64_t buffer_bytes() const override { return buffer_.bytes(); }
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
    if (wire != dtype) return reduce_narrow(reinterpret_cast<float*>(whole), slice_elements);
    check_nccl(ncclReduceScatter(whole, whole + rank() * slice_elements * size_of(dtype),
                                 static_cast<std::size_t>(slice_elements), type_of(dtype), ncclSum, comm_,
                                 current_stream()),
               "add gradients");
  }
  // By parts that fit the buffer: its first half is what this rank sends, rank by rank, its second what it gets.
  void reduce_narrow(float* whole_RS, std::int64_t slice) {
    const std::int64_t most = buffer_.bytes() / 2 / 2 / size();
    std::byte* const sent_RC = buffer_.at(0);
    std::byte* const got_RC = buffer_.at(2 * size() * most);
    for (std::int64_t first = 0; first < slice; first += most) {
      const std::int64_t count = std::min(most, slice - first);
      pack_on_stream(whole_RS, slice, first, count, size(), sent_RC, current_stream());
      send_to_owners(sent_RC, got_RC, 2 * count);
      sum_on_stream(got_RC, count, size(), whole_RS + rank() * slice + first, current_stream());
    }
  }
  void send_to_owners(std::byte* sent_RC, std::byte* got_RC, std::int64_t bytes) {
    const auto count = static_cast<std::size_t>(bytes);
    device_.copy(got_RC + rank() * bytes, sent_RC + rank() * bytes, bytes);
    check_nccl(ncclGroupStart(), "begin a group");
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      check_nccl(ncclSend(sent_RC + other * bytes, count, ncclInt8, other, comm_, current_stream()), "send");
      check_nccl(ncclRecv(got_RC + other * bytes, count, ncclInt8, other, comm_, current_stream()),
                 "receive");
    }
    check_nccl(ncclGroupEnd(), "end a group");
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
  device::Arena buffer_;
  std::mutex mutex_;  // of what abandon() takes away
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<comm::Communicator> make_nccl(comm::Communicator& hosts, CudaDevice& device,
                                              std::int64_t buffer_bytes) {
  return std::make_unique<Nccl>(hosts, device, buffer_bytes);
}

}  // namespace zt::cuda
