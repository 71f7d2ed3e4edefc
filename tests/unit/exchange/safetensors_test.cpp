#include "exchange/safetensors.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "base/random.h"
#include "base/text.h"
#include "files.h"
#include "support/paths.h"
#include "tensor/convert.h"

using namespace zt;
using namespace zt::exchange;
using namespace zt::test;

namespace {

std::string opening_error(const std::string& bytes) {
  const ScratchDir dir;
  const auto path = dir.write("bad.safetensors", bytes);
  return error_of(Blame::model, [&] { SafetensorsFile{path}; });
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

// Writes three tensors, F32 F16 BF16, whose values are small whole numbers.
std::string good_file() {
  std::vector<float> a = {1, -2, 3, 4, 5, 6};
  std::vector<f16> b = {f16(7.f), f16(-0.5f)};
  std::vector<bf16> c = {bf16(8.f), bf16(9.f), bf16(10.f)};
  return file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"F16","shape":[2],"data_offsets":[24,28]},"c":{"dtype":"BF16","shape":[3,1],"data_offsets":[28,34]}})",
      test::bytes_of(a) + test::bytes_of(b) + test::bytes_of(c));
}

}  // namespace

TEST_CASE("safetensors: a good file gives its tensors in every format, at every offset") {
  const ScratchDir dir;
  const SafetensorsFile file(dir.write("good.safetensors", good_file()));
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.find("d") == nullptr);
  const std::vector<std::pair<std::string, std::vector<float>>> expected = {
      {"a", {1, -2, 3, 4, 5, 6}}, {"b", {7, -0.5}}, {"c", {8, 9, 10}}};
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    const StoredTensor* t = file.find(name);
    REQUIRE(t != nullptr);
    for (std::int64_t first = 0; first <= std::int64_t(values.size()); ++first) {
      const std::int64_t n = std::int64_t(values.size()) - first;
      std::vector<float> x(std::size_t(n), 99.f);
      std::vector<bf16> y(x.size());
      std::vector<f16> z(x.size());
      file.read(*t, first, n, x.data(), Dtype::f32);
      file.read(*t, first, n, y.data(), Dtype::bf16);
      file.read(*t, first, n, z.data(), Dtype::f16);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(x[i] == values[i + std::size_t(first)]);
        CHECK(float(y[i]) == values[i + std::size_t(first)]);
        CHECK(float(z[i]) == values[i + std::size_t(first)]);
      }
    }
    float sink[8];
    for (auto [first, count] : {std::pair{-1, 1}, {0, 7}, {6, 1}, {0, -1}})
      CHECK(
          contains(error_of(Blame::bug, [&, f = first, c = count] { file.read(*t, f, c, sink, Dtype::f32); }),
                   "which has"));
  }
}

