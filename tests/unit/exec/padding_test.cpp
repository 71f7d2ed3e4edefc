// What rows leave of a batch costs nothing and changes nothing.
#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "device/arena.h"
#include "parity/parity.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

constexpr int kVocabulary = 51;

// Rows of the given lengths, each one document of random ids.
std::vector<data::Row> rows_of(const std::vector<std::int32_t>& lengths, int salt = 0) {
  std::vector<data::Row> rows;
  const RandomStream random{.seed = 21, .a = std::uint32_t(salt)};
  std::uint64_t drawn = 0;
  for (const std::int32_t length : lengths) {
    Ints ids;
    for (int i = 0; i < length; ++i) ids.push_back(std::int32_t(random.u64(drawn++) % kVocabulary));
    rows.push_back(row_of(ids, {length}));
  }
  return rows;
}

exec::EngineOptions options(std::int64_t length, std::int64_t rows, std::int64_t micros = 1) {
  exec::EngineOptions o;
  o.shape.sequence_length = length;
  o.shape.rows = o.shape.eval_rows = rows;
  o.shape.micros = micros;
  o.seed = 3;
  return o;
}

void fill_random(exec::Engine& engine) {
  spec::ModelSpec wide = engine.model();
  wide.init_std = 0.3f;
  shard::initialise(engine.params(), wide, 5);
}

spec::ModelSpec long_model(const std::string& kind) {
  if (kind == "gpt2")
    return spec::from_config({{"model_type", kind},
                              {"n_embd", 32},
                              {"n_head", 2},
                              {"n_layer", 2},
                              {"n_positions", 1024},
                              {"vocab_size", kVocabulary}},
                             kind);
  return spec::from_config({{"model_type", kind},
                            {"hidden_size", 32},
                            {"num_hidden_layers", 2},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 2},
                            {"intermediate_size", 80},
                            {"vocab_size", kVocabulary},
                            {"max_position_embeddings", 1024}},
                           kind);
}

// The same rows with padding as other programs lay them: every row begins at a multiple of the length, and what it
// leaves is a document that supervises nothing.
exec::HostBatch padded(const std::vector<data::Row>& rows, std::int64_t count, std::int64_t length) {
  exec::HostBatch batch = data::make_batch({}, count, length);
  for (std::int64_t r = 0; r < count; ++r) {
    const auto start = std::int32_t(r * length);
    if (r < std::int64_t(rows.size())) {
      const data::Row& row = rows[std::size_t(r)];
      for (std::size_t d = 0; d + 1 < row.documents.size(); ++d)
        for (std::int32_t i = row.documents[d]; i < row.documents[d + 1]; ++i) {
          const auto at = std::size_t(start + i);
          batch.tokens[at] = row.ids[std::size_t(i)];
          batch.positions[at] = i - row.documents[d];
          if (i + 1 < row.documents[d + 1]) batch.targets[at] = row.labels[std::size_t(i) + 1];
        }
      for (std::size_t d = 1; d < row.documents.size(); ++d) batch.bounds.push_back(start + row.documents[d]);
    }
    if (batch.bounds.back() < start + length) batch.bounds.push_back(std::int32_t(start + length));
  }
  batch.places.clear();
  return batch;
}

// Loss, norm and every gradient of one step.
std::vector<double> gradient(exec::Engine& engine, const std::vector<exec::HostBatch>& micros) {
  const auto count = supervised(micros);
  const auto r = engine.gradients(micros, count, 1);
  std::vector<double> all = {r.loss_sum / double(count), r.grad_norm};
  for_each_tensor(engine.model(), [&](int block, const spec::TensorSpec& tensor) {
    const Floats one = gradients_of(engine.params(), block, tensor);
    all.insert(all.end(), one.begin(), one.end());
  });
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::isfinite(a[i]));
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

