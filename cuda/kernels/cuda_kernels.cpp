#include "kernels/cuda_kernels.h"

#include <mutex>
#include <vector>

#include "base/align.h"
#include "device/stream.h"
#include "kernels/loops.h"

namespace zt::kernels {

void* CudaScratch::place(std::int64_t wanted, const char* kernel) const {
  if (wanted > bytes) fail_contract(kernel, cat("needs ", wanted, " bytes of scratch, a stream has ", bytes));
  return data;
}

// One allocation, a part for each stream that asks for one.
struct CudaKernels::Claims {
  Claims(int streams, std::int64_t bytes) : bytes_each(round_up(bytes, 256)), most(streams) {
    void* place = nullptr;
    cuda::check(cudaMalloc(&place, std::size_t(bytes_each * most)), "scratch of the kernels");
    memory = static_cast<std::byte*>(place);
  }
  ~Claims() { (void)cudaFree(memory); }  // an error has been reported where it arose
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  CudaScratch of(cudaStream_t stream) {
    const std::lock_guard lock(mutex);
    std::int64_t number = 0;
    while (number < std::int64_t(holders.size()) && holders[std::size_t(number)] != stream) ++number;
    if (number == most)
      throw Error(Blame::bug, cat("more than ", most, " streams launch kernels that need scratch"));
    if (number == std::int64_t(holders.size())) holders.push_back(stream);
    return {memory + number * bytes_each, bytes_each};
  }

  std::int64_t bytes_each, most;
  std::byte* memory = nullptr;
  std::mutex mutex;
  std::vector<cudaStream_t> holders;
};

CudaKernels::CudaKernels(int streams, std::int64_t scratch_bytes)
    : claims_(std::make_shared<Claims>(streams, scratch_bytes)), products_(make_products()) {}

CudaKernels::~CudaKernels() = default;

CudaScratch CudaKernels::scratch() { return claims_->of(cuda::current_stream()); }

std::int64_t CudaKernels::held_bytes() const { return claims_->bytes_each * claims_->most; }

}  // namespace zt::kernels
