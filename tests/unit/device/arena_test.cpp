#include "device/arena.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace zt::device {
namespace {

TEST_CASE("arena: its bytes are zero, aligned, counted while it lives and given back") {
  const std::int64_t before = arena_bytes();
  {
    const Arena arena(100001, "a test");
    CHECK(arena.bytes() == 100001);
    CHECK(reinterpret_cast<std::uintptr_t>(arena.at(0)) % 64 == 0);
    CHECK(arena_bytes() == before + 100001);
    std::int64_t set = 0;
    for (std::int64_t i = 0; i < arena.bytes(); ++i) set += arena.at(i)[0] != std::byte{0};
    CHECK(set == 0);
    std::memset(arena.at(0), 0xff, 100001);
    CHECK(arena.as<float>(4) == reinterpret_cast<float*>(arena.at(4)));
  }
  CHECK(arena_bytes() == before);
}

TEST_CASE("arena: moving it moves the memory and counts it once") {
  const std::int64_t before = arena_bytes();
  {
    Arena a(1000, "a test");
    std::byte* const data = a.at(0);
    Arena b(std::move(a));
    CHECK(b.at(0) == data);
    Arena c;
    CHECK(c.bytes() == 0);
    c = std::move(b);
    CHECK(c.at(0) == data);
    CHECK(arena_bytes() == before + 1000);
  }
  CHECK(arena_bytes() == before);
}

TEST_CASE("arena: more than the machine has is refused before anything is claimed, with both numbers") {
  const std::int64_t before = arena_bytes();
  try {
    const Arena arena(std::int64_t{1} << 50, "activations");
    FAIL("a petabyte was given");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::machine);
    CHECK(e.problem().find("activations needs 1024.00 TiB") != std::string::npos);
    CHECK(e.problem().find(" are free") != std::string::npos);
    CHECK(e.hint().find("memory.recompute") != std::string::npos);
  }
  CHECK(arena_bytes() == before);
}

TEST_CASE("arena: an empty one costs nothing; a negative size is a bug") {
  CHECK(Arena(0, "nothing").bytes() == 0);
  CHECK_THROWS_WITH_AS(Arena(-1, "a test"), "a test was planned with -1 bytes", Error);
}

TEST_CASE("memory: the system's numbers are there and make sense") {
  CHECK(available_bytes() > 1 << 20);
  CHECK(process_peak_bytes() > 1 << 20);
}

}  // namespace
}  // namespace zt::device
