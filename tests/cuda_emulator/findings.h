// The list of findings, and the end of a test that asks for what the emulator does not know.
#pragma once

#include <string>

namespace zt::emulator {

// Adds a finding; one of the same kind and place (without a place: the same text) is kept once until they are taken.
void report(const std::string& kind, const std::string& text, const std::string& where);

// Ends the process: what was asked for has no meaning here, so no result could be trusted. `where` may be empty.
[[noreturn]] void stop(const std::string& why, const std::string& where);

}  // namespace zt::emulator
