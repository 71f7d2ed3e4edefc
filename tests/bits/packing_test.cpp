// Packed documents train as if each were alone: in any order, beside any others, with and without padding, on any
// number of ranks, with every policy of recomputation.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/text.h"
#include "bits/ranks.h"
#include "parity/parity.h"

namespace zt::test {
namespace {

constexpr int kVocabulary = 51;

struct Document {
  Ints ids, labels;
};

// Random lengths from 1 to `longest`, and about a third of the ids not trained.
std::vector<Document> random_documents(int count, int longest, std::uint64_t seed) {
  const RandomStream random{.seed = seed};
  std::uint64_t drawn = 0;
  const auto draw = [&](int below) { return std::int32_t(random.u64(drawn++) % std::uint64_t(below)); };
  std::vector<Document> all;
  for (int d = 0; d < count; ++d) {
    Document one;
    const int length = d == 0 ? 1 : d == 1 ? longest : 1 + draw(longest);
    for (int i = 0; i < length; ++i) {
      one.ids.push_back(draw(kVocabulary));
      one.labels.push_back(draw(3) == 0 ? -100 : one.ids.back());
    }
    all.push_back(one);
  }
  return all;
}

// Rows, and which documents lie in each, in order.
struct Layout {
  std::vector<data::Row> rows;
  std::vector<std::vector<int>> documents;
};

void append(const Document& document, data::Row* row) {
  row->ids.insert(row->ids.end(), document.ids.begin(), document.ids.end());
  row->labels.insert(row->labels.end(), document.labels.begin(), document.labels.end());
  row->documents.push_back(std::int32_t(row->ids.size()));
}

// Documents in a random order; a row takes them as long as they fit, or only one.
Layout lay(const std::vector<Document>& documents, std::int64_t length, bool packed, std::uint64_t seed) {
  std::vector<int> order(documents.size());
  std::iota(order.begin(), order.end(), 0);
  const RandomStream random{.seed = seed};
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.u64(i) % (i + 1)]);
  Layout layout;
  for (const int d : order) {
    const Document& document = documents[std::size_t(d)];
    const bool fits = packed && !layout.rows.empty() &&
                      layout.rows.back().ids.size() + document.ids.size() <= std::size_t(length);
    if (!fits) {
      layout.rows.push_back({"test", {}, {}, {0}});
      layout.documents.emplace_back();
    }
    append(document, &layout.rows.back());
    layout.documents.back().push_back(d);
  }
  return layout;
}

struct Result {
  std::map<int, double> losses;        // of each document, from evaluation
  std::map<int, Floats> token_losses;  // and of its tokens
  double loss = 0, norm = 0;           // of the step
  std::vector<Floats> gradients;       // of each tensor
};

// Losses of each document of one micro-batch.
void add_losses(exec::Engine& engine, const exec::HostBatch& batch,
                std::span<const std::vector<int>> documents, Result* result) {
  Floats losses(batch.tokens.size(), NAN);
  engine.evaluate(batch, losses);
  std::size_t number = 0;
  for (const std::vector<int>& row : documents)
    for (const int d : row) {
      const auto first = losses.begin() + batch.bounds[number],
                 end = losses.begin() + batch.bounds[number + 1];
      result->losses[d] = std::accumulate(first, end, 0.0);
      result->token_losses[d] = {first, end};
      ++number;
    }
  REQUIRE(batch.bounds.size() == number + 1);
}

// One step over `ranks` ranks, its rows dealt out in micro-batches of `micro_rows`; some of them may be empty.
Result train(const spec::ModelSpec& model, ZeroCase c, const Layout& layout, std::int64_t micro_rows,
             std::int64_t length) {
  auto all = micro_batches(layout.rows, micro_rows, length);
  const std::int64_t count = supervised(all);
  c.micros = (std::int64_t(all.size()) + c.ranks - 1) / c.ranks;
  while (std::int64_t(all.size()) < c.micros * c.ranks)
    all.push_back(data::make_batch({}, micro_rows, length));
  Result result;
  std::mutex mutex;
  const auto rank = [&](comm::Communicator& comm) {
    exec::Engine engine(model, engine_options(c, micro_rows, length), &comm);
    spec::ModelSpec wide = model;
    wide.init_std = 0.1f;
    shard::initialise(engine.params(), wide, 5);
    engine.gather_weights();
    std::vector<exec::HostBatch> mine;
    for (std::size_t i = std::size_t(comm.rank()); i < all.size(); i += std::size_t(c.ranks))
      mine.push_back(all[i]);
    const exec::StepResult r = engine.gradients(mine, count, 1);
    const std::lock_guard lock(mutex);
    for (std::size_t m = 0; m < mine.size(); ++m) {
      const std::size_t first =
          (m * std::size_t(c.ranks) + std::size_t(comm.rank())) * std::size_t(micro_rows);
      const std::size_t end = std::min(first + std::size_t(micro_rows), layout.rows.size());
      const std::span all_documents(layout.documents);
      add_losses(engine, mine[m], all_documents.subspan(std::min(first, end), end - std::min(first, end)),
                 &result);
    }
    if (comm.rank() > 0) return;
    result.loss = r.loss_sum / double(count);
    result.norm = r.grad_norm;
    for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
      result.gradients.push_back(gradients_of(engine.params(), block, tensor));
    });
  };
  // Models this small gain nothing from more threads.
  comm::run_threads(c.ranks, 60,
                    [&](comm::Communicator& comm) { parity::with_threads(1, [&] { rank(comm); }); });
  return result;
}

