// A moving piece of a stream that knows its line and column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace zt::data {

// The bytes of a stream from a place on, as many as were asked for, in one piece of memory, and which line and
// column that place is. Views are valid until the next more().
class ByteWindow {
 public:
  explicit ByteWindow(ByteStream stream) : stream_(std::move(stream)) {}

  std::string_view view() const { return {buffer_.get() + begin_, end_ - begin_}; }
  // Reads up to 1 MiB more behind view(); false at the end of the stream or where it is damaged.
  bool more();

  // Goes on behind `n` bytes that hold no line end.
  void skip_inline(std::size_t n) {
    begin_ += n;
    column_ += static_cast<std::int64_t>(n);
  }
  // Goes on behind `n` bytes, the last of which is a line end, the only one.
  void skip_line(std::size_t n) {
    begin_ += n;
    ++line_;
    column_ = 1;
  }
  // Goes on behind any `n` bytes.
  void skip(std::size_t n);
  // As if these bytes weren't there: of a byte-order mark.
  void skip_unseen(std::size_t n) { begin_ += n; }

  std::int64_t line() const { return line_; }  // both from 1
  std::int64_t column() const { return column_; }
  const std::string& damage() const { return damage_; }  // of the stream, behind view(); "" for none
  const ByteStream& stream() const { return stream_; }

 private:
  void make_room();

  ByteStream stream_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0, begin_ = 0, end_ = 0;
  std::int64_t line_ = 1, column_ = 1;  // of the byte at begin_
  bool ended_ = false;
  std::string damage_;
};

}  // namespace zt::data
