// Pages and pictures that a command writes where it is told.
#pragma once

#include <string>

namespace zt::app {

// Replaces the file as a whole, if it was a page or picture of the same kind or empty. Any other file is kept:
// Error(usage). Links, devices and pipes (/dev/stdout is a link to one) stay what they are.
void write_picture(const std::string& path, const std::string& text);

}  // namespace zt::app
