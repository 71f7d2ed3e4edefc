// Any bytes as a token cache: as they are, and with the digest that the rest has.
#include <xxhash.h>

#include <cstring>

#include "data/token_file.h"
#include "hostile.h"

using namespace zt;

namespace {

constexpr fuzz::Bound kBound{4 << 20, 16};
constexpr std::size_t kDigestAt = 32;  // docs/formats/tokens.md

void with_digest(std::string& bytes) {
  if (bytes.size() < kDigestAt + 8) return;
  std::memset(bytes.data() + kDigestAt, 0, 8);
  const std::uint64_t digest = XXH3_64bits(bytes.data(), bytes.size());
  std::memcpy(bytes.data() + kDigestAt, &digest, sizeof digest);
}

// Every id, flag and origin is in the file.
void read_all(const data::TokenFile& file, std::size_t size) {
  FUZZ_CHECK(file.tokens() >= 0 && file.documents() >= 0);
  FUZZ_CHECK(file.tokens() <= std::int64_t(size) && file.documents() <= std::int64_t(size));
  std::int64_t at = 0;
  std::uint64_t sum = 0;  // anything may stand in origins
  for (std::int64_t d = 0; d < file.documents(); ++d) {
    FUZZ_CHECK(file.document_begin(d) == at);
    sum += static_cast<std::uint64_t>(file.origin(d).row);
    for (; at < file.document_begin(d + 1); ++at)
      sum += static_cast<std::uint64_t>(file.token(at)) + (file.trained(at) ? 1 : 0);
  }
  FUZZ_CHECK(at == file.tokens());
  FUZZ_CHECK(file.notes().text.size() <= size);
  [[maybe_unused]] static volatile std::uint64_t kept;
  kept = sum;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto [choice, bytes] = fuzz::input_of(data, size);
  if (choice % 2 == 1) with_digest(bytes);
  const auto path = fuzz::scratch().write("tokens", bytes);
  fuzz::survives(size, kBound, Blame::data, [&] {
    read_all(data::TokenFile(path), bytes.size());
    data::require_intact(path);
  });
  return 0;
}
