#include "parity/parity.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace zt::parity {
namespace {

constexpr std::int64_t kGuard = 67;              // elements on either side; odd, so that rows are not aligned
constexpr std::uint32_t kPattern = 0x7fc5a5c5u;  // a quiet NaN that no computation makes; so are its halves

double load(Dtype dtype, const char* at) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case Dtype::f32: return read(0.f);
    case Dtype::bf16: return float(read(bf16()));
    case Dtype::f16: return float(read(f16()));
    case Dtype::i32: return read(std::int32_t{0});
  }
  return 0;
}

void store(Dtype dtype, char* at, double value) {
  const auto write = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case Dtype::f32: return write(float(value));
    case Dtype::bf16: return write(bf16(float(value)));
    case Dtype::f16: return write(f16(float(value)));
    case Dtype::i32: return write(std::int32_t(value));
  }
}

void store_pattern(Dtype dtype, char* at) {
  const std::uint32_t word = kPattern;
  const std::uint16_t half = kPattern >> 16;
  if (size_of(dtype) == 4)
    std::memcpy(at, &word, 4);
  else
    std::memcpy(at, &half, 2);
}

bool is_pattern(Dtype dtype, const char* at) {
  char expected[4];
  store_pattern(dtype, expected);
  return std::memcmp(at, expected, static_cast<std::size_t>(size_of(dtype))) == 0;
}

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::abs(a - b);
  return std::isnan(d) ? INFINITY : d;
}

// Spacing of the format's numbers around x.
double ulp_of(Dtype dtype, double x) {
  int exponent = 0;
  std::frexp(std::max(std::abs(x), 0x1p-126), &exponent);
  return std::ldexp(2 * unit_of(dtype), exponent - 1);
}

}  // namespace

Guarded::Guarded(Dtype dtype, std::int64_t rows, std::int64_t cols, std::int64_t gap)
    : dtype_(dtype), rows_(rows), cols_(cols), stride_(cols + gap) {
  const std::int64_t elements = rows_ * stride_ + 2 * kGuard;
  bytes_.resize(static_cast<std::size_t>(elements * size_of(dtype)));
  for (std::int64_t i = 0; i < elements; ++i) store_pattern(dtype_, bytes_.data() + i * size_of(dtype));
}

char* Guarded::at(std::int64_t row, std::int64_t col) const {
  return bytes_.data() + (kGuard + row * stride_ + col) * size_of(dtype_);
}

View Guarded::view() const { return bytes_.empty() ? View() : View(at(0, 0), dtype_, rows_, cols_, stride_); }

double Guarded::get(std::int64_t row, std::int64_t col) const { return load(dtype_, at(row, col)); }
void Guarded::set(std::int64_t row, std::int64_t col, double value) { store(dtype_, at(row, col), value); }

Vec Guarded::values() const {
  Vec out;
  out.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t r = 0; r < rows_; ++r)
    for (std::int64_t c = 0; c < cols_; ++c) out.push_back(get(r, c));
  return out;
}

Guarded& Guarded::assign(const Vec& values) {
  REQUIRE(std::int64_t(values.size()) == size());
  for (std::int64_t i = 0; i < size(); ++i) set(i / cols_, i % cols_, values[std::size_t(i)]);
  return *this;
}

Guarded& Guarded::fill(double value) { return assign(Vec(std::size_t(size()), value)); }

Guarded& Guarded::fill_normal(std::uint64_t seed, double scale, double mean) {
  const RandomStream stream{.seed = seed};
  for (std::int64_t i = 0; i < size(); ++i) {
    const auto words = stream.words(std::uint64_t(i));
    set(i / cols_, i % cols_, mean + scale * normal_pair(words[0], words[1])[0]);
  }
  return *this;
}

Guarded& Guarded::fill_ids(std::uint64_t seed, std::int64_t limit) {
  const RandomStream stream{.seed = seed};
  for (std::int64_t i = 0; i < size(); ++i)
    set(i / cols_, i % cols_, double(stream.u64(std::uint64_t(i)) % std::uint64_t(limit)));
  return *this;
}

std::string Guarded::damage() const {
  const std::int64_t elements = std::int64_t(bytes_.size()) / size_of(dtype_);
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t inside = i - kGuard;
    if (inside >= 0 && inside < rows_ * stride_ && inside % stride_ < cols_) continue;
    const char* const here = bytes_.data() + i * size_of(dtype_);
    if (!is_pattern(dtype_, here))
      return cat("guard damaged at element ", inside, " of a ", rows_, " x ", cols_, " matrix of stride ",
                 stride_, ": now ", load(dtype_, here));
  }
  return "";
}

double unit_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 0x1p-24;
    case Dtype::bf16: return 0x1p-8;
    case Dtype::f16: return 0x1p-11;
    case Dtype::i32: return 0;
  }
  return 0;
}

// Half the spacing of the format's smallest numbers: the rounding error below its normal range.
static double least_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 0x1p-150;
    case Dtype::bf16: return 0x1p-134;
    case Dtype::f16: return 0x1p-25;
    case Dtype::i32: return 0;
  }
  return 0;
}

std::string differs(const Vec& actual, const Vec& expected, const Bound& bound) {
  if (actual.size() != expected.size()) return cat("sizes differ: ", actual.size(), " and ", expected.size());
  double worst = 1;
  std::string text;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double e = expected[i], d = distance(actual[i], e);
    const double allowed = std::max(unit_of(bound.out) * std::abs(e), least_of(bound.out)) +
                           bound.steps * 0x1p-24 * (std::abs(e) + bound.size) + 0x1p-149;
    const double excess = std::isfinite(allowed) ? d / allowed : d;
    if (excess <= worst) continue;
    worst = excess;
    text = cat("[", i, "] of ", actual.size(), ": ", actual[i], ", exactly ", e, "; distance ", d, " = ",
               d / ulp_of(bound.out, e), " ulp of ", name(bound.out), ", allowed ", allowed, " (", bound.why,
               ")");
  }
  return text;
}

void check_close(const char* name, const Guarded& actual, const Vec& expected, const Bound& bound) {
  INFO("buffer ", std::string(name));
  CHECK(differs(actual.values(), expected, bound) == "");
  CHECK(actual.damage() == "");
}

void check_equal(const char* name, const Guarded& actual, const Vec& expected) {
  check_close(name, actual, expected, {Dtype::i32, 0, 0, "must be equal"});
}

Vec finite_differences(const std::function<double(const Vec&)>& f, const Vec& x, double step) {
  Vec gradient(x.size()), moved = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + step;
    const double above = f(moved);
    moved[i] = x[i] - step;
    gradient[i] = (above - f(moved)) / (2 * step);
    moved[i] = x[i];
  }
  return gradient;
}

double dot(const Vec& a, const Vec& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double largest(const Vec& a) {
  double most = 0;
  for (const double x : a) most = std::max(most, std::abs(x));
  return most;
}

const std::vector<std::int64_t>& ragged() {
  static const std::vector<std::int64_t> sizes = {1, 2, 3, 15, 16, 17, 63, 64, 65, 257};
  return sizes;
}

const std::vector<Dtype>& formats() {
  static const std::vector<Dtype> all = {Dtype::f32, Dtype::bf16, Dtype::f16};
  return all;
}

void with_threads(int threads, const std::function<void()>& work) {
#ifdef _OPENMP
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  work();
  omp_set_num_threads(before);
#else
  (void)threads;
  work();
#endif
}

}  // namespace zt::parity
