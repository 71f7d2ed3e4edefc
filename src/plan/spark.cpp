#include "plan/spark.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {
namespace {

constexpr int kLevels = 8;
constexpr std::array<const char*, kLevels> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, kLevels> kAscii = {"_", ".", ":", "-", "=", "+", "*", "#"};

// The most of the ops of each cell; where there are more cells than ops, an op has several.
std::vector<std::int64_t> cells_of(const MemoryStack& stack, std::size_t width) {
  const std::size_t n = stack.ops();
  std::vector<std::int64_t> cells(width, stack.constant);
  for (std::size_t c = 0; c < width && n > 0; ++c) {
    const std::size_t from = c * n / width, to = std::max(from + 1, (c + 1) * n / width);
    for (std::size_t i = from; i < to; ++i) cells[c] = std::max(cells[c], stack.total(i));
  }
  return cells;
}

// The lowest level is the constant part only, and the highest the peak only.
int level(std::int64_t bytes, std::int64_t low, std::int64_t high) {
  if (bytes >= high) return high > low ? kLevels - 1 : 0;
  if (bytes <= low) return 0;
  return 1 + int(double(bytes - low) / double(high - low) * (kLevels - 2));
}

}  // namespace

std::string spark_line(const MemoryStack& stack, const std::vector<schedule::Op>& ops,
                       const SparkStyle& style) {
  if (stack.ops() != ops.size())
    throw Error(Blame::bug, cat("memory of ", stack.ops(), " ops for a list of ", ops.size()));
  const int at = peak_op(stack);
  const std::int64_t peak = at < 0 ? stack.constant : stack.total(std::size_t(at));
  const auto& marks = style.ascii ? kAscii : kBlocks;
  std::string out;
  for (const std::int64_t bytes : cells_of(stack, std::size_t(std::max(style.width, 8))))
    out += marks[std::size_t(level(bytes, stack.constant, peak))];
  out += cat("\n", marks.front(), " ", human_bytes(stack.constant), " always");
  if (at >= 0)
    out +=
        cat(", ", peak > stack.constant ? marks.back() : marks.front(), " peak ", human_bytes(peak), " at ",
            name(ops[std::size_t(at)]), " (#", at, " of ", with_commas(std::int64_t(ops.size())), " ops)");
  return out + "\n";
}

}  // namespace zt::plan
