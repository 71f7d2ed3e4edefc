// Texts from files, made fit for a terminal and for JSON.
#pragma once

#include <string>
#include <string_view>

namespace zt {

// The same text with "?" for every byte that isn't UTF-8 (RFC 3629) and for every control character but line ends
// and tabs: what a file holds must not move a terminal's cursor, and an error goes into logs and JSON.
std::string plain_text(std::string_view text);

}  // namespace zt
