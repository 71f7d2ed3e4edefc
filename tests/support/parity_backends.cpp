// Which backends the parity tests run: of the programs that don't name their own.
#include "parity/parity.h"

namespace zt::parity {

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {{"cpu", [] { return kernels::make_cpu_kernels(); }}};
  return all;
}

}  // namespace zt::parity
