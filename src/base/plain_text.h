// Texts from files, made fit for a terminal and for JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zt {

// Bytes of the UTF-8 character that `text` begins with, 0 where it begins with none (RFC 3629: shortest form, no
// surrogates, nothing above U+10FFFF). Of an empty text 1: callers stop before.
std::size_t valid_utf8_length(std::string_view text);

// The same text with "?" for every byte that isn't UTF-8 (RFC 3629) and for every control character but line ends
// and tabs: what a file holds must not move a terminal's cursor, and an error goes into logs and JSON.
std::string plain_text(std::string_view text);

}  // namespace zt
