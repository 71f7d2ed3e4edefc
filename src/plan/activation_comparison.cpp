#include "plan/activation_comparison.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace zt::plan {

namespace {

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result))
      throw Error(Blame::usage, "the activations of one block are more than 2^63 bytes",
                  "fewer rows in a micro-batch, or shorter ones");
  }
  return result;
}

// Terms of a formula beside the buffers of a block; what no term asked for becomes a term of its own.
class Comparison {
 public:
  Comparison(const spec::ModelSpec& model, const RunShape& run, ActivationFormula formula)
      : model_(model), run_(run), formula_(formula), kept_(saved_buffers(model, run)), left_(kept_.list()) {}

  // A matrix of `columns` 2-byte numbers a token in the formula, and the buffer `name` here.
  void matrix(const std::string& what, std::string_view name, std::int64_t columns,
              const std::string& why_other_width) {
    const std::int64_t published = product({run_.tokens, columns, 2});
    const auto found = std::ranges::find(left_, name, &Buffer::name);
    if (found == left_.end()) {
      terms_.push_back({what, published, 0, "made again from what is kept"});
      return;
    }
    std::vector<std::string> why;
    if (found->cols != columns) why.push_back(why_other_width);
    if (found->element_bytes != 2) why.push_back(cat(found->element_bytes, " bytes a number, not 2"));
    terms_.push_back({what, published, bytes(*found), join(why, "; ")});
    left_.erase(found);
  }

  void never_kept(const std::string& what, std::int64_t published, const std::string& why) {
    if (published > 0) terms_.push_back({what, published, 0, why});
  }

  // Buffers of which the formula knows nothing.
  void besides(const std::string& what, std::initializer_list<std::string_view> names,
               const std::string& why) {
    std::int64_t sum = 0;
    for (const std::string_view name : names) {
      const auto found = std::ranges::find(left_, name, &Buffer::name);
      if (found == left_.end()) continue;
      sum += bytes(*found);
      left_.erase(found);
    }
    if (sum > 0) terms_.push_back({what, 0, sum, why});
  }

  std::vector<ActivationTerm> done() {
    for (const Buffer& buffer : left_)
      terms_.push_back({std::string(buffer.name), 0, bytes(buffer), "not in the formula"});
    std::int64_t gaps = kept_.bytes();
    for (const ActivationTerm& term : terms_) gaps -= term.ours;
    if (gaps > 0) terms_.push_back({"gaps", 0, gaps, "each buffer starts on a multiple of 64 bytes"});
    return std::move(terms_);
  }

  const spec::ModelSpec& model() const { return model_; }
  std::int64_t tokens() const { return run_.tokens; }
  bool dropout() const { return run_.dropout; }
  bool counts_scores() const { return formula_ == ActivationFormula::korthikanti; }
  std::int64_t inner() const {
    return counts_scores() ? 4 * std::int64_t{model_.hidden} : std::int64_t{model_.intermediate};
  }

 private:
  static std::int64_t bytes(const Buffer& buffer) {
    return product({buffer.rows, buffer.cols, buffer.element_bytes});
  }

  const spec::ModelSpec& model_;
  RunShape run_;
  ActivationFormula formula_;
  BufferSet kept_;
  std::vector<Buffer> left_;
  std::vector<ActivationTerm> terms_;
};

void add_mask(Comparison& c, const std::string& where) {
  c.never_kept(cat("dropout mask after the ", where), product({c.tokens(), c.model().hidden}),
               c.dropout() ? "made again from the token's number" : "no dropout in this run");
}

void add_scores(Comparison& c, std::int64_t sequence_length) {
  if (!c.counts_scores()) return;
  const std::int64_t scores = product({c.model().heads, c.tokens(), sequence_length});
  const std::string why = "never in memory: scores are made tile by tile";
  c.never_kept("softmax's output", product({scores, 2}), why);
  c.never_kept("dropout mask of the softmax", scores, why);
  c.never_kept("softmax's output after dropout", product({scores, 2}), why);
}

void add_attention(Comparison& c, std::int64_t sequence_length) {
  const spec::ModelSpec& m = c.model();
  const std::int64_t h = m.hidden;
  c.never_kept("the block's input", product({c.tokens(), h, 2}), "counted with the block that made it");
  c.matrix("input of Q, K and V", "norm1.out", h, "");
  c.matrix("Q, K and V", "qkv", 3 * h,
           cat(m.heads, " heads of queries and ", m.kv_heads, " of keys and values, of ", m.head_size));
  add_scores(c, sequence_length);
  c.matrix("input of the output projection", "attention.out", h,
           cat(m.heads, " heads of ", m.head_size, " are not ", h, " wide"));
  add_mask(c, "attention");
  c.matrix("input of the second norm", "middle", h, "");
}

void add_mlp(Comparison& c) {
  const spec::ModelSpec& m = c.model();
  const bool gated = m.family == spec::Family::llama;
  const std::string width = cat(m.intermediate, " wide, not ", c.inner());
  c.matrix("input of the MLP", "norm2.out", m.hidden, "");
  c.matrix("input of the activation", "mlp.in", c.inner(),
           gated ? cat("a gate and a value, ", m.intermediate, " wide each; the formula has one, ", c.inner(),
                       " wide")
                 : width);
  c.matrix("input of the MLP's second layer", "mlp.out", c.inner(), width);
  add_mask(c, "MLP");
}

void add_ours(Comparison& c) {
  c.besides("log-sum-exp of the scores", {"lse"},
            "4 bytes a token and head, from which scores are made again");
  c.besides("the norms' statistics",
            {"norm1.r", "norm1.mean", "norm2.r", "norm2.mean", "q_norm.r", "k_norm.r"}, "4 bytes each");
  c.besides("queries and keys before their norms", {"qk.raw"}, "the formula knows no such norms");
}

std::string table_row(const std::string& what, const std::string& published, const std::string& ours,
                      const std::string& difference, const std::string& why) {
  std::string row = fmt::format("  {:<33} {:>20} {:>20} {:>20}  {}", what, published, ours, difference, why);
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

std::string table_row(const ActivationTerm& term) {
  const std::int64_t difference = term.difference();
  return table_row(term.what, with_commas(term.published), with_commas(term.ours),
                   (difference > 0 ? "+" : "") + with_commas(difference), term.why);
}

}  // namespace

std::vector<ActivationTerm> activation_terms(const spec::ModelSpec& model, const RunShape& run,
                                             std::int64_t sequence_length, ActivationFormula formula) {
  Comparison comparison(model, run, formula);
  add_attention(comparison, sequence_length);
  add_mlp(comparison);
  add_ours(comparison);
  return comparison.done();
}

std::string activation_comparison(const spec::ModelSpec& model, const RunShape& run,
                                  std::int64_t sequence_length, ActivationFormula formula) {
  const bool scores = formula == ActivationFormula::korthikanti;
  std::string out = cat(
      "bytes that one block keeps from forward to backward, ", with_commas(run.tokens), " tokens in rows of ",
      with_commas(sequence_length), "; the formula is ",
      scores ? "s b h (34 + 5 a s / h) of Korthikanti et al. 2022" : "s b h (18 + 4 f / h) of Megatron-LM",
      "\n");
  out += table_row("", "formula", "this plan", "difference", "");
  ActivationTerm sum{"sum", 0, 0, ""};
  for (const ActivationTerm& term : activation_terms(model, run, sequence_length, formula)) {
    out += table_row(term);
    sum.published += term.published;
    sum.ours += term.ours;
  }
  return out + table_row(sum);
}

}  // namespace zt::plan
