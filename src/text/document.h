// What tokenizers ask of a text and of ids.
#pragma once

#include <cstdint>
#include <string_view>

namespace zt::text {

// Throws Error(data) when the text is not UTF-8 or is longer than any tokenizer takes at once (1 GiB).
void require_document(std::string_view text);

// Throws Error(data) for an id that no token has.
[[noreturn]] void refuse_id(std::int32_t id, std::int32_t vocabulary);

}  // namespace zt::text
