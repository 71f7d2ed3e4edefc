// A library that is loaded before the program and makes one of its ranks go wrong in a function that it calls, from a
// chosen moment on. The program has no part in it.
//
// MISBEHAVE_FILE names a file; as soon as it exists, its words say who does what: RANK FUNCTION HOW, for example
// "1 product throws". Functions: product (oneDNN's dnnl_sgemm), sync (fsync), yield (sched_yield: waiting for others).
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace {

struct Order {
  int rank = -1;
  char function[32] = {}, how[32] = {};
};

bool ordered(const char* function, Order* order) {
  const char* const file = std::getenv("MISBEHAVE_FILE");
  if (file == nullptr || ::access(file, R_OK) != 0) return false;
  FILE* const in = std::fopen(file, "r");
  if (in == nullptr) return false;
  const bool whole = std::fscanf(in, "%d %31s %31s", &order->rank, order->function, order->how) == 3;
  std::fclose(in);
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return whole && std::string(order->function) == function &&
         order->rank == (rank != nullptr ? std::atoi(rank) : 0);
}

void misbehave(const char* function) {
  Order order;
  if (!ordered(function, &order)) return;
  const std::string how = order.how;
  if (how == "throws") throw std::runtime_error("a value that cannot be");
  if (how == "throws-no-memory") throw std::bad_alloc();
  if (how == "throws-a-number") throw 7;
  if (how == "aborts") std::abort();
  static int* volatile nowhere = nullptr;
  if (how == "breaks") *nowhere = 1;
  if (how == "divides") {
    volatile int zero = 0;
    zero = 8 / zero;
  }
  if (how == "exits-0") std::exit(0);
  if (how == "exits-3") std::exit(3);
  if (how == "leaves-0") ::_exit(0);
  if (how == "is-killed") ::raise(SIGKILL);
  if (how == "terminates") std::terminate();
  static std::atomic_flag asleep;
  if (how == "sleeps" && !asleep.test_and_set())
    for (;;) ::pause();
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

using Sgemm = int(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t,
                  const float*, std::int64_t, float, float*, std::int64_t);
int dnnl_sgemm(char transa, char transb, std::int64_t M, std::int64_t N, std::int64_t K, float alpha,
               const float* A, std::int64_t lda, const float* B, std::int64_t ldb, float beta, float* C,
               std::int64_t ldc) {
  static auto* const real = next<Sgemm>("dnnl_sgemm");
  misbehave("product");
  return real(transa, transb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  misbehave("sync");
  return real(file);
}

int sched_yield() noexcept {
  static auto* const real = next<int()>("sched_yield");
  misbehave("yield");
  return real();
}

}  // extern "C"
