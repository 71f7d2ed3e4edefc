#include "device/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace zt::device {

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void compute_with(int threads) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
#ifdef _OPENMP
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

int threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

int threads_of_rank(int ranks) {
  const bool bound = cores() < ::sysconf(_SC_NPROCESSORS_ONLN);
  return bound ? cores() : std::max(1, cores() / ranks);
}

}  // namespace zt::device
