#include "exec/engine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "parity/parity.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 16;
constexpr int kVocabulary = 51;

const std::vector<std::string> kKinds = {"gpt2", "llama", "qwen3"};

// Random rows; in the second half of them two documents are packed.
std::vector<data::Row> random_rows(int count) {
  std::vector<data::Row> rows;
  const RandomStream random{.seed = 11};
  for (int r = 0; r < count; ++r) {
    Ints ids;
    for (int i = 0; i < kLength; ++i)
      ids.push_back(std::int32_t(random.u64(std::uint64_t(r * kLength + i)) % kVocabulary));
    rows.push_back(row_of(ids, 2 * r < count ? Ints{kLength} : Ints{5, kLength - 5}));
  }
  return rows;
}

exec::EngineOptions options(std::int64_t rows, std::int64_t micros, schedule::Policy policy = {}) {
  exec::EngineOptions o;
  o.shape.sequence_length = kLength;
  o.shape.rows = o.shape.eval_rows = rows;
  o.shape.micros = micros;
  o.shape.policy = policy;
  o.seed = 3;
  return o;
}

kernels::AdamW optimizer(std::int64_t t) {
  kernels::AdamW a;
  a.lr = 1e-2f;
  a.beta2 = 0.95f;
  a.decay = 0.1f;
  a.t = t;
  return a;
}

// Weights large enough for every part of the model to matter.
void fill_random(exec::Engine& engine, float deviation = 0.3f) {
  spec::ModelSpec wide = engine.model();
  wide.init_std = deviation;
  shard::initialise(engine.params(), wide, 5);
}

// What five steps leave: each step's loss and norm, then every weight.
std::vector<double> trace(const spec::ModelSpec& model, const exec::EngineOptions& o,
                          const std::vector<data::Row>& rows, int steps = 5) {
  exec::Engine engine(model, o);
  fill_random(engine);
  const auto micros = micro_batches(rows, o.shape.rows, kLength);
  std::vector<double> out;
  for (int step = 1; step <= steps; ++step) {
    const auto r = engine.train_step(micros, supervised(micros), std::uint32_t(step), optimizer(step), 1.0);
    out.insert(out.end(), {r.loss_sum, r.grad_norm});
  }
  const Floats weights = all_weights(engine.params(), model);
  out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

std::string problem_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return cat(name(e.blame()), ": ", e.problem());
  }
  return "no error";
}

TEST_CASE("engine: recomputing activations gives the same bits, with dropout and without") {
  const auto rows = random_rows(4);
  const std::vector<schedule::Policy> policies = {{schedule::Recompute::full, 1},
                                                  {schedule::Recompute::every, 2},
                                                  {schedule::Recompute::every, 3},
                                                  {schedule::Recompute::sqrt, 1}};
  for (const std::string& kind : kKinds) {
    for (const float dropout : {0.f, 0.5f}) {
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
        CAPTURE(kind);
        CAPTURE(dropout);
        CAPTURE(name(dtype));
        exec::EngineOptions o = options(2, 2);
        o.dropout = dropout;
        o.dtype = dtype;
        const auto kept = trace(small_model(kind), o, rows);
        for (const schedule::Policy& policy : policies) {
          INFO(name(policy));
          o.shape.policy = policy;
          CHECK(trace(small_model(kind), o, rows) == kept);
        }
      }
    }
  }
}

TEST_CASE(
    "engine: dropout changes the loss of training, another seed changes it again, evaluation has none") {
  const auto rows = random_rows(2);
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    exec::EngineOptions o = options(2, 1);
    const double without = trace(small_model(kind), o, rows, 1)[0];
    o.dropout = 0.3f;
    const double with = trace(small_model(kind), o, rows, 1)[0];
    o.seed = 4;
    const double other = trace(small_model(kind), o, rows, 1)[0];
    CHECK(with != without);
    CHECK(other != with);
    exec::Engine engine(small_model(kind), o);
    fill_random(engine);
    CHECK(engine.evaluate(micro_batches(rows, 2, kLength)[0]) == doctest::Approx(without).epsilon(1e-6));
  }
}

