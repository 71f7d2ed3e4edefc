#include "data/summary.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "recipe/words.h"

namespace zt::data {
namespace {

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

std::string counted(std::int64_t count, const char* one, const char* many) {
  return cat(with_commas(count), " ", count == 1 ? one : many);
}

std::string line_of(const SourceReport& r, const recipe::Data& settings) {
  const std::string what = cat(r.validation ? "validation" : "training", " ", r.name, ": ");
  const std::string rows = cat(counted(r.tokens, "token", "tokens"), ", ",
                               percent(static_cast<double>(r.trained), static_cast<double>(r.tokens)),
                               " trained, in ", counted(r.packed_rows, "row", "rows"), " of up to ", r.length,
                               ", ", percent(r.efficiency(), 1), " full");
  if (r.raw_text) return cat(what, counted(r.documents, "document", "documents"), "; ", rows);
  std::vector<std::string> left_out;
  if (r.held_out > 0)
    left_out.push_back(cat(with_commas(r.held_out), r.validation ? " for training" : " for validation"));
  if (r.overlong > 0) left_out.push_back(cat(with_commas(r.overlong), " longer than data.sequence_length"));
  if (r.untrained > 0) left_out.push_back(cat(with_commas(r.untrained), " without a token to train"));
  if (r.faulty > 0) left_out.push_back(cat(with_commas(r.faulty), " bad"));
  std::string text = cat(what, with_commas(r.documents), " of ", counted(r.rows, "row", "rows"), " used");
  if (!left_out.empty()) text += cat(" (left out: ", join(left_out, ", "), ")");
  if (r.cut > 0) text += cat(", ", with_commas(r.cut), " cut at ", settings.sequence_length);
  if (r.had_bom) text += ", a byte-order mark skipped";
  text += cat("; ", rows);
  constexpr std::int64_t kShown = 3;
  const auto known = static_cast<std::int64_t>(r.examples.size());
  for (std::int64_t i = 0; i < std::min(known, kShown); ++i)
    text += "\n  left out: " + r.examples[static_cast<std::size_t>(i)];
  if (const std::int64_t more = r.overlong + r.untrained - kShown; more > 0)
    text += cat("\n  left out: ", with_commas(more), " more");
  return text;
}

// With so many decimal places, and more where these would say all or nothing.
std::string rounded(double number, double whole, int places) {
  const double half = 0.5 * std::pow(10.0, -places);
  const bool shown = number == 0 || number == whole || (number >= half && std::abs(number - whole) >= half);
  return shown ? fmt::format("{:.{}f}", number, places) : fmt::format("{:.6g}", number);
}

// How often an epoch goes through each source.
std::vector<std::string> mixture_of(const Dataset& train) {
  std::vector<std::string> lines;
  if (train.sources().size() < 2) return lines;
  double weights = 0;
  for (const auto& source : train.sources())
    weights += source.weight.value_or(static_cast<double>(source.rows->rows()));
  for (const auto& source : train.sources()) {
    const double share = source.weight.value_or(static_cast<double>(source.rows->rows())) / weights;
    const auto rows = static_cast<double>(source.rows->rows());
    const double passes = share * static_cast<double>(train.rows()) / rows;
    lines.push_back(fmt::format(
        "mixture: {} % of the rows from {}, {} passes over it in an epoch of {} rows{}",
        rounded(100 * share, 100, 1), source.name, rounded(passes, 0, 2), with_commas(train.rows()),
        passes > 1.005 ? ": it repeats, in fresh order each time" : ""));
  }
  return lines;
}

}  // namespace

std::string trained_share(const DataSets& sets, const recipe::Data& settings) {
  std::int64_t tokens = 0, trained = 0;
  for (const SourceReport& r : sets.reports) {
    if (r.validation) continue;
    tokens += r.tokens;
    trained += r.trained;
  }
  return cat(percent(static_cast<double>(trained), static_cast<double>(tokens)), " of ", with_commas(tokens),
             " tokens are trained (train_on: ", recipe::word_of(settings.train_on), ")");
}

std::vector<std::string> summary_of(const DataSets& sets, const recipe::Data& settings) {
  std::vector<std::string> lines;
  for (const SourceReport& report : sets.reports) lines.push_back(line_of(report, settings));
  if (sets.train) {
    for (std::string& line : mixture_of(*sets.train)) lines.push_back(std::move(line));
    lines.push_back(trained_share(sets, settings));
  }
  return lines;
}

}  // namespace zt::data
