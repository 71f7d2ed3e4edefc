#include "data/byte_window.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace zt::data {

static constexpr std::size_t kPiece = 1 << 20;

bool ByteWindow::more() {
  if (ended_ || !damage_.empty()) return false;
  make_room();
  try {
    const std::size_t got = stream_.read({buffer_.get() + end_, kPiece});
    end_ += got;
    ended_ = got == 0;
    return !ended_;
  } catch (const Error& error) {
    if (error.blame() != Blame::data) throw;
    damage_ = error.problem();
    return false;
  }
}

void ByteWindow::skip(std::size_t n) {
  const std::string_view bytes = view().substr(0, n);
  const auto lines = std::ranges::count(bytes, '\n');
  if (lines == 0) return skip_inline(n);
  line_ += lines;
  column_ = static_cast<std::int64_t>(n - bytes.rfind('\n'));
  begin_ += n;
}

void ByteWindow::make_room() {
  const std::size_t held = end_ - begin_;
  if (held + kPiece > capacity_) {
    capacity_ = std::max({2 * kPiece, held + kPiece, held + held / 2});
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (held > 0) std::memcpy(larger.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(larger);
  } else if (held > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  }
  begin_ = 0;
  end_ = held;
}

}  // namespace zt::data
