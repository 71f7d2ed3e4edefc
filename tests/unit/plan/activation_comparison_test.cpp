#include "plan/activation_comparison.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "plan/published_activations.h"

namespace zt::plan {
namespace {

spec::ModelSpec gpt(int hidden, int heads, int inner = 0) {
  nlohmann::json config = {{"model_type", "gpt2"}, {"n_embd", hidden},      {"n_head", heads},
                           {"n_layer", 2},         {"n_positions", 100000}, {"vocab_size", 64}};
  if (inner > 0) config["n_inner"] = inner;
  return spec::from_config(config, "gpt");
}

spec::ModelSpec llama(const char* type = "llama") {
  return spec::from_config({{"model_type", type},
                            {"hidden_size", 96},
                            {"num_hidden_layers", 2},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 2},
                            {"head_dim", 24},
                            {"intermediate_size", 160},
                            {"vocab_size", 64},
                            {"max_position_embeddings", 4096}},
                           type);
}

struct Sums {
  std::int64_t published = 0, ours = 0, difference = 0;
};

Sums sums(const std::vector<ActivationTerm>& terms) {
  Sums s;
  for (const ActivationTerm& term : terms) {
    s.published += term.published;
    s.ours += term.ours;
    s.difference += term.difference();
  }
  return s;
}

const ActivationTerm& term(const std::vector<ActivationTerm>& terms, const std::string& what) {
  const auto found = std::ranges::find(terms, what, &ActivationTerm::what);
  REQUIRE_MESSAGE(found != terms.end(), what);
  return *found;
}

constexpr auto kKorthikanti = ActivationFormula::korthikanti, kMegatron = ActivationFormula::megatron;

TEST_CASE("activations: ours are the published ones and the sum of the differences, to the byte") {
  const struct {
    int hidden, heads;
    std::int64_t rows, length;
  } shapes[] = {{768, 12, 4, 1024}, {1600, 25, 1, 1024}, {12288, 96, 1, 2048}, {20, 5, 3, 7}, {64, 1, 1, 1}};
  for (const auto& shape : shapes) {
    for (const int flags : {0, 1, 2, 3}) {
      CAPTURE(shape.hidden);
      CAPTURE(flags);
      const spec::ModelSpec model = gpt(shape.hidden, shape.heads);
      const RunShape run{shape.rows * shape.length, 2, flags % 2 > 0, flags / 2 > 0};
      const ActivationShape paper{double(shape.rows), double(shape.length), double(shape.hidden),
                                  double(shape.heads)};
      const Sums k = sums(activation_terms(model, run, shape.length, kKorthikanti));
      CHECK(double(k.published) == doctest::Approx(korthikanti_activations(ActivationRow::none, paper)));
      CHECK(k.ours == saved_buffers(model, run).bytes());
      CHECK(k.ours == k.published + k.difference);
      const Sums m = sums(activation_terms(model, run, shape.length, kMegatron));
      CHECK(double(m.published) == doctest::Approx(megatron_activations(paper, 4.0 * shape.hidden)));
      CHECK(m.ours == saved_buffers(model, run).bytes());
      CHECK(m.ours == m.published + m.difference);
    }
  }
}

TEST_CASE("activations: the published side is exactly 34 s b h + 5 a s^2 b in whole bytes") {
  const std::int64_t s = 1024, b = 3, h = 768, a = 12;
  const RunShape run{s * b, 2, true};
  CHECK(sums(activation_terms(gpt(h, a), run, s, kKorthikanti)).published ==
        34 * s * b * h + 5 * a * s * s * b);
  CHECK(sums(activation_terms(gpt(h, a, 1000), run, s, kMegatron)).published == s * b * (18 * h + 4 * 1000));
  // Korthikanti's MLP is four widths whatever ours is.
  CHECK(sums(activation_terms(gpt(h, a, 1000), run, s, kKorthikanti)).published ==
        34 * s * b * h + 5 * a * s * s * b);
}

TEST_CASE("activations: of Korthikanti's 34 a GPT block holds 30, and each missing byte has its reason") {
  const std::int64_t s = 512, b = 2, h = 768, a = 12, sbh = s * b * h;
  for (const bool dropout : {false, true}) {
    const auto terms = activation_terms(gpt(h, a), {s * b, 2, dropout}, s, kKorthikanti);
    const struct {
      const char* what;
      std::int64_t published, ours;
    } rows[] = {{"the block's input", 2 * sbh, 0},
                {"input of Q, K and V", 2 * sbh, 2 * sbh},
                {"Q, K and V", 6 * sbh, 6 * sbh},
                {"softmax's output", 2 * a * s * s * b, 0},
                {"dropout mask of the softmax", a * s * s * b, 0},
                {"softmax's output after dropout", 2 * a * s * s * b, 0},
                {"input of the output projection", 2 * sbh, 2 * sbh},
                {"dropout mask after the attention", sbh, 0},
                {"input of the second norm", 2 * sbh, 2 * sbh},
                {"input of the MLP", 2 * sbh, 2 * sbh},
                {"input of the activation", 8 * sbh, 8 * sbh},
                {"input of the MLP's second layer", 8 * sbh, 8 * sbh},
                {"dropout mask after the MLP", sbh, 0},
                {"log-sum-exp of the scores", 0, 4 * a * s * b},
                {"the norms' statistics", 0, 16 * s * b}};
    CHECK(terms.size() == std::size(rows));
    for (const auto& row : rows) {
      CAPTURE(std::string(row.what));
      CHECK(term(terms, row.what).published == row.published);
      CHECK(term(terms, row.what).ours == row.ours);
      CHECK(term(terms, row.what).why.empty() == (row.published == row.ours));
    }
    CHECK(sums(terms).ours == 30 * sbh + (16 + 4 * a) * s * b);
    CHECK(term(terms, "dropout mask after the MLP").why ==
          (dropout ? "made again from the token's number" : "no dropout in this run"));
  }
}

TEST_CASE("activations: selective recomputation shows as what is made again") {
  const auto terms = activation_terms(gpt(768, 12), {1024, 2, true, true}, 1024, kKorthikanti);
  for (const char* what : {"input of Q, K and V", "input of the MLP", "input of the MLP's second layer"}) {
    CHECK(term(terms, what).ours == 0);
    CHECK(term(terms, what).why == "made again from what is kept");
  }
}

TEST_CASE("activations: wider numbers, gates, fewer key heads and norms of heads are explained as such") {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    for (const int bytes : {2, 4}) {
      for (const ActivationFormula formula : {kKorthikanti, kMegatron}) {
        CAPTURE(std::string(type));
        const spec::ModelSpec model = llama(type);
        const RunShape run{77, bytes, false};
        const auto terms = activation_terms(model, run, 11, formula);
        const Sums s = sums(terms);
        CHECK(s.ours == saved_buffers(model, run).bytes());
        CHECK(s.ours == s.published + s.difference);
        for (const ActivationTerm& t : terms) {
          CAPTURE(t.what);
          if (t.difference() != 0) CHECK_FALSE(t.why.empty());
          CHECK(t.why != "not in the formula");
        }
        CHECK(
            term(terms, "Q, K and V").why.starts_with("6 heads of queries and 2 of keys and values, of 24"));
        CHECK(term(terms, "input of the activation").why.starts_with("a gate and a value, 160 wide each"));
        const bool wide = term(terms, "input of the MLP").why == "4 bytes a number, not 2";
        CHECK(wide == (bytes == 4));
      }
    }
  }
  const auto qwen3 = activation_terms(llama("qwen3"), {64, 2, false}, 64, kKorthikanti);
  CHECK(term(qwen3, "queries and keys before their norms").ours == 64 * (6 + 2) * 24 * 2);
}

