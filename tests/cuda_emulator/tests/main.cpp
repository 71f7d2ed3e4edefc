#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#ifdef ZEROTRAIN_ON_GPU
#include <cstdio>

#include "cuda_emulator/on_gpu/on_gpu.h"
#endif

int main(int argc, char** argv) {
#ifdef ZEROTRAIN_ON_GPU
  if (const std::string why = zt::emulator::why_no_gpu(); !why.empty()) {
    std::fprintf(stderr, "error: these tests are built for a GPU (ZEROTRAIN_ON_GPU): %s\n", why.c_str());
    return 7;
  }
#endif
  return doctest::Context(argc, argv).run();
}