TEST_CASE("safetensors: every fault of a header is refused with its numbers") {
  const std::string four(4, '\0');
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"v":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"w":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  struct Case {
    const char* what;
    std::string bytes, expected;
  };
  const std::vector<Case> cases = {
      {"empty file", "", "has 0 bytes, too few"},
      {"seven bytes", "1234567", "has 7 bytes, too few"},
      {"length 2^63", length_bytes(std::uint64_t{1} << 63) + "{}",
       "claims a header of 9223372036854775808 bytes"},
      {"length 2^64 - 1", length_bytes(~std::uint64_t{0}) + "{}",
       "claims a header of 18446744073709551615 bytes"},
      {"length 200 MB", length_bytes(200'000'000) + "{}", "200000000 bytes, at most 100000000"},
      {"length over file", length_bytes(3) + "{}", "claims a header of 3 bytes, but has only 2"},
      {"length 0", length_bytes(0), "is not JSON"},
      {"not JSON", file_of("{\"w\":", ""), "is not JSON: parse error"},
      {"text behind", file_of("{}x", ""), "is not JSON"},
      {"blank first", file_of(" {}", ""), "must begin with '{'"},
      {"an array", file_of("[]", ""), "must begin with '{'"},
      {"bad UTF-8", file_of("{\"\xff\":1}", ""), "is not JSON"},
      {"a number as tensor", file_of(R"({"w":1})", ""), "'w' must not be a number"},
      {"null as tensor", file_of(R"({"w":null})", ""), "'w' must not be null"},
      {"list as tensor", file_of(R"({"w":[]})", ""), "'w' must not be an array"},
      {"dtype a number", file_of(R"({"w":{"dtype":1}})", ""), "tensor 'w', 'dtype' must not be a number"},
      {"key missing", file_of(R"({"w":{"dtype":"F32","shape":[1]}})", four), "lacks one of dtype, shape"},
      {"key unknown", file_of(R"({"w":{"dtypes":"F32"}})", four), "has the unknown key 'dtypes'"},
      {"key twice", file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})", four), "has the key 'dtype' twice"},
      {"dtype F33", file_of(one("F33", "[1]", "[0,4]"), four), "tensor 'w': unknown dtype 'F33'"},
      {"shape over bytes", file_of(one("F32", "[1000,1000]", "[0,4]"), four),
       "shape [1000, 1000] of F32 takes 4000000 bytes, data_offsets [0, 4] hold 4"},
      {"shape overflows", file_of(one("F32", "[4294967296,4294967296]", "[0,4]"), four),
       "has no size in bytes"},
      {"bytes overflow", file_of(one("F32", "[4611686018427387905]", "[0,4]"), four), "has no size in bytes"},
      {"negative dim", file_of(one("F32", "[-1]", "[0,4]"), four),
       "shape has the entry -1, must be a whole number"},
      {"two negative dims", file_of(one("F32", "[-1,-1]", "[0,4]"), four), "shape has the entry -1"},
      {"broken dim", file_of(one("F32", "[1.0]", "[0,4]"), four), "shape has the entry 1.0"},
      {"dim 2^63", file_of(one("F32", "[9223372036854775808]", "[0,4]"), four),
       "the entry 9223372036854775808"},
      {"dim 2^64", file_of(one("F32", "[18446744073709551616]", "[0,4]"), four),
       "the entry 18446744073709551616"},
      {"dim a text", file_of(one("F32", "[\"1\"]", "[0,4]"), four), "must not be a string"},
      {"nine dims", file_of(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), four),
       "more than 8 entries in shape"},
      {"half a byte", file_of(one("F4", "[7]", "[0,4]"), four), "has no size in bytes"},
      {"begin > end", file_of(one("F32", "[1]", "[4,0]"), four),
       "data_offsets begin at 4 and end before, at 0"},
      {"one offset", file_of(one("F32", "[1]", "[4]"), four), "data_offsets must have 2 entries, has 1"},
      {"three offsets", file_of(one("F32", "[1]", "[0,4,4]"), four),
       "data_offsets must have 2 entries, has 3"},
      {"truncated", file_of(one("F32", "[2]", "[0,8]"), four), "take 8 bytes, the file holds only 4"},
      {"too long", file_of(one("F32", "[1]", "[0,4]"), four + "x"), "take 4 bytes, the file holds 1 more"},
      {"no tensors, data", file_of("{}", "x"), "take 0 bytes, the file holds 1 more"},
      {"hole before", file_of(one("F32", "[1]", "[4,8]"), four + four),
       "bytes 0 to 4 before tensor 'w' belong to no"},
      {"hole between", file_of(two("[0,4]", "[8,12]"), four + four + four), "bytes 4 to 8 before tensor 'w'"},
      {"overlap", file_of(two("[0,4]", "[2,6]"), four + "xy"),
       "'w' begins at byte 2, before the end of tensor 'v' at 4"},
      {"same bytes", file_of(two("[0,4]", "[0,4]"), four), "before the end of tensor"},
      {"name twice",
       file_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
               four + four),
       "tensor 'w' is there twice"},
      {"name of 300 bytes", file_of("{\"" + std::string(300, 'n') + "\":{}}", ""),
       "has 300 bytes, at most 256"},
      {"metadata of numbers", file_of(R"({"__metadata__":{"a":1}})", ""), "'a' must not be a number"},
      {"metadata nests", file_of(R"({"__metadata__":{"a":{}}})", ""), "'a' must not be an object"},
      {"metadata key twice", file_of(R"({"__metadata__":{"a":"","a":""}})", ""),
       "__metadata__ has the key 'a' twice"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", ""),
       "__metadata__ is there twice"},
      {"bomb of objects", file_of(repeated("{\"dtype\":", 1'000'000), ""), "'dtype' must not be an object"},
      {"bomb of arrays", file_of("{\"w\":{\"shape\":" + std::string(1'000'000, '['), ""),
       "must not be an array"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const std::string error = opening_error(c.bytes);
    INFO(error);
    CHECK(contains(error, c.expected));
    CHECK(contains(error, "bad.safetensors"));
    CHECK(error.size() < 2000);
  }
}