TEST_CASE("padding: what is computed is at most a 32nd of the plan, or 64 tokens, more than what is used") {
  for (const std::int64_t planned : {1, 63, 64, 65, 1000, 2048, 2049, 8192, 100'000}) {
    std::set<std::int64_t> counts;
    for (std::int64_t used = 0; used <= planned; ++used) {
      const std::int64_t computed = exec::computed_tokens(used, planned);
      if (computed < used || computed > planned ||
          computed - used >= std::max<std::int64_t>(64, planned / 32 + 64))
        FAIL_CHECK(computed, " of ", used, " used and ", planned, " planned");
      if (used > 0) counts.insert(computed);
    }
    CHECK(exec::computed_tokens(0, planned) == 0);
    CHECK(counts.size() <= 32);
    CHECK(*counts.rbegin() == planned);
  }
}

// Passes everything on to the CPU backend and writes down how many tokens each call was given.
class Counting final : public kernels::Kernels {
 public:
  using Rows = std::map<std::string, std::vector<std::int64_t>>;
  Counting(Dtype dtype, Rows* seen) : cpu_(kernels::make_cpu_kernels(dtype)), seen_(seen) {}

  void linear(const kernels::Linear& a) override { note("linear", a.x_NI.rows), cpu_->linear(a); }
  void linear_backward(const kernels::LinearGrad& a) override {
    note("linear_backward", a.dy_NO.rows), cpu_->linear_backward(a);
  }
  void attention(const kernels::Attention& a) override {
    note("attention", a.q_NHd.rows), cpu_->attention(a);
  }
  void attention_backward(const kernels::AttentionGrad& a) override {
    note("attention_backward", a.q_NHd.rows), cpu_->attention_backward(a);
  }
  void cross_entropy_head(const kernels::CrossEntropyHead& a) override {
    note("head", a.x_ND.rows), cpu_->cross_entropy_head(a);
  }
  void rms_norm(const kernels::RmsNorm& a) override { note("norm", a.x_ND.rows), cpu_->rms_norm(a); }
  void rms_norm_backward(const kernels::RmsNormGrad& a) override {
    note("norm", a.x_ND.rows), cpu_->rms_norm_backward(a);
  }
  void layer_norm(const kernels::LayerNorm& a) override { note("norm", a.x_ND.rows), cpu_->layer_norm(a); }
  void layer_norm_backward(const kernels::LayerNormGrad& a) override {
    note("norm", a.x_ND.rows), cpu_->layer_norm_backward(a);
  }
  void rope(const kernels::Rope& a) override { note("other", a.x_NHd.rows), cpu_->rope(a); }
  void gelu(const kernels::Gelu& a) override { note("other", a.x_NF.rows), cpu_->gelu(a); }
  void gelu_backward(const kernels::GeluGrad& a) override {
    note("other", a.x_NF.rows), cpu_->gelu_backward(a);
  }
  void swiglu(const kernels::SwiGlu& a) override { note("other", a.gate_NF.rows), cpu_->swiglu(a); }
  void swiglu_backward(const kernels::SwiGluGrad& a) override {
    note("other", a.gate_NF.rows), cpu_->swiglu_backward(a);
  }
  void embedding(const kernels::Embedding& a) override { note("other", a.y_ND.rows), cpu_->embedding(a); }
  void embedding_backward(const kernels::EmbeddingGrad& a) override {
    note("other", a.dy_ND.rows), cpu_->embedding_backward(a);
  }
  void dropout(const kernels::Dropout& a) override { note("other", a.x_ND.rows), cpu_->dropout(a); }
  void cast(const kernels::Cast& a) override { cpu_->cast(a); }
  void add(const kernels::Add& a) override { cpu_->add(a); }
  void attention_decode(const kernels::AttentionDecode& a) override { cpu_->attention_decode(a); }
  void adamw(const kernels::AdamW& a) override { cpu_->adamw(a); }
  void sum_squares(const kernels::SumSquares& a) override { cpu_->sum_squares(a); }
  std::int64_t held_bytes() const override { return cpu_->held_bytes(); }

 private:
  void note(const char* kernel, std::int64_t rows) { (*seen_)[kernel].push_back(rows); }
  std::unique_ptr<kernels::Kernels> cpu_;
  Rows* seen_;
};

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t all = 0;
  for (const std::int64_t value : values) all += value;
  return all;
}

TEST_CASE(
    "padding: every kernel is given the used tokens, rounded up, and nothing for a batch without rows") {
  constexpr std::int64_t kLength = 1024, kRows = 2;
  // 130 and 700 tokens of 2048, computed in steps of 64; and none.
  const std::vector<std::vector<std::int32_t>> lengths = {{64, 66}, {700}, {}};
  constexpr std::int64_t kComputed = 192 + 704;
  for (const std::string kind : {"gpt2", "llama"})
    for (const auto recompute : {schedule::Recompute::none, schedule::Recompute::full})
      for (const float dropout : {0.f, 0.1f}) {
        CAPTURE(kind);
        Counting::Rows seen;
        exec::EngineOptions o = options(kLength, kRows, 3);
        o.shape.policy.recompute = recompute;
        o.dropout = dropout;
        o.kernels = [&seen](Dtype dtype) { return std::make_unique<Counting>(dtype, &seen); };
        exec::Engine engine(long_model(kind), o);
        fill_random(engine);
        std::vector<exec::HostBatch> micros;
        for (const auto& l : lengths) micros.push_back(data::make_batch(rows_of(l), kRows, kLength));

        CHECK(engine.train_step(micros, supervised(micros), 1, {.lr = 1e-3f, .t = 1}, 1.0).finite);
        // Two layers of four products each; a recomputation leaves out the last.
        const std::int64_t again = recompute == schedule::Recompute::full ? 2 * 3 : 0;
        CHECK(sum(seen["linear"]) == (2 * 4 + again) * kComputed);
        CHECK(sum(seen["linear_backward"]) == 2 * 4 * kComputed);
        CHECK(sum(seen["attention"]) == (again > 0 ? 4 : 2) * kComputed);
        CHECK(sum(seen["attention_backward"]) == 2 * kComputed);
        CHECK(sum(seen["head"]) == kComputed);
        for (const auto& [kernel, counts] : seen)
          CHECK(std::set<std::int64_t>(counts.begin(), counts.end()) == std::set<std::int64_t>{192, 704});

        seen.clear();
        engine.evaluate(micros[0]);
        CHECK(sum(seen["linear"]) == 2 * 4 * 192);
        CHECK(sum(seen["head"]) == 192);
        seen.clear();
        CHECK(engine.evaluate(micros[2]) == 0.0);
        CHECK(seen.empty());
      }
}

