// Probes whose losses, gradient norms and updates follow by hand: a model of one block that adds nothing, with
// an embedding of orthogonal tokens. With a zero head every loss is ln V and only the head learns; after one
// step the sign of head[j, i] says whether j was trained after i. So shifted labels, wrong masks and
// denominators, and leaks between documents show without looking inside.
#include <doctest/doctest.h>

#include <cmath>

#include "device/arena.h"
#include "kernels/kernels.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

using Pairs = std::vector<std::pair<int, int>>;  // input, target

struct Probe {
  spec::ModelSpec model;
  std::int64_t length;
  std::vector<exec::HostBatch> micros;
  std::unique_ptr<exec::Engine> engine;

  Probe(int vocabulary, const std::vector<data::Row>& rows, std::int64_t micro_rows, std::int64_t row_length,
        int heads = 1, const std::function<float(int, int)>& head = nullptr)
      : model(probe_model(vocabulary, heads)),
        length(row_length),
        micros(micro_batches(rows, micro_rows, row_length)) {
    exec::EngineOptions o;
    o.shape.sequence_length = length;
    o.shape.rows = o.shape.eval_rows = micro_rows;
    o.shape.micros = std::int64_t(micros.size());
    engine = std::make_unique<exec::Engine>(model, o);
    fill_probe(engine->params(), model, head);
  }

  double mean_loss = 0;
  exec::StepResult step(float decay = 0.f) {
    kernels::AdamW adam;
    adam.lr = 0.01f;
    adam.decay = decay;
    const auto r = engine->train_step(micros, supervised(micros), 1, adam, 0);
    mean_loss = r.loss_sum / double(supervised(micros));
    return r;
  }
  Floats weights(const std::string& role) const {
    Floats found;
    for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
      if (tensor.role == role) found = weights_of(engine->params(), block, tensor);
    });
    REQUIRE_FALSE(found.empty());
    return found;
  }
};

// After one AdamW step with learning rate 0.01 from a zero head: +0.01 where i -> j was trained, -0.01
// elsewhere in the columns of trained inputs, and exactly 0 in all others.
void check_head(const Probe& probe, const Pairs& trained) {
  const int V = probe.model.vocab;
  const Floats head = probe.weights("lm_head.weight");
  for (int i = 0; i < V; ++i) {
    const bool is_input = std::ranges::any_of(trained, [&](const auto& pair) { return pair.first == i; });
    for (int j = 0; j < V; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      const float value = head[std::size_t(j * V + i)];
      const bool is_pair = std::ranges::find(trained, std::pair(i, j)) != trained.end();
      if (!is_input) CHECK(value == 0.f);
      if (is_input) CHECK(value == doctest::Approx(is_pair ? 0.01 : -0.01).epsilon(1e-4));
    }
  }
}

TEST_CASE("probe: a zero head loses ln V, with the gradient norm of each set of trained pairs") {
  struct Case {
    std::vector<data::Row> rows;
    double norm;
    Pairs trained;
  };
  // sqrt(V - 1) / sqrt(n) for n different inputs; sqrt(V / 2 - 1) for one input with two targets.
  const std::vector<Case> cases = {
      {{row_of({1, 2}, {2})}, std::sqrt(7.0), {{1, 2}}},
      {{row_of({1, 2}, {2}), row_of({3, 4}, {2})}, std::sqrt(7.0 / 2), {{1, 2}, {3, 4}}},
      {{row_of({1, 2}, {2}), row_of({1, 2}, {2})}, std::sqrt(7.0), {{1, 2}}},
      {{row_of({0, 1, 2, 3, 4}, {5})}, std::sqrt(7.0 / 4), {{0, 1}, {1, 2}, {2, 3}, {3, 4}}},
  };
  CHECK(std::sqrt(7.0) == doctest::Approx(2.6457513).epsilon(1e-7));
  CHECK(std::sqrt(7.0 / 2) == doctest::Approx(1.8708287).epsilon(1e-7));
  CHECK(std::sqrt(7.0 / 4) == doctest::Approx(1.3228757).epsilon(1e-7));
  for (const int heads : {1, 2}) {
    for (const Case& c : cases) {
      CAPTURE(heads);
      CAPTURE(c.norm);
      Probe probe(8, c.rows, std::int64_t(c.rows.size()), 6, heads);
      const auto r = probe.step();
      CHECK(probe.mean_loss == doctest::Approx(2.0794415).epsilon(1e-7));
      CHECK(r.grad_norm == doctest::Approx(c.norm).epsilon(1e-6));
      check_head(probe, c.trained);
    }
  }
}

