#include "text/wire_format.h"

#include "base/error.h"

namespace zt::text {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr int kVarintLimit = 10;

[[noreturn]] void refuse() {
  throw Error(Blame::model, "this is no SentencePiece model: its message is broken or cut short");
}

void append_varint(std::string* out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(0x80 | (value & 0x7F));
  *out += static_cast<char>(value);
}

}  // namespace

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kVarintLimit; ++i) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= std::uint64_t(byte & 0x7F) << (7 * i);
    if (byte < 0x80) return value;
  }
  refuse();
}

std::string_view WireReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) refuse();
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<WireField> WireReader::next() {
  if (rest_.empty()) return std::nullopt;
  const std::string_view start = rest_;
  const std::uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) refuse();
  WireField field;
  field.number = std::uint32_t(tag >> 3);
  switch (std::uint32_t(tag & 7)) {
    case kVarint: field.value = varint(); break;
    case kFixed64: take(8); break;
    case kBytes: field.bytes = take(varint()); break;
    case kFixed32: take(4); break;
    default: refuse();
  }
  field.whole = start.substr(0, start.size() - rest_.size());
  return field;
}

std::string wire_field(std::uint32_t number, std::string_view bytes) {
  std::string out;
  append_varint(&out, std::uint64_t{number} << 3 | kBytes);
  append_varint(&out, bytes.size());
  return out.append(bytes);
}

std::string wire_field(std::uint32_t number, std::uint64_t value) {
  std::string out;
  append_varint(&out, std::uint64_t{number} << 3 | kVarint);
  append_varint(&out, value);
  return out;
}

}  // namespace zt::text