TEST_CASE("safetensors: the faults of all tensors come at once, the first twenty in full") {
  std::string header = "{";
  for (int i = 0; i < 30; ++i)
    header += cat(i == 0 ? "" : ",", "\"w", i, R"(":{"dtype":"F33","shape":[1],"data_offsets":[0,4]})");
  const std::string error = opening_error(file_of(header + "}", ""));
  for (int i = 0; i < 20; ++i) CHECK(contains(error, cat("tensor 'w", i, "': unknown dtype 'F33'")));
  CHECK_FALSE(contains(error, "'w20'"));
  CHECK(contains(error, "and 10 more"));
}

TEST_CASE(
    "safetensors: empty tensors, scalars and foreign formats are listed; foreign ones are refused when "
    "read") {
  const ScratchDir dir;
  const SafetensorsFile file(dir.write(
      "x.safetensors",
      file_of(
          R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"F32","shape":[0,9],"data_offsets":[4,4]},)"
          R"("i":{"shape":[1],"data_offsets":[4,12],"dtype":"I64"}}   )",
          test::bytes_of<float>({2.5f, 0, 0}))));
  float value = 0;
  file.read(*file.find("s"), 0, 1, &value, Dtype::f32);
  CHECK(value == 2.5f);
  file.read(*file.find("e"), 0, 0, nullptr, Dtype::f32);
  CHECK(file.find("i")->dtype_name == "I64");
  CHECK(contains(error_of(Blame::model, [&] { file.read(*file.find("i"), 0, 1, &value, Dtype::f32); }),
                 "tensor 'i' is stored as I64"));
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("safetensors: no header of nearly 100 MB takes more than 100 MB of memory") {
  const std::size_t size = 99'000'000;
  const std::string tensor = R"("dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  const auto many = [&](const std::string& padding) {
    std::string header = "{";
    for (int i = 0; header.size() < size - 500; ++i) header += cat("\"", i, padding, "\":{", tensor, ",");
    header.back() = '}';
    return header;
  };
  const auto many_metadata = [&] {
    std::string header = R"({"__metadata__":{)";
    for (int i = 0; header.size() < size; ++i) header += cat("\"", i, "\":\"\",");
    header.back() = '}';
    return header + "}";
  };
  const std::vector<std::pair<const char*, std::function<std::string()>>> cases = {
      {"one string", [&] { return R"({"__metadata__":{"a":")" + std::string(size, 'a') + "\"}}"; }},
      {"one name", [&] { return "{\"" + std::string(size, 'a') + "\":{}}"; }},
      {"escapes", [&] { return "{\"" + repeated("\\\"", size / 2) + "\":{}}"; }},
      {"one number", [&] { return R"({"w":{"shape":[)" + std::string(size, '1') + "]}}"; }},
      {"blanks", [&] { return "{" + std::string(size, ' ') + "}"; }},
      {"a long list", [&] { return R"({"w":{"shape":[)" + repeated("1,", size / 2) + "1]}}"; }},
      {"arrays", [&] { return "{\"w\":" + std::string(size, '['); }},
      {"objects", [&] { return repeated("{\"w\":", size / 5); }},
      {"many tensors", [&] { return many(""); }},
      {"many long names", [&] { return many(std::string(240, 'n')); }},
      {"much metadata", many_metadata},
      {"many faults",
       [&] {
         return "{" + repeated(R"("w":{"dtype":"?","shape":[0],"data_offsets":[0,0]},)", size / 52) +
                R"("v":{)" + tensor + "}";
       }},
  };
  for (const auto& [what, header] : cases) {
    CAPTURE(what);
    const ScratchDir dir;
    const auto path = dir.write("huge.safetensors", file_of(header(), ""));
    const pid_t child = fork();
    if (child == 0) {
      // A fresh program image would start small; here the peak is reset and only the growth counts.
      std::ofstream("/proc/self/clear_refs") << "5";
      const auto peak_kb = [] {
        std::ifstream status("/proc/self/status");
        for (std::string line; std::getline(status, line);)
          if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
        return 1L << 40;
      };
      const long before = peak_kb();
      const std::string error = error_of(Blame::model, [&] { SafetensorsFile{path}; });
      const long growth_mb = std::clamp((peak_kb() - before) / 1024, 0L, 254L);
      _exit(contains(error, "huge.safetensors") ? int(growth_mb) : 255);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) < 90);  // MB; 255 is a wrong outcome
  }
}
#endif