TEST_CASE("probe: one input with two targets seen equally often has norm sqrt(V/2 - 1)") {
  Probe probe(8, {row_of({1, 2}, {2}), row_of({1, 3}, {2})}, 2, 2);
  CHECK(probe.step().grad_norm == doctest::Approx(1.7320508).epsilon(1e-6));
  CHECK(probe.mean_loss == doctest::Approx(2.0794415).epsilon(1e-7));
  check_head(probe, {{1, 2}, {1, 3}});
}

// p(2|1) = 1/2 and p(4|3) = 1/8; the rest of each column shares what is left.
double bigram(int j, int i) {
  if (i == 1) return j == 2 ? 0.5 : 0.5 / 7;
  if (i == 3) return j == 4 ? 0.125 : 0.875 / 7;
  return 1.0 / 8;
}

// A row that trains only the pairs of its last documents.
data::Row masked(data::Row row, std::size_t untrained) {
  std::fill_n(row.labels.begin(), untrained, -100);
  return row;
}

TEST_CASE("probe: one denominator, the step's supervised tokens, however they fall into micro-batches") {
  // One trained 1 -> 2, and three trained 3 -> 4: (ln 2 + 3 ln 8) / 4 = 2.5 ln 2. A mean of means is 2 ln 2.
  const data::Row thin = row_of({1, 2}, {2});
  const data::Row thick = row_of({3, 4, 3, 4, 3, 4}, {2, 2, 2});
  const auto head = bigram_head(8, bigram);
  const double expected = 2.5 * std::log(2.0);
  CHECK(expected == doctest::Approx(1.7328680).epsilon(1e-7));
  std::vector<double> norms;
  const auto check = [&](const std::vector<data::Row>& rows, std::int64_t micro_rows, std::int64_t length) {
    Probe probe(8, rows, micro_rows, length, 1, head);
    CHECK(supervised(probe.micros) == 4);
    norms.push_back(probe.step().grad_norm);
    CHECK(probe.mean_loss == doctest::Approx(expected).epsilon(1e-6));
  };
  check({thin, thick}, 1, 6);                                                          // two of one row
  check({thin, thick}, 2, 6);                                                          // one of two
  check({thin, thick}, 2, 16);                                                         // more padding
  check({thin, row_of({3, 4}, {2}), row_of({3, 4}, {2}), row_of({3, 4}, {2})}, 1, 2);  // four of one
  check({thin, row_of({3, 4}, {2}), row_of({3, 4}, {2}), row_of({3, 4}, {2})}, 4, 2);
  check({thin, row_of({3, 4}, {2}), row_of({3, 4}, {2}), row_of({3, 4}, {2})}, 3, 2);  // a short last one
  check({masked(row_of({1, 2, 1, 2}, {2, 2}), 2), thick}, 1, 6);                       // masked labels
  for (const double norm : norms) CHECK(norm == doctest::Approx(norms[0]).epsilon(1e-6));
}

TEST_CASE("probe: the first loss of a batch of eight is ln V for 8x1, 4x2 and 1x8") {
  std::vector<data::Row> rows;
  for (std::int32_t i = 0; i < 8; ++i) rows.push_back(row_of({i, (i + 3) % 8, (2 * i) % 8}, {3}));
  for (const std::int64_t size : {8, 4, 1}) {
    CAPTURE(size);
    Probe probe(8, rows, size, 3);
    REQUIRE(std::int64_t(probe.micros.size()) == 8 / size);
    probe.step();
    CHECK(probe.mean_loss == doctest::Approx(2.0794415).epsilon(1e-7));
  }
}

