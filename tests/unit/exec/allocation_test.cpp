// Everything is placed before the first step: later ones claim no memory.
#include <doctest/doctest.h>
#include <malloc.h>

#include "device/arena.h"
#include "support/tiny_models.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 16;

spec::ModelSpec model_of(const std::string& kind) {
  if (kind == "gpt2")
    return spec::from_config({{"model_type", kind},
                              {"n_embd", 64},
                              {"n_head", 4},
                              {"n_layer", 4},
                              {"n_positions", kLength},
                              {"vocab_size", 51}},
                             kind);
  return spec::from_config({{"model_type", kind},
                            {"hidden_size", 64},
                            {"num_hidden_layers", 4},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 2},
                            {"head_dim", 16},
                            {"intermediate_size", 96},
                            {"vocab_size", 51},
                            {"max_position_embeddings", 32}},
                           kind);
}

data::Row some_row(int salt) {
  Ints ids;
  for (int i = 0; i < kLength; ++i) ids.push_back((i * i + 7 * salt) % 51);
  return row_of(ids, {9, kLength - 9});
}

// Bytes the C library has handed out; what its caches of small pieces hold counts too, so that it wobbles.
std::int64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}
constexpr std::int64_t kWobble = 32 << 10;

TEST_CASE("engine: after the first step and evaluation nothing is claimed, in any format or policy") {
  for (const std::string kind : {"gpt2", "qwen3"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const auto recompute : {schedule::Recompute::none, schedule::Recompute::sqrt})
        for (const bool selective : {false, true}) {
          CAPTURE(kind);
          INFO(name(dtype));
          CAPTURE(selective);
          exec::EngineOptions o;
          o.shape.sequence_length = kLength;
          o.shape.rows = 2;
          o.shape.eval_rows = 3;
          o.shape.micros = 2;
          o.shape.policy.recompute = recompute;
          o.shape.selective = selective;
          o.dtype = dtype;
          o.dropout = 0.1f;
          exec::Engine engine(model_of(kind), o);
          const std::int64_t claims_at_start = device::arena_claims(), arenas = device::arena_bytes();
          const std::int64_t held = engine.held_bytes();
          CHECK(held == engine.plan().total());
          shard::initialise(engine.params(), engine.model(), 5);
          const auto micros = micro_batches({some_row(0), some_row(1), some_row(2), some_row(3)}, 2, kLength);
          const auto eval = micro_batches({some_row(4), some_row(5), some_row(6)}, 3, kLength);
          kernels::AdamW adamw;
          std::int64_t heap = 0;
          for (std::uint32_t step = 1; step <= 5; ++step) {
            adamw.t = step;
            engine.train_step(micros, supervised(micros), step, adamw, 1.0);
            engine.evaluate(eval[0]);
            if (step == 1) heap = heap_bytes();
          }
          CHECK(heap_bytes() - heap <= kWobble);
          CHECK(device::arena_claims() == claims_at_start);
          CHECK(device::arena_bytes() == arenas);
          CHECK(engine.held_bytes() == held);
        }
}

TEST_CASE("engine: a claim during steps would be seen") {
  const std::int64_t claims = device::arena_claims(), heap = heap_bytes();
  const device::Arena arena(100, "a test");
  CHECK(device::arena_claims() == claims + 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const std::vector<char> large(2 * kWobble, 1);
  CHECK(heap_bytes() - heap > kWobble);
#else
  (void)heap;  // a sanitizer's allocator tells nothing
#endif
}

TEST_CASE("engine: tiles of half-precision products are in the bill, and held from the start") {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    INFO(name(dtype));
    exec::EngineOptions o;
    o.shape.sequence_length = kLength;
    o.dtype = dtype;
    const exec::Engine engine(model_of("gpt2"), o);
    const std::int64_t tiles = plan::bytes_of(engine.plan().bill, "half_precision_tiles");
    CHECK(tiles == engine.context().kernels->held_bytes());
    // Of 512 x 2048, 2048 x 512 and 512 x 512 numbers, and a bias, in fp32.
    const std::int64_t all = 4 * (512 * 2048 + 2048 * 512 + 512 * 512 + 512);
    if (dtype == Dtype::f32) CHECK(tiles == 0);
    if (dtype == Dtype::f16) CHECK(tiles == all);
    if (dtype == Dtype::bf16) CHECK((tiles == 0 || tiles == all));
  }
}

}  // namespace
}  // namespace zt::test
