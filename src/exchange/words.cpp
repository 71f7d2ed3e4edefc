#include "exchange/words.h"

#include <algorithm>

#include "base/text.h"

namespace zt::exchange {
namespace {

// Cuts to `limit` bytes at a character's start, so that the text stays UTF-8.
std::string cut(std::string_view text, std::size_t limit) {
  std::size_t size = std::min(text.size(), limit);
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::string out(text.substr(0, size));
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  if (size < text.size()) out += "...";
  return out;
}

}  // namespace

std::string shown(std::string_view text) { return "'" + cut(text, 120) + "'"; }

std::string shown_json_error(const char* what) {
  std::string_view text = what;
  if (const std::size_t end = text.find("] "); starts_with(text, "[json.exception") && end != text.npos)
    text.remove_prefix(end + 2);
  return cut(text, 240);
}

void Faults::add(std::string fault) {
  if (++count_ <= kShown) shown_.add(std::move(fault));
}

void Faults::throw_if_any(const std::string& title, const std::string& hint) const {
  Problems all = shown_;
  if (count_ > kShown) all.add(cat("and ", count_ - kShown, " more"));
  all.throw_if_any(Blame::model, title, hint);
}

}  // namespace zt::exchange
