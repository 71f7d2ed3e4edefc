// What cuBLASLt doesn't do for a linear layer's bias.
#pragma once

#include "kernels/cuda_kernels.h"

namespace zt::kernels {

// y_NO += b_O in every row; y is f32, b of any float format.
void add_bias(const View& b_O, const View& y_NO);

// db_O (f32) += sum_N dy. Partial sums over blocks of rows, then those in order.
void add_column_sums(const View& dy_NO, const View& db_O, const CudaScratch& scratch);

}  // namespace zt::kernels