TEST_CASE("probe: labels are shifted once") {
  Probe probe(8, {row_of({1, 2, 3}, {3})}, 1, 8, 2);
  probe.step();
  check_head(probe, {{1, 2}, {2, 3}});
}

TEST_CASE("probe: every target of a long row is there, the last one too") {
  Probe probe(16, {row_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {9})}, 1, 9);
  CHECK(supervised(probe.micros) == 8);
  probe.step();
  check_head(probe, {{1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}, {8, 9}});
}

TEST_CASE("probe: the last token of a packed document does not learn the next one's first") {
  for (const std::int64_t length : {4, 7}) {
    CAPTURE(length);
    Probe probe(8, {row_of({1, 2, 3, 4}, {2, 2})}, 1, length);
    probe.step();
    check_head(probe, {{1, 2}, {3, 4}});
  }
}

TEST_CASE("probe: a last batch with too few rows is a step with its own count") {
  Probe probe(8, {row_of({1, 2}, {2}), row_of({3, 4}, {2}), row_of({5, 6}, {2})}, 4, 2);
  REQUIRE(probe.micros.size() == 1);
  CHECK(supervised(probe.micros) == 3);
  CHECK(probe.step().grad_norm == doctest::Approx(std::sqrt(7.0 / 3)).epsilon(1e-6));
  check_head(probe, {{1, 2}, {3, 4}, {5, 6}});
}

TEST_CASE("probe: a vocabulary of eleven has the loss ln 11 and eleven rows") {
  Probe probe(11, {row_of({1, 2, 10, 0}, {4})}, 1, 4);
  CHECK(probe.weights("lm_head.weight").size() == 11 * 11);
  probe.step();
  CHECK(probe.mean_loss == doctest::Approx(2.3978953).epsilon(1e-7));
  check_head(probe, {{1, 2}, {2, 10}, {10, 0}});
}

TEST_CASE("probe: decay touches matrices only") {
  Probe probe(8, {row_of({1, 2}, {2})}, 1, 2, 2);
  for_each_tensor(probe.model, [&](int block, const spec::TensorSpec& tensor) {
    if (tensor.role != "q_proj.weight") return;
    const Floats half(std::size_t(tensor.elements()), 0.5f);
    probe.engine->params().set(block, tensor.offset, half.data(), tensor.elements());
  });
  probe.step(0.1f);
  for (const float q : probe.weights("q_proj.weight")) CHECK(q == doctest::Approx(0.4995).epsilon(1e-7));
  for (const char* const norm : {"input_layernorm.weight", "post_attention_layernorm.weight", "norm.weight"})
    for (const float g : probe.weights(norm)) CHECK(g == 1.f);
  // The embedding is a matrix: it decays too.
  CHECK(probe.weights("embed_tokens.weight")[0] == doctest::Approx(999.0).epsilon(1e-6));
}

TEST_CASE("probe: the bigram head loses -ln p whatever stands before") {
  const data::Row row = row_of({6, 1, 2, 3, 4, 5}, {6});
  Probe probe(8, {row}, 1, 6, 2, bigram_head(8, bigram));
  Floats losses(6);
  probe.engine->evaluate(probe.micros[0], losses);
  for (std::size_t i = 0; i + 1 < 6; ++i) {
    CAPTURE(i);
    CHECK(losses[i] == doctest::Approx(-std::log(bigram(row.ids[i + 1], row.ids[i]))).epsilon(1e-5));
  }
  CHECK(losses[5] == 0.f);
}