TEST_CASE("safetensors: any change of some bytes leaves a file that loads or a clear error") {
  const ScratchDir dir;
  const std::string good = good_file();
  const RandomStream random{.seed = 40};
  int loaded = 0, refused = 0;
  for (std::uint64_t variant = 0; variant < 20'000; ++variant) {
    std::string bytes = good;
    const auto w = random.words(variant);
    for (std::uint32_t flip = 0; flip <= w[0] % 3; ++flip) {
      const auto at = random.words(variant << 8 | (flip + 1) | 1ull << 40);
      // A third of the changes put in a character that means something in JSON.
      bytes[at[0] % bytes.size()] = at[1] % 3 == 0 ? "{}[]\",:0-9"[at[2] % 10] : char(at[2]);
    }
    if (w[1] % 16 == 0) bytes.resize(w[2] % bytes.size());
    const auto path = dir.write("v.safetensors", bytes);
    CAPTURE(variant);
    try {
      const SafetensorsFile file(path);
      std::vector<float> values(64);
      for (const StoredTensor& t : file.tensors())
        if (t.dtype) file.read(t, 0, elements_of(t.shape), values.data(), Dtype::f32);
      ++loaded;
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::model);
      CHECK(contains(e.what(), "v.safetensors"));
      ++refused;
    }
  }
  CHECK(loaded > 1000);
  CHECK(refused > 5000);
}

TEST_CASE("safetensors: offsets past 2 GiB are right") {
  const ScratchDir dir;
  const auto path = dir.path() / "sparse.safetensors";
  const std::int64_t rows = 1'200'000, cols = 500, elements = rows * cols;  // 2.4e9 bytes
  const std::string header = cat(
      R"({"big":{"dtype":"F32","shape":[)", rows, ",", cols, R"(],"data_offsets":[0,)", elements * 4,
      R"(]},"next":{"dtype":"F32","shape":[1],"data_offsets":[)", elements * 4, ",", elements * 4 + 4, "]}}");
  dir.write("sparse.safetensors", file_of(header, ""));
  {
    std::ofstream out(path, std::ios::binary | std::ios::in);
    out.seekp(std::int64_t(8 + header.size()) + elements * 4 - 8);
    out << test::bytes_of<float>({1.5f, 2.5f, 3.5f});
  }
  const SafetensorsFile file(path);
  std::vector<float> x(3, -1.f);
  file.read(*file.find("big"), elements - 3, 3, x.data(), Dtype::f32);
  CHECK(x == std::vector<float>{0.f, 1.5f, 2.5f});
  file.read(*file.find("next"), 0, 1, x.data(), Dtype::f32);
  CHECK(x[0] == 3.5f);
}

