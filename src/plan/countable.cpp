#include "plan/countable.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {
namespace {

// Of one slot of a step's list, see schedule/plan.cpp.
constexpr double kMostOfSlot = static_cast<double>(std::int64_t{1} << 46);

// Numbers of any size for people: "2.5 EiB".
std::string size_words(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 6; ++unit) bytes /= 1024;
  return bytes < 1e6 ? fmt::format("{:.2f} {}", bytes, kUnits[unit])
                     : fmt::format("{:.2e} {}", bytes, kUnits[unit]);
}

// All that a block's forward and backward hold for one token, from above.
double widths(const spec::ModelSpec& m) {
  return 8.0 * m.hidden + 8.0 * (double{1} * m.heads + 2.0 * m.kv_heads) * m.head_size +
         8.0 * m.intermediate + 4.0 * m.heads;
}

}  // namespace

std::int64_t capped(double bytes) { return static_cast<std::int64_t>(std::min(bytes, kMostCounted)); }

void require_countable(const spec::ModelSpec& model, const StepShape& shape) {
  Problems problems;
  const auto check = [&](const char* what, double bytes, double most) {
    if (bytes > most)
      problems.add(cat(what, ": ", size_words(bytes), "; the planner counts up to ", size_words(most)));
  };
  const double ranks = shape.partition.ranks, micros = static_cast<double>(shape.micros);
  double elements = 0, largest = 0;
  for (const spec::BlockSpec& block : model.blocks) {
    const double padded = static_cast<double>(block.elements) + 33.0 * ranks;
    elements += padded;
    largest = std::max(largest, padded);
  }
  const double length = static_cast<double>(shape.sequence_length);
  const double tokens =
      length * static_cast<double>(std::max(shape.training ? shape.rows : 0, shape.eval_rows));
  check("master copy and moments of the largest block",
        12 * largest / (shape.partition.update_whole ? 1 : ranks), kMostOfSlot);
  check("gradient of the largest block", 4 * largest, kMostOfSlot);
  check("activations of a block", 4 * tokens * widths(model), kMostOfSlot);
  check("ids of a step's batches", 20 * tokens * (micros + 1), kMostOfSlot);
  check("state of the whole model", 24 * elements, kMostCounted);
  check("traffic of a step", 16 * elements * (micros + 1), kMostCounted);
  problems.throw_if_any(Blame::usage, "this run is too large to be planned:");
}

}  // namespace zt::plan