TEST_CASE("engine: how a global batch is split into micro-batches does not matter, dropout masks included") {
  const auto rows = random_rows(4);
  for (const std::string& kind : kKinds) {
    for (const float dropout : {0.f, 0.3f}) {
      CAPTURE(kind);
      CAPTURE(dropout);
      std::vector<std::vector<double>> gradients;
      for (const std::int64_t size : {4, 2, 1}) {
        exec::EngineOptions o = options(size, 4 / size);
        o.dropout = dropout;
        exec::Engine engine(small_model(kind), o);
        fill_random(engine);
        const auto micros = micro_batches(rows, size, kLength);
        const auto r = engine.gradients(micros, supervised(micros), 1);
        std::vector<double> all = {r.loss_sum / double(supervised(micros)), r.grad_norm};
        for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
          const Floats one = gradients_of(engine.params(), block, tensor);
          all.insert(all.end(), one.begin(), one.end());
        });
        gradients.push_back(all);
      }
      // Sums of the same numbers in another order: the norm here is near 3.
      CHECK(distance(gradients[1], gradients[0]) < 2e-6);
      CHECK(distance(gradients[2], gradients[0]) < 2e-6);
    }
  }
}

TEST_CASE("engine: the number of threads does not change a bit") {
  const auto rows = random_rows(4);
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    std::vector<double> one, two;
    parity::with_threads(1, [&] { one = trace(small_model(kind), options(2, 2), rows, 2); });
    parity::with_threads(2, [&] { two = trace(small_model(kind), options(2, 2), rows, 2); });
    CHECK(one == two);
  }
}

TEST_CASE("engine: the global norm counts each parameter once, tied or not, and is taken before clipping") {
  const auto micros = micro_batches(random_rows(2), 2, kLength);
  for (const std::string& kind : kKinds) {
    for (const bool tied : {true, false}) {
      CAPTURE(kind);
      CAPTURE(tied);
      exec::Engine engine(small_model(kind, tied), options(2, 1));
      fill_random(engine);
      const double norm = engine.gradients(micros, supervised(micros), 1).grad_norm;
      double sum = 0;
      std::int64_t count = 0;
      for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
        for (const float g : gradients_of(engine.params(), block, tensor)) sum += double(g) * g;
        count += tensor.elements();
      });
      CHECK(count == engine.model().parameters());
      CHECK(norm == doctest::Approx(std::sqrt(sum)).epsilon(1e-12));
      engine.params().clear_grads();
      CHECK(engine.train_step(micros, supervised(micros), 1, optimizer(1), norm / 7).grad_norm == norm);
    }
  }
}

TEST_CASE("engine: gradients() forgets what was there, and with clear_grads() leaves no trace") {
  const auto rows = random_rows(2);
  const auto micros = micro_batches(rows, 2, kLength);
  exec::Engine engine(small_model("llama"), options(2, 1));
  fill_random(engine);
  const double first = engine.gradients(micros, supervised(micros), 1).grad_norm;
  CHECK(engine.gradients(micros, supervised(micros), 1).grad_norm == first);
  engine.params().clear_grads();
  const auto r = engine.train_step(micros, supervised(micros), 1, optimizer(1), 1.0);
  std::vector<double> left = {r.loss_sum, r.grad_norm};
  const Floats weights = all_weights(engine.params(), engine.model());
  left.insert(left.end(), weights.begin(), weights.end());
  CHECK(left == trace(small_model("llama"), options(2, 1), rows, 1));
}

