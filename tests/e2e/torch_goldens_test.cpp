// Six tiny models against PyTorch and transformers: scripts/reference/README.md says how the files were made
// and how close float32 can be. Each bound here is three times the README's: that is measured by changing the
// initial weights by one part in 10^7, and other kernels round in other places as well.
#include <doctest/doctest.h>

#include <cmath>

#include "exec/decoder.h"
#include "support/tiny_models.h"
#include "train/model_source.h"

namespace zt::test {
namespace {

constexpr double kSafety = 3;
constexpr double kLogits = 5e-6 * kSafety, kTokenLosses = 3e-6 * kSafety, kGradients = 5e-6 * kSafety;
constexpr double kLosses = 4e-6 * kSafety, kGradNorms = 6e-5 * kSafety, kFinal = 2e-5 * kSafety;
constexpr std::int64_t kLength = 12;

exec::EngineOptions options(std::int64_t rows, std::int64_t micros) {
  exec::EngineOptions o;
  o.shape.sequence_length = kLength;
  o.shape.rows = o.shape.eval_rows = rows;
  o.shape.micros = micros;
  return o;
}

// scripts/reference/golden_settings.py.
kernels::AdamW optimizer(std::int64_t t) {
  kernels::AdamW a;
  a.lr = 1e-2f;
  a.beta1 = 0.9f;
  a.beta2 = 0.95f;
  a.eps = 1e-8f;
  a.decay = 0.1f;
  a.t = t;
  return a;
}

double distance(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double(a[i]) - b[i]);
    if (!(d <= most)) most = std::isnan(d) ? INFINITY : d;
  }
  return most;
}

// |a - b| / |b| as vectors.
double relative(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    size += double(b[i]) * b[i];
  }
  return std::sqrt(difference / size);
}

struct Case {
  std::filesystem::path folder;
  train::ModelSource source;
  Golden golden;
  explicit Case(const std::filesystem::path& path)
      : folder(path), source(train::open_model_folder(path)), golden(path) {}
};

std::unique_ptr<exec::Engine> engine_of(const Case& c, const exec::EngineOptions& o) {
  auto engine = std::make_unique<exec::Engine>(c.source.spec, o);
  train::load_weights(c.source, engine->params(), 0);
  return engine;
}

void check_gradients(const exec::Engine& engine, const Golden& golden, const std::string& prefix) {
  for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
    INFO(prefix, tensor.name);
    const Floats expected = golden.floats(prefix + "grad." + tensor.name);
    CHECK(distance(gradients_of(engine.params(), block, tensor), expected) <= kGradients);
  });
}

void check_losses(exec::Engine& engine, const exec::HostBatch& batch, const Golden& golden,
                  const std::string& prefix) {
  Floats token_losses(batch.tokens.size(), NAN);
  const double sum = engine.evaluate(batch, token_losses);
  CHECK(distance(token_losses, golden.floats(prefix + "token_losses")) <= kTokenLosses);
  const auto count = static_cast<double>(batch.supervised());
  CHECK(batch.supervised() == golden.ints(prefix + "supervised_tokens")[0]);
  CHECK(std::abs(sum - golden.floats(prefix + "loss_sum")[0]) <= kTokenLosses * count);
}

// A key's bias adds the same number to all scores of a query, so its true gradient is 0, and Adam makes whole
// steps of rounding noise: it can't be compared, and it changes no output.
Floats without_key_bias(Floats values, const spec::TensorSpec& tensor) {
  if (tensor.role != "attn.c_attn.bias") return values;
  const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
  std::fill(values.begin() + third, values.begin() + 2 * third, 0.f);
  return values;
}

TEST_CASE("goldens: the six models are there") { CHECK(golden_folders().size() == 6); }

TEST_CASE("goldens: both spellings of a config mean the same model") {
  int both = 0;
  for (const auto& folder : golden_folders()) {
    const auto other = folder / "config.rope_parameters.json";
    if (!std::filesystem::exists(other)) continue;
    CAPTURE(folder);
    ++both;
    CHECK(spec::from_config(exchange::read_config(folder), "a") ==
          spec::from_config(exchange::read_config(other), "b"));
  }
  CHECK(both == 5);
}

