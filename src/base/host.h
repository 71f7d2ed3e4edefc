// The name of the machine that this process runs on.
#pragma once

#include <string>

namespace zt {

// As the system has it, "localhost" where it has none.
std::string host_name();

// The same as ranks send it to each other, in a std::array of char: what is longer is cut, and it ends in a zero.
template <typename Array>
Array host_name_as() {
  Array name{};
  host_name().copy(name.data(), name.size() - 1);
  return name;
}

}  // namespace zt