TEST_CASE(
    "engine: a step that is not finite changes no weight and no moment, says so, and harms no later one") {
  const auto micros = micro_batches(random_rows(2), 2, kLength);
  for (const float poison : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      CAPTURE(poison);
      exec::EngineOptions o = options(2, 1);
      o.dtype = dtype;
      exec::Engine clean(small_model("llama"), o), hurt(small_model("llama"), o);
      fill_random(clean);
      fill_random(hurt);
      clean.train_step(micros, supervised(micros), 1, optimizer(1), 1.0);
      hurt.train_step(micros, supervised(micros), 1, optimizer(1), 1.0);

      float kept = 0;
      hurt.params().get(3, 7, &kept, 1);
      hurt.params().set(3, 7, &poison, 1);
      const int b = 2;
      const auto state = [&](exec::Engine& e) {
        const auto n = e.params().elements(b);
        Floats all(e.params().master(b), e.params().master(b) + n);
        all.insert(all.end(), e.params().first_moment(b), e.params().first_moment(b) + n);
        all.insert(all.end(), e.params().second_moment(b), e.params().second_moment(b) + n);
        return all;
      };
      const Floats before = state(hurt);
      const auto r = hurt.train_step(micros, supervised(micros), 2, optimizer(2), 1.0);
      CHECK_FALSE(r.finite);
      CHECK(state(hurt) == before);

      hurt.params().set(3, 7, &kept, 1);
      const auto after = hurt.train_step(micros, supervised(micros), 2, optimizer(2), 1.0);
      CHECK(after.finite);
      CHECK(after.grad_norm == clean.train_step(micros, supervised(micros), 2, optimizer(2), 1.0).grad_norm);
      CHECK(all_weights(hurt.params(), hurt.model()) == all_weights(clean.params(), clean.model()));
    }
  }
}

double relative(const Floats& a, const Floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    size += double(b[i]) * b[i];
  }
  return std::sqrt(difference / size);
}

TEST_CASE("engine: bfloat16 stays near float32, and its weights are the rounded master copy") {
  const auto micros = micro_batches(random_rows(4), 2, kLength);
  const auto count = double(supervised(micros));
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    exec::EngineOptions wide = options(2, 2), narrow = options(2, 2);
    narrow.dtype = Dtype::bf16;
    exec::Engine a(small_model(kind), wide), b(small_model(kind), narrow);
    fill_random(a, 0.1f);  // larger ones make a model that enlarges every rounding
    fill_random(b, 0.1f);
    a.gradients(micros, supervised(micros), 1);
    b.gradients(micros, supervised(micros), 1);
    // A bf16 number is right to 1 part in 512; a gradient passes some fifty of them, each way.
    for_each_tensor(a.model(), [&](int block, const spec::TensorSpec& tensor) {
      if (tensor.role == "attn.c_attn.bias") return;  // a third of it is rounding noise: its true value is 0
      INFO(tensor.name);
      CHECK(relative(gradients_of(b.params(), block, tensor), gradients_of(a.params(), block, tensor)) <
            0.05);
    });
    a.params().clear_grads();
    b.params().clear_grads();
    for (std::uint32_t step = 1; step <= 5; ++step) {
      CAPTURE(step);
      kernels::AdamW adam = optimizer(step);
      adam.lr = 1e-3f;
      const auto x = a.train_step(micros, supervised(micros), step, adam, 1.0);
      const auto y = b.train_step(micros, supervised(micros), step, adam, 1.0);
      CHECK(y.finite);
      CHECK(std::abs(x.loss_sum - y.loss_sum) / count < 0.005);
      CHECK(y.grad_norm == doctest::Approx(x.grad_norm).epsilon(0.02));
    }
    for (int block = 0; block < int(b.model().blocks.size()); ++block) {
      const auto* const w = static_cast<const bf16*>(b.params().weights(block));
      int wrong = 0;
      for (std::int64_t i = 0; i < b.params().elements(block); ++i)
        wrong += w[i].bits != bf16(b.params().master(block)[i]).bits;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("engine: padded rows train as if each row were alone") {
  const auto full = random_rows(2);
  for (const std::string& kind : kKinds) {
    for (const std::int32_t length : {2, 9}) {
      CAPTURE(kind);
      CAPTURE(length);
      data::Row little = full[1];
      little.ids.resize(std::size_t(length));
      little = row_of(little.ids, {length});
      const data::Row one = row_of({7}, {1});  // trains nothing
      const auto gradient = [&](const std::vector<data::Row>& rows, std::int64_t count) {
        exec::Engine engine(small_model(kind), options(std::int64_t(rows.size()), 1));
        fill_random(engine);
        const auto micros = micro_batches(rows, std::int64_t(rows.size()), kLength);
        const auto r = engine.gradients(micros, count, 1);
        std::vector<double> all = {r.loss_sum / double(count)};
        for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
          const Floats g = gradients_of(engine.params(), block, tensor);
          all.insert(all.end(), g.begin(), g.end());
        });
        return all;
      };
      const std::int64_t count = kLength - 1 + length - 1;
      const auto together = gradient({full[0], little, one}, count);
      const auto a = gradient({full[0]}, count), b = gradient({little}, count);
      std::vector<double> sum = a;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
      CHECK(distance(together, sum) < 2e-6);
    }
  }
}

