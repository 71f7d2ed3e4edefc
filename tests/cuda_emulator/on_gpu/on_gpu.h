// Programs of tests that were built for a GPU, on a machine that may have none.
#pragma once

#include <string>

namespace zt::emulator {

// Why this machine runs none of them: no driver, an old one, no GPU; or "".
std::string why_no_gpu();

}  // namespace zt::emulator