TEST_CASE("padding: 64 tokens in each of 8 rows of 1024 take less than an eighth of the full batch's time") {
  constexpr std::int64_t kLength = 1024, kRows = 8;
  const auto step_seconds = [&](const std::string& kind, std::int32_t length) {
    exec::Engine engine(long_model(kind), options(kLength, kRows));
    fill_random(engine);
    const auto micros = micro_batches(rows_of(std::vector<std::int32_t>(kRows, length)), kRows, kLength);
    double best = INFINITY;
    for (std::uint32_t step = 1; step <= 4; ++step) {
      const auto start = std::chrono::steady_clock::now();
      engine.train_step(micros, supervised(micros), step, {.lr = 1e-3f, .t = step}, 1.0);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  for (const std::string kind : {"gpt2", "llama"}) {
    const double little = step_seconds(kind, 64), full = step_seconds(kind, kLength);
    MESSAGE(kind, ": ", 1e3 * little, " ms of ", 1e3 * full, " ms");
    CHECK(little < full / 8);
  }
}

TEST_CASE("padding: rows laid one behind the other train as padded rows do, dropout included") {
  constexpr std::int64_t kLength = 100, kRows = 4;
  for (const std::string kind : {"gpt2", "llama"})
    for (const float dropout : {0.f, 0.3f}) {
      CAPTURE(kind);
      CAPTURE(dropout);
      for (const std::vector<std::int32_t>& lengths :
           std::vector<std::vector<std::int32_t>>{{100, 3, 41}, {1, 2}, {17, 100, 99, 65}}) {
        exec::EngineOptions o = options(kLength, kRows);
        o.dropout = dropout;
        exec::Engine engine(long_model(kind), o);
        fill_random(engine);
        const auto rows = rows_of(lengths);
        const std::vector<exec::HostBatch> with = {padded(rows, kRows, kLength)};
        const std::vector<exec::HostBatch> without = {data::make_batch(rows, kRows, kLength)};
        REQUIRE(with[0].used() == kRows * kLength);
        CHECK(without[0].used() < kRows * kLength);
        CHECK(distance(gradient(engine, without), gradient(engine, with)) < 2e-6);
      }
    }
}

TEST_CASE("padding: nothing reads what stands behind the used tokens") {
  constexpr std::int64_t kLength = 100, kRows = 2;
  for (const std::string kind : {"gpt2", "llama"}) {
    exec::EngineOptions o = options(kLength, kRows);
    o.dropout = 0.2f;
    exec::Engine engine(long_model(kind), o);
    fill_random(engine);
    std::vector<exec::HostBatch> micros = {data::make_batch(rows_of({30, 9}), kRows, kLength)};
    const auto clean = gradient(engine, micros);
    exec::HostBatch& batch = micros[0];
    for (auto* values : {&batch.tokens, &batch.positions, &batch.targets, &batch.places})
      std::fill(values->begin() + batch.used(), values->end(), 1'000'000);
    CHECK(gradient(engine, micros) == clean);
    std::vector<float> losses(std::size_t(kRows * kLength), NAN);
    engine.evaluate(batch, losses);
    CHECK(std::all_of(losses.begin(), losses.begin() + 29, [](float loss) { return loss > 0; }));
    CHECK(std::all_of(losses.begin() + 38, losses.end(), [](float loss) { return loss == 0; }));
  }
}

TEST_CASE("padding: how short rows are split into micro-batches does not matter, dropout masks included") {
  constexpr std::int64_t kLength = 100;
  const auto rows = rows_of({40, 100, 7, 66});
  for (const std::string kind : {"gpt2", "llama"}) {
    std::vector<std::vector<double>> gradients;
    for (const std::int64_t size : {4, 2, 1}) {
      exec::EngineOptions o = options(kLength, size, 4 / size);
      o.dropout = 0.3f;
      exec::Engine engine(long_model(kind), o);
      fill_random(engine);
      gradients.push_back(gradient(engine, micro_batches(rows, size, kLength)));
    }
    CHECK(distance(gradients[1], gradients[0]) < 2e-6);
    CHECK(distance(gradients[2], gradients[0]) < 2e-6);
  }
}

TEST_CASE("padding: rows that know their number in the step keep their masks wherever they are dealt to") {
  constexpr std::int64_t kLength = 100;
  const auto rows = rows_of({40, 100, 7, 66});
  const auto deal = [&](const std::vector<std::vector<std::int64_t>>& numbers) {
    std::vector<exec::HostBatch> micros;
    for (const auto& micro : numbers) {
      std::vector<data::Row> mine;
      for (const std::int64_t number : micro) mine.push_back(rows[std::size_t(number)]);
      micros.push_back(data::make_batch(mine, 2, kLength, micro));
    }
    return micros;
  };
  for (const std::string kind : {"gpt2", "llama"}) {
    exec::EngineOptions o = options(kLength, 2, 2);
    o.dropout = 0.3f;
    exec::Engine engine(long_model(kind), o);
    fill_random(engine);
    const auto in_order = gradient(engine, micro_batches(rows, 2, kLength));
    CHECK(gradient(engine, deal({{0, 1}, {2, 3}})) == in_order);
    CHECK(distance(gradient(engine, deal({{3, 0}, {1, 2}})), in_order) < 2e-6);
    const std::vector<data::Row> shuffled = {rows[3], rows[0], rows[1], rows[2]};
    CHECK(distance(gradient(engine, micro_batches(shuffled, 2, kLength)), in_order) > 1e-3);
  }
}

TEST_CASE("padding: a micro-batch without rows leaves the bits of the others' gradients") {
  constexpr std::int64_t kLength = 100, kRows = 2;
  const exec::HostBatch batch = data::make_batch(rows_of({30, 80}), kRows, kLength),
                        none = data::make_batch({}, kRows, kLength);
  for (const std::string kind : {"gpt2", "llama"}) {
    exec::Engine one(long_model(kind), options(kLength, kRows)),
        two(long_model(kind), options(kLength, kRows, 2));
    fill_random(one);
    fill_random(two);
    CHECK(gradient(two, {batch, none}) == gradient(one, {batch}));
    CHECK(gradient(two, {none, batch}) == gradient(one, {batch}));
  }
}

std::int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

TEST_CASE("padding: rows of random lengths claim no memory, over 200 steps, in any format") {
  constexpr std::int64_t kLength = 128, kRows = 4, kWobble = 32 << 10, kPages = 1 << 20;
  for (const std::string kind : {"gpt2", "llama"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      CAPTURE(kind);
      INFO(name(dtype));
      exec::EngineOptions o = options(kLength, kRows);
      o.dtype = dtype;
      o.dropout = 0.1f;
      exec::Engine engine(long_model(kind), o);
      fill_random(engine);
      const std::int64_t held = engine.held_bytes(), claims = device::arena_claims();
      // The batches are made before anything is measured: the test's own pieces of memory would count too.
      std::vector<std::vector<exec::HostBatch>> every_count, at_random;
      for (std::int32_t used = 64; used <= kRows * kLength; used += 64)
        every_count.push_back(
            micro_batches(rows_of(std::vector<std::int32_t>(kRows, used / 4)), kRows, kLength));
      const RandomStream random{.seed = 8};
      for (std::uint64_t i = 0; i < 200; ++i) {
        std::vector<std::int32_t> lengths;
        for (std::uint64_t r = 0; r < kRows; ++r)
          lengths.push_back(2 + std::int32_t(random.u64(i * kRows + r) % (kLength - 1)));
        at_random.push_back(micro_batches(rows_of(lengths, int(i)), kRows, kLength));
      }
      std::uint32_t number = 0;
      const auto step = [&](const std::vector<exec::HostBatch>& micros) {
        ++number;
        parity::with_threads(1, [&] {
          engine.train_step(micros, supervised(micros), number, {.lr = 1e-4f, .t = number}, 1.0);
          engine.evaluate(micros[0]);
        });
      };
      for (const auto& micros : every_count) step(micros);
      const std::int64_t heap = heap_bytes();
      [[maybe_unused]] const std::int64_t resident = resident_bytes();
      for (const auto& micros : at_random) step(micros);
      CHECK(heap_bytes() - heap <= kWobble);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory aside for a while
      CHECK(resident_bytes() - resident <= kPages);
#endif
      CHECK(engine.held_bytes() == held);
      CHECK(held == engine.plan().total());
      CHECK(device::arena_claims() == claims);
    }
}

}  // namespace
}  // namespace zt::test