TEST_CASE("engine: evaluation does not depend on its batch size and changes nothing") {
  const auto rows = random_rows(4);
  for (const std::string& kind : kKinds) {
    CAPTURE(kind);
    std::vector<double> sums;
    for (const std::int64_t size : {1, 2, 3, 4}) {
      exec::EngineOptions o = options(1, 1);
      o.shape.eval_rows = size;
      exec::Engine engine(small_model(kind), o);
      fill_random(engine);
      const Floats before = all_weights(engine.params(), engine.model());
      double sum = 0;
      for (const exec::HostBatch& batch : micro_batches(rows, size, kLength)) sum += engine.evaluate(batch);
      sums.push_back(sum);
      CHECK(all_weights(engine.params(), engine.model()) == before);
    }
    for (const double sum : sums) CHECK(sum == doctest::Approx(sums[0]).epsilon(1e-6));
  }
}

TEST_CASE("engine: a batch that does not fit the plan or the model is refused before any kernel sees it") {
  exec::Engine engine(small_model("gpt2"), options(1, 1));
  const auto good = micro_batches(random_rows(1), 1, kLength);
  const auto with = [&](const std::function<void(exec::HostBatch&)>& change) {
    auto bad = good;
    change(bad[0]);
    return problem_of([&] { engine.train_step(bad, 1, 1, optimizer(1), 1.0); });
  };
  using Batch = exec::HostBatch;
  CHECK(with([](Batch&) {}) == "no error");
  CHECK(with([](Batch& b) { b.tokens[3] = 51; }) ==
        "a bug in zerotrain: a batch holds the token 51, outside 0 to 50");
  CHECK(with([](Batch& b) { b.tokens[3] = -1; }).find("token -1") != std::string::npos);
  CHECK(with([](Batch& b) { b.targets[3] = 51; }).find("target 51") != std::string::npos);
  CHECK(with([](Batch& b) { b.positions[3] = 16; }).find("position 16") != std::string::npos);
  CHECK(with([](Batch& b) { b.bounds = {0, 9, 9, 16}; }).find("bounds") != std::string::npos);
  CHECK(with([](Batch& b) { b.bounds = {0, 17}; }).find("bounds") != std::string::npos);
  CHECK(with([](Batch& b) { b.bounds = {}; }).find("bounds") != std::string::npos);
  CHECK(with([](Batch& b) { b.places[3] = -1; }).find("place -1") != std::string::npos);
  CHECK(with([](Batch& b) { b.places[15] = 16; }).find("place 16") != std::string::npos);
  CHECK(with([](Batch& b) { b.places.pop_back(); }).find("16 tokens has 15 places") != std::string::npos);
  CHECK(with([](Batch& b) { b.tokens.pop_back(); }).find("15 tokens") != std::string::npos);
  std::vector<float> losses(15);
  CHECK(problem_of([&] { engine.evaluate(good[0], losses); }).find("15 losses for 16 planned tokens") !=
        std::string::npos);
  CHECK(problem_of([&] { engine.train_step({}, 1, 1, optimizer(1), 1.0); }).find("0 with 1 supervised") !=
        std::string::npos);
  CHECK(problem_of([&] { engine.train_step(good, 0, 1, optimizer(1), 1.0); }).find("0 supervised") !=
        std::string::npos);
}

}  // namespace
}  // namespace zt::test
