// Why a block of ours keeps another number of bytes for its backward than a published formula says, term by
// term.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/buffers.h"
#include "spec/model.h"

namespace zt::plan {

// korthikanti: s b h (34 + 5 a s / h), an MLP of 4 h. megatron: s b h (18 + 4 f / h), attention scores not
// kept.
enum class ActivationFormula : std::uint8_t { korthikanti, megatron };

// One thing that the formula counts, or that we keep besides.
struct ActivationTerm {
  std::string what;
  std::int64_t published = 0, ours = 0;  // bytes of one block
  std::string why;                       // they differ; empty where they don't
  std::int64_t difference() const { return ours - published; }
};

// The sum of `ours` is saved_buffers(model, run).bytes(), and that of `published` the formula; both exactly.
// The formula counts 2-byte numbers, whatever `run` says. Error(usage) where bytes do not fit 63 bits.
std::vector<ActivationTerm> activation_terms(const spec::ModelSpec& model, const RunShape& run,
                                             std::int64_t sequence_length, ActivationFormula formula);

// A table of them for people, with sums.
std::string activation_comparison(const spec::ModelSpec& model, const RunShape& run,
                                  std::int64_t sequence_length,
                                  ActivationFormula formula = ActivationFormula::korthikanti);

}  // namespace zt::plan
