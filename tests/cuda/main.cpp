// Runs the program's cases on the emulated GPU and wants no finding at the end.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "cuda_emulator/emulator.h"
#ifdef ZEROTRAIN_ON_GPU
#include "cuda_emulator/on_gpu/on_gpu.h"
#endif

int main(int argc, char** argv) {
#ifdef ZEROTRAIN_ON_GPU
  if (const std::string why = zt::emulator::why_no_gpu(); !why.empty()) {
    std::fprintf(stderr, "error: these tests are built for a GPU (ZEROTRAIN_ON_GPU): %s\n", why.c_str());
    return 7;
  }
#endif
  doctest::Context context;
  // Of the CPU's parity cases these can't hold on a GPU, where nothing waits to look at the targets: chunks without a
  // supervised token are computed like others, and targets beyond the vocabulary are the data room's to refuse.
  context.addFilter("test-case-exclude", "cross entropy: chunks without a supervised token*");
  context.addFilter("test-case-exclude", "cross entropy: a target beyond the vocabulary*");
  // These look at the host's arithmetic alone.
  context.addFilter("test-case-exclude", "vector math:*");
  context.addFilter("test-case-exclude", "*the reference's*");
#ifdef ZEROTRAIN_ON_GPU
  // These are about what the emulator counts and logs.
  context.addFilter("test-case-exclude", "*takes more passes than it must");
  context.addFilter("test-case-exclude", "*touch no more sectors than their bytes need*");
  context.addFilter("test-case-exclude", "each wait of a step that is forgotten is reported");
#endif
  context.applyCommandLine(argc, argv);
  const int result = context.run();
  const auto findings = zt::emulator::take_findings();
  if (findings.empty()) return result;
  std::fprintf(stderr, "findings of cases that don't take them:\n%s\n",
               zt::emulator::to_string(findings).c_str());
  return 1;
}