TEST_CASE("goldens: logits, token by token with a key/value cache, are PyTorch's") {
  for (const auto& folder : golden_folders()) {
    CAPTURE(folder);
    const Case c(folder);
    for (const std::string prefix : {"", "packed."}) {
      if (!c.golden.has(prefix + "logits")) continue;
      CAPTURE(prefix);
      Floats logits;
      for (const data::Row& row : c.golden.rows(prefix)) {
        for (std::size_t d = 0; d + 1 < row.documents.size(); ++d) {
          exec::Decoder decoder(c.source.spec, Dtype::f32, kLength);
          train::load_weights(c.source, decoder.params(), 0);
          for (std::int32_t i = row.documents[d]; i < row.documents[d + 1]; ++i) {
            const auto next = decoder.step(row.ids[static_cast<std::size_t>(i)]);
            logits.insert(logits.end(), next.begin(), next.end());
          }
        }
      }
      CHECK(distance(logits, c.golden.floats(prefix + "logits")) <= kLogits);
    }
  }
}

TEST_CASE("goldens: each token's loss, the sum and every gradient are PyTorch's") {
  for (const auto& folder : golden_folders()) {
    CAPTURE(folder);
    const Case c(folder);
    const auto micros = micro_batches(c.golden.rows(), 2, kLength);
    const auto engine = engine_of(c, options(2, 1));
    check_losses(*engine, micros.at(0), c.golden, "");
    const exec::StepResult result = engine->gradients(micros, supervised(micros), 1);
    CHECK(std::abs(result.loss_sum - c.golden.floats("loss_sum")[0]) <= kTokenLosses * 14);
    check_gradients(*engine, c.golden, "");
  }
}

TEST_CASE("goldens: two documents packed in one row are two sequences") {
  int packed = 0;
  for (const auto& folder : golden_folders()) {
    const Case c(folder);
    if (!c.golden.has("packed.logits")) continue;
    CAPTURE(folder);
    ++packed;
    const auto micros = micro_batches(c.golden.rows("packed."), 1, kLength);
    const auto engine = engine_of(c, options(1, 1));
    check_losses(*engine, micros.at(0), c.golden, "packed.");
    engine->gradients(micros, supervised(micros), 1);
    check_gradients(*engine, c.golden, "packed.");
  }
  CHECK(packed == 1);
}

TEST_CASE("goldens: ten AdamW steps with clipping and decay give PyTorch's losses, norms and weights") {
  for (const auto& folder : golden_folders()) {
    CAPTURE(folder);
    const Case c(folder);
    const auto micros = micro_batches(c.golden.rows(), 2, kLength);
    const auto engine = engine_of(c, options(2, 1));
    const Floats losses = c.golden.floats("losses"), norms = c.golden.floats("grad_norms");
    REQUIRE(losses.size() == 10);
    const auto count = static_cast<double>(supervised(micros));
    for (std::uint32_t step = 1; step <= 10; ++step) {
      CAPTURE(step);
      const auto r = engine->train_step(micros, supervised(micros), step, optimizer(step), 1.0);
      CHECK(r.finite);
      CHECK(std::abs(r.loss_sum / count - losses[step - 1]) <= kLosses);
      CHECK(std::abs(r.grad_norm / norms[step - 1] - 1) <= kGradNorms);
    }
    for_each_tensor(engine->model(), [&](int block, const spec::TensorSpec& tensor) {
      INFO(tensor.name);
      const Floats ours = without_key_bias(weights_of(engine->params(), block, tensor), tensor);
      const Floats theirs = without_key_bias(c.golden.floats("final." + tensor.name), tensor);
      CHECK(relative(ours, theirs) <= kFinal);
    });
  }
}

}  // namespace
}  // namespace zt::test