TEST_CASE("activations: gaps between buffers are a term of their own, under 64 bytes each") {
  const spec::ModelSpec model = gpt(20, 5);
  const RunShape run{7, 2, true};
  const ActivationTerm gaps = term(activation_terms(model, run, 7, kKorthikanti), "gaps");
  CHECK(gaps.ours > 0);
  CHECK(gaps.ours < 64 * std::int64_t(saved_buffers(model, run).list().size()));
}

TEST_CASE("activations: the table shows every term, the sum, and which formula it is") {
  const spec::ModelSpec model = gpt(768, 12);
  const RunShape run{4096, 2, true};
  const std::string text = activation_comparison(model, run, 1024);
  CHECK(text.find("34 + 5 a s / h") != std::string::npos);
  for (const ActivationTerm& t : activation_terms(model, run, 1024, kKorthikanti)) {
    CHECK(text.find(t.what) != std::string::npos);
    CHECK(text.find(t.why) != std::string::npos);
  }
  // 34 x 4096 x 768 + 5 x 12 x 1024 x 4096 published; 30 x 4096 x 768 + (16 + 4 x 12) x 4096 ours.
  CHECK(text.find("358,612,992") != std::string::npos);
  CHECK(text.find("94,633,984") != std::string::npos);
  CHECK(text.find("-263,979,008") != std::string::npos);
  CHECK(text.find(" \n") == std::string::npos);
  CHECK(activation_comparison(model, run, 1024, kMegatron).find("18 + 4 f / h") != std::string::npos);
}

TEST_CASE("activations: more bytes than 63 bits hold are refused, not wrapped") {
  CHECK_THROWS_WITH_AS(
      activation_terms(gpt(768, 12), {std::int64_t{1} << 40, 2, true}, std::int64_t{1} << 30, kKorthikanti),
      doctest::Contains("2^63"), Error);
}

}  // namespace
}  // namespace zt::plan