// The largest difference between the gradients of a tensor, in parts of the tensor's largest gradient.
double difference(const Result& a, const Result& b) {
  double most = 0;
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (std::size_t t = 0; t < a.gradients.size(); ++t) {
    double size = 0, far = 0;
    for (std::size_t i = 0; i < a.gradients[t].size(); ++i) {
      if (!std::isfinite(a.gradients[t][i])) return INFINITY;
      size = std::max(size, std::abs(double(b.gradients[t][i])));
      far = std::max(far, std::abs(double(a.gradients[t][i]) - double(b.gradients[t][i])));
    }
    most = std::max(most, size == 0 ? far : far / size);
  }
  return most;
}

double loss_difference(const Result& a, const Result& b) {
  double most = 0;
  REQUIRE(a.token_losses.size() == b.token_losses.size());
  for (const auto& [d, losses] : a.token_losses) {
    REQUIRE(losses.size() == b.token_losses.at(d).size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      most = std::max(most, std::abs(double(losses[i]) - double(b.token_losses.at(d)[i])));
  }
  return most;
}

struct Recomputing {
  schedule::Recompute recompute;
  bool selective;
};
const std::vector<Recomputing> kRecomputing = {{schedule::Recompute::none, false},
                                               {schedule::Recompute::full, false},
                                               {schedule::Recompute::none, true}};

spec::ModelSpec windowed() {
  return spec::from_config({{"model_type", "mistral"},
                            {"hidden_size", 18},
                            {"num_hidden_layers", 3},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 2},
                            {"head_dim", 4},
                            {"intermediate_size", 27},
                            {"vocab_size", kVocabulary},
                            {"sliding_window", 5},
                            {"max_position_embeddings", 32}},
                           "a test");
}

spec::ModelSpec long_model(const std::string& kind) {
  if (kind != "gpt2") return small_model(kind);
  return spec::from_config({{"model_type", kind},
                            {"n_embd", 16},
                            {"n_head", 4},
                            {"n_layer", 2},
                            {"n_positions", 1024},
                            {"vocab_size", kVocabulary}},
                           kind);
}

TEST_CASE("packing: random documents lose the same and train the same packed and alone, in any order") {
  constexpr std::int64_t kLength = 16;
  std::vector<spec::ModelSpec> models = {small_model("gpt2"), small_model("llama"), small_model("qwen3"),
                                         windowed()};
  for (std::size_t m = 0; m < models.size(); ++m)
    for (const std::uint64_t seed : {1, 2}) {
      const auto documents = random_documents(24, int(kLength), seed);
      const Result alone = train(models[m], {}, lay(documents, kLength, false, seed), 1, kLength);
      CHECK(std::isfinite(alone.loss));
      for (const int ranks : {1, 2})
        for (const Recomputing& r : kRecomputing)
          for (const std::int64_t micro_rows : {1, 5, 24})
            for (const bool packed : {true, false}) {
              INFO("model ", m, ", seed ", seed, ", ranks ", ranks, ", rows ", micro_rows, ", packed ",
                   packed);
              ZeroCase c{.ranks = ranks, .policy = {r.recompute, 1}, .selective = r.selective};
              const Layout layout = lay(documents, kLength, packed, seed + 100 * std::uint64_t(micro_rows));
              const Result together = train(models[m], c, layout, micro_rows, kLength);
              CHECK(loss_difference(together, alone) <= 1e-6 * std::log(kVocabulary));
              for (const auto& [d, loss] : together.losses)
                CHECK(std::abs(loss - alone.losses.at(d)) <= 1e-6 * std::max(1.0, alone.losses.at(d)));
              CHECK(std::abs(together.loss - alone.loss) <= 1e-6 * alone.loss);
              CHECK(difference(together, alone) <= 1e-5);
            }
    }
}

