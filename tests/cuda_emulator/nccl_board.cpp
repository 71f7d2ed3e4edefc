#include "cuda_emulator/nccl_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "cuda_emulator/findings.h"
#include "cuda_emulator/settings.h"
#include "cuda_emulator/source_line.h"

namespace zt::emulator {

Board::Board(const std::string& name, int ranks) : ranks_(ranks) {
  constexpr std::size_t kPage = 4096;
  const std::size_t head = (sizeof(Shared) + kPage - 1) / kPage * kPage;
  bytes_ = head + static_cast<std::size_t>(ranks) * (ranks + 1) * kMessageBytes;
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    stop(cat("no shared memory for a communicator of ", ranks, " ranks: ", std::strerror(errno)), "");
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (p == MAP_FAILED) stop("shared memory cannot be mapped", "");
  shared_ = static_cast<Shared*>(p);
  data_ = static_cast<char*>(p) + head;
  if (++shared_->present == ranks) shm_unlink(name.c_str());
  const auto begin = std::chrono::steady_clock::now();
  while (shared_->present < ranks) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(settings().patience_ms))
      continue;
    shm_unlink(name.c_str());
    stop(cat("ncclCommInitRank waits for ever: ", shared_->present.load(), " of ", ranks, " ranks have come"),
         CallStack::here().text());
  }
}

Board::~Board() { munmap(shared_, bytes_); }

}  // namespace zt::emulator