TEST_CASE("safetensors writer: pieces of tensors in any order make the file that was announced") {
  const ScratchDir dir;
  const auto path = dir.path() / "w.safetensors";
  const std::vector<float> a = {1, 2, 3, 4};
  const std::vector<bf16> b = {bf16(5.f), bf16(6.f), bf16(7.f)};
  const auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  {
    SafetensorsWriter writer(path,
                             {{"a", Dtype::f32, {2, 2}}, {"b", Dtype::bf16, {3}}, {"e", Dtype::f16, {0}}},
                             {{"format", "pt"}});
    writer.append("b", bytes(b).first(2));
    writer.append("a", bytes(a).first(8));
    writer.append("b", bytes(b).subspan(2));
    CHECK(contains(error_of(Blame::bug, [&] { writer.finish(); }), "tensor 'a' of"));
    CHECK_FALSE(std::filesystem::exists(path));
    writer.append("a", bytes(a).subspan(8));
    CHECK(contains(error_of(Blame::bug, [&] { writer.append("a", bytes(a).first(1)); }),
                   "got 1 bytes where 0 were left"));
    CHECK(contains(error_of(Blame::bug, [&] { writer.append("c", {}); }), "'c' was not announced"));
    writer.finish();
  }
  const std::string text = read_file(path);
  CHECK((text.size() - 22) % 8 == 0);  // the 16 + 6 bytes of data begin at a multiple of 8
  const SafetensorsFile file(path);
  std::vector<float> x(4);
  file.read(*file.find("a"), 0, 4, x.data(), Dtype::f32);
  CHECK(x == a);
  file.read(*file.find("b"), 0, 3, x.data(), Dtype::f32);
  CHECK(x == std::vector<float>{5, 6, 7, 4});
  CHECK(file.find("e")->shape == Shape{0});
  CHECK(file.metadata().at("format") == "pt");
}

TEST_CASE("safetensors writer: an unfinished file leaves nothing, a name twice is refused") {
  const ScratchDir dir;
  const auto path = dir.path() / "w.safetensors";
  {
    SafetensorsWriter writer(path, {{"a", Dtype::f32, {2}}}, {});
  }
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(contains(
      error_of(Blame::bug,
               [&] { SafetensorsWriter(path, {{"a", Dtype::f32, {2}}, {"a", Dtype::f32, {2}}}, {}); }),
      "'a' was to be written twice"));
  CHECK(contains(error_of(Blame::machine, [&] { SafetensorsWriter(dir.path() / "no" / "w", {}, {}); }),
                 "cannot create"));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("convert: every half and every bfloat16 survives float32, and float32 is rounded to even") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto u = std::uint16_t(bits);
    float wide = 0;
    std::uint16_t back = 0;
    for (const Dtype d : {Dtype::bf16, Dtype::f16}) {
      convert(reinterpret_cast<const std::byte*>(&u), d, &wide, Dtype::f32, 1);
      if (std::isnan(wide)) continue;
      convert(reinterpret_cast<const std::byte*>(&wide), Dtype::f32, &back, d, 1);
      REQUIRE(back == u);
    }
  }
  const std::vector<float> x = {1.00390625f, 1.01171875f, 3.4e38f, -1e-45f};  // ties: 1 + 2^-8, 1 + 3 * 2^-8
  std::vector<bf16> y(4);
  convert(reinterpret_cast<const std::byte*>(x.data()), Dtype::f32, y.data(), Dtype::bf16, 4);
  CHECK(y[0].bits == 0x3F80);
  CHECK(y[1].bits == 0x3F82);
  CHECK(y[2].bits == 0x7F80);
  CHECK(y[3].bits == 0x8000);
}