// [d1, d2] in one row and each alone, in every format that has an attention of its own.
TEST_CASE("packing: two documents of a row lose what they lose alone, whatever the format and the padding") {
  for (const std::string kind : {"gpt2", "llama"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const Recomputing& r : kRecomputing)
        for (const int longest : {7, 200})
          for (const int behind : {0, 9, 300}) {  // slots behind the documents
            INFO(kind, " ", name(dtype), ", recompute ", int(r.recompute), ", selective ", r.selective,
                 ", up to ", longest, " ids, ", behind, " slots behind them");
            const spec::ModelSpec model = long_model(kind);
            auto documents = random_documents(2, longest, 4);
            documents[0] = random_documents(3, longest, 5)[2];
            const std::int64_t used = std::int64_t(documents[0].ids.size() + documents[1].ids.size());
            ZeroCase c{.policy = {r.recompute, 1}, .dtype = dtype, .selective = r.selective};
            const Layout apart = lay(documents, used, false, 1), packed = lay(documents, used, true, 1);
            REQUIRE(packed.rows.size() == 1);
            const Result alone = train(model, c, apart, 1, used + behind);
            const Result together = train(model, c, packed, 1, used + behind);
            CHECK(std::isfinite(alone.loss));
            CHECK(loss_difference(together, alone) <= 1e-6 * std::log(kVocabulary));
            CHECK(difference(together, alone) <= (dtype == Dtype::f32 ? 1e-5 : 1e-2));
          }
}

// No column but those of inputs 1 and 3 is trained.
TEST_CASE(
    "packing: of the packed documents 1 2 and 3 4, exactly 1 -> 2 and 3 -> 4 are trained, in any format") {
  const spec::ModelSpec model = probe_model(8);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const Recomputing& r : kRecomputing)
      for (const std::int64_t length : {4, 7, 100}) {
        CAPTURE(name(dtype));
        CAPTURE(length);
        ZeroCase c{.policy = {r.recompute, 1}, .dtype = dtype, .selective = r.selective};
        exec::Engine engine(model, engine_options(c, 1, length));
        fill_probe(engine.params(), model);
        const auto micros = micro_batches({row_of({1, 2, 3, 4}, {2, 2})}, 1, length);
        CHECK(supervised(micros) == 2);
        exec::StepResult step;
        parity::with_threads(1, [&] { step = engine.gradients(micros, 2, 1); });
        CHECK(step.loss_sum / 2 == doctest::Approx(std::log(8.0)).epsilon(1e-6));
        for_each_tensor(model, [&](int block, const spec::TensorSpec& tensor) {
          if (tensor.role != "lm_head.weight") return;
          const Floats g = gradients_of(engine.params(), block, tensor);
          for (int j = 0; j < 8; ++j)
            for (int i = 0; i < 8; ++i) {
              const float value = g[std::size_t(8 * j + i)];
              const bool input = i == 1 || i == 3, target = (i == 1 && j == 2) || (i == 3 && j == 4);
              if (!input) CHECK(value == 0.f);
              if (input) CHECK((target ? value < 0 : value > 0));
            }
        });
      }
}

TEST_CASE(
    "packing: rows of lengths 1 and 16 give finite losses and gradients, those of the rows one by one") {
  const Document one = {{7}, {7}}, full = random_documents(2, 16, 6)[1];
  REQUIRE(full.ids.size() == 16);
  for (const std::string kind : {"gpt2", "llama"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const Recomputing& r : kRecomputing)
        for (const std::int64_t length : {std::int64_t{16}, std::int64_t{kind == "gpt2" ? 16 : 32}}) {
          INFO(kind, " ", name(dtype), ", length ", length);
          ZeroCase c{.policy = {r.recompute, 1}, .dtype = dtype, .selective = r.selective};
          const Layout both = lay({one, full}, length, false, 1);
          const Result together = train(small_model(kind), c, both, 2, length);
          const Result by_one = train(small_model(kind), c, both, 1, length);
          CHECK(std::isfinite(together.loss));
          CHECK(loss_difference(together, by_one) <= 1e-6 * std::log(kVocabulary));
          CHECK(difference(together, by_one) <= (dtype == Dtype::f32 ? 1e-5 : 1e-2));
        }
}

TEST_CASE("packing: ranks without rows are there when ranks meet, at every stage, and change no bit") {
  constexpr std::int64_t kLength = 16;
  const auto rows = [](int step) {
    return lay(random_documents(2, int(kLength), std::uint64_t(step)), kLength, false, 1).rows;
  };
  for (const std::string kind : {"gpt2", "llama"}) {
    const spec::ModelSpec model = small_model(kind, kind == "gpt2");
    const auto run = [&](const ZeroCase& c) {
      return train_over_ranks(model, c, 1, kLength, 5, rows, {.lr = 1e-2f, .t = 1});
    };
    // Two rows a step: two of four ranks have none.
    const ZeroTrace first = run({.ranks = 4}), two = run({.ranks = 2});
    CHECK(std::abs(first.losses.back() - two.losses.back()) <= 1e-5 * two.losses.back());
    for (const int stage : {0, 1, 2, 3})
      for (const Recomputing& r : kRecomputing)
        for (const bool threads : {false, true}) {
          ZeroCase c{.ranks = 4, .stage = stage, .policy = {r.recompute, 1}, .selective = r.selective};
          c.policy.zero.reduce = stage < 2 ? schedule::ReduceEvery::step : schedule::ReduceEvery::micro;
          c.lanes = {threads, {}, true};
          INFO(kind, ", stage ", stage, ", threads ", threads);
          CHECK(run(c) == first);
        }
  }
}

}  // namespace
}  // namespace zt::test
