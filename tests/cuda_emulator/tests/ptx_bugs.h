// Twenty mistakes in kernels, each beside the kernel without it.
#pragma once

#include <cuda_runtime_api.h>

int ptx_bug_count();
const char* ptx_bug_name(int i);
// y and x hold 512 floats; kernels that a test gives a wrong x to read 32.
void run_ptx_bug(int i, bool bug, float* y, const float* x, cudaStream_t stream);
