// A model over real processes takes the very steps that virtual ranks take.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "bits/ranks.h"
#include "mpi/mpi_suite.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 16;

spec::ModelSpec small_llama() {
  return spec::from_config({{"model_type", "llama"},
                            {"hidden_size", 24},
                            {"num_hidden_layers", 3},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 2},
                            {"intermediate_size", 40},
                            {"vocab_size", 51},
                            {"max_position_embeddings", 32},
                            {"tie_word_embeddings", true}},
                           "test");
}

std::vector<data::Row> rows_of(int count) {
  std::vector<data::Row> rows;
  const RandomStream random{.seed = 5};
  for (int r = 0; r < count; ++r) {
    Ints ids;
    for (int i = 0; i < kLength; ++i)
      ids.push_back(std::int32_t(random.u64(std::uint64_t(r * kLength + i)) % 51));
    rows.push_back(row_of(ids, {kLength}));
  }
  return rows;
}

TEST_CASE(
    "mpi: losses and norms are bit-equal to virtual ranks', over windows and messages, at every stage") {
  const spec::ModelSpec model = small_llama();
  for (comm::Communicator* comm : {&windows(), &messages()})
    for (const int stage : {0, 1, 2, 3}) {
      ZeroCase c{.ranks = comm->size(), .stage = stage, .micros = 2};
      c.policy.zero.reduce = schedule::ReduceEvery::micro;
      c.lanes.threads = true;
      const auto rows = rows_of(2 * c.ranks);
      const ZeroTrace expected =
          train_over_ranks(model, c, 1, kLength, 3, [&](int) { return rows; }, {.lr = 0.01f});
      exec::Engine engine(model, engine_options(c, 1, kLength), comm);
      spec::ModelSpec wide = model;
      wide.init_std = 0.3f;
      shard::initialise(engine.params(), wide, 5);
      engine.gather_weights();
      const auto all = micro_batches(rows, 1, kLength);
      std::vector<exec::HostBatch> mine;
      for (std::size_t i = std::size_t(comm->rank()); i < all.size(); i += std::size_t(c.ranks))
        mine.push_back(all[i]);
      std::vector<double> trace;
      const comm::Traffic before = comm->traffic();
      for (std::uint32_t step = 1; step <= 3; ++step) {
        const auto r = engine.train_step(mine, supervised(all), step, {.lr = 0.01f, .t = step}, 1.0);
        trace.insert(trace.end(), {r.loss_sum, r.grad_norm});
      }
      const comm::Traffic sent = comm->traffic() - before;
      check_everywhere(trace == expected.of_ranks.front() ? ""
                                                          : "losses or norms differ from virtual ranks'");
      check_everywhere(sent.all_gather == 3 * engine.plan().traffic.all_gather
                           ? ""
                           : "all_gather sent other bytes than planned");
      check_everywhere(sent.reduce_scatter == 3 * engine.plan().traffic.reduce_scatter
                           ? ""
                           : "reduce_scatter sent other bytes than planned");
      check_everywhere(sent.all_reduce == 3 * engine.plan().traffic.all_reduce
                           ? ""
                           : "all_reduce sent other bytes than planned");
      check_everywhere(engine.held_bytes() == engine.plan().total() ? "" : "holds other bytes than planned");
    }
}

}  // namespace
}  // namespace zt::test
