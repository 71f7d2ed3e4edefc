// What this machine's matrix products reach, the limit that MFU is measured against.
#pragma once

#include "device/device.h"
#include "kernels/kernels.h"

namespace zt::measure {

// FLOP/s of the best of a few square products in `dtype`, by kernels of the device; takes some tens of milliseconds.
double measure_product_rate(kernels::Kernels& kernels, Dtype dtype, device::Device& device = device::host());

}  // namespace zt::measure
