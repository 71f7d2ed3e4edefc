// Unicode normalization forms, by ICU.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zt::text {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// The form named "NFC", "NFD", "NFKC" or "NFKD"; nothing for another name. Throws Error(model) when the
// program was built without ICU.
std::optional<UnicodeForm> unicode_form(std::string_view name);

// Source: Unicode Standard Annex 15. The text must be valid UTF-8.
std::string to_unicode_form(std::string text, UnicodeForm form);

}  // namespace zt::text
