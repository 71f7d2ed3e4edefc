// The parity tests of this program run the CUDA backend.
#include "cuda/on_device.h"
#include "parity/parity.h"

namespace zt::parity {

const std::vector<Backend>& backends() {
  using cuda_test::OnDevice;
  using cuda_test::Placement;
  static const std::vector<Backend> all = {
      {"cuda",
       [] { return std::unique_ptr<kernels::Kernels>(std::make_unique<OnDevice>(Placement::as_given)); }}};
  return all;
}

}  // namespace zt::parity