TEST_CASE("probe: an evaluation is a sum over all tokens, for every batch size") {
  // Three rows 1 -> 2 and one 3 -> 4: (3 ln 2 + ln 8) / 4 = 1.5 ln 2.
  const std::vector<data::Row> rows = {row_of({1, 2}, {2}), row_of({1, 2}, {2}), row_of({1, 2}, {2}),
                                       row_of({3, 4}, {2})};
  for (const std::int64_t size : {1, 2, 3, 4}) {
    CAPTURE(size);
    Probe probe(8, rows, size, 2, 1, bigram_head(8, bigram));
    double sum = 0;
    for (const exec::HostBatch& batch : probe.micros) sum += probe.engine->evaluate(batch);
    CHECK(sum / double(supervised(probe.micros)) == doctest::Approx(1.0397208).epsilon(1e-6));
  }
}

TEST_CASE("probe: more than 2^31 logits are right to the last row, in little memory") {
  constexpr std::int64_t kTokens = 17000, kVocabulary = 131072, kWidth = 4, kChunk = 64;
  static_assert(kTokens * kVocabulary > std::int64_t{1} << 31);
  const auto kernels = kernels::make_cpu_kernels();
  Floats x(kTokens * kWidth, 1.f), w(kVocabulary * kWidth, 0.f), dx(kTokens * kWidth, NAN),
      dw(kVocabulary * kWidth, 0.f), losses(kTokens, NAN), logits(kChunk * kVocabulary);
  Ints targets(kTokens, -1);
  // A few supervised tokens on either side of 2^31 logits; the rest are skipped or cheap.
  const std::vector<std::int64_t> trained = {0, 16383, 16384, 16385, kTokens - 1};
  for (const std::int64_t n : trained) targets[std::size_t(n)] = kVocabulary - 1;
  double sum = 0;
  kernels::CrossEntropyHead head;
  head.x_ND = View(x.data(), kTokens, kWidth);
  head.w_VD = View(w.data(), kVocabulary, kWidth);
  head.target_N = View(targets.data(), 1, kTokens);
  head.grad_scale = 1.f / float(trained.size());
  head.dx_ND = View(dx.data(), kTokens, kWidth);
  head.dw_VD = View(dw.data(), kVocabulary, kWidth);
  head.loss_N = View(losses.data(), 1, kTokens);
  head.loss_sum = &sum;
  head.logits_CV = View(logits.data(), kChunk, kVocabulary);
  kernels->cross_entropy_head(head);
  CHECK(sum / double(trained.size()) == doctest::Approx(11.7835021).epsilon(1e-7));
  for (std::int64_t n = 0; n < kTokens; ++n) {
    const bool is_trained = std::ranges::find(trained, n) != trained.end();
    if (is_trained) CHECK(losses[std::size_t(n)] == doctest::Approx(11.7835021).epsilon(1e-6));
    if (!is_trained && losses[std::size_t(n)] != 0.f) FAIL_CHECK("token ", n, " has a loss");
  }
  // (1/V - 1) x summed over the trained tokens, in the row of their target; 1/V x in every other.
  CHECK(dw[(kVocabulary - 1) * kWidth] == doctest::Approx(1.0 / kVocabulary - 1).epsilon(1e-6));
  CHECK(dw[(kVocabulary - 2) * kWidth] == doctest::Approx(1.0 / kVocabulary).epsilon(1e-5));

  // A head whose last row differs is seen by the last token: logits 0 but for the last, which is 4 * 0.25 * 2.
  for (std::int64_t d = 0; d < kWidth; ++d) w[std::size_t((kVocabulary - 1) * kWidth + d)] = 0.5f;
  kernels->cross_entropy_head(head);
  const double last = std::log(double(kVocabulary - 1) + std::exp(2.0)) - 2.0;
  CHECK(losses.back() == doctest::Approx(last).epsilon(1e-6));
  CHECK(dx[(kTokens - 1) * kWidth] ==
        doctest::Approx((std::exp(-last) - 1) * 0.5 / double(trained.size())).epsilon(1e-5));
  CHECK(device::process_peak_bytes() < std::int64_t{2} << 30);
}

}  // namespace
}  // namespace zt::test
