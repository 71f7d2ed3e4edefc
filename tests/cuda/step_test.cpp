// The whole training step on GPUs against the same step on the host: models, stages, ranks, number formats, recomputation,
// prefetch and accumulation, in several orders of what is enqueued.
#include <doctest/doctest.h>

#include <cmath>

#include "bits/ranks.h"
#include "comm/nccl.h"
#include "cuda_emulator/emulator.h"
#include "device/cuda_device.h"
#include "device/stream.h"
#include "kernels/cuda_kernels.h"

namespace zt::test {
namespace {

constexpr std::int64_t kLength = 32;
constexpr int kSteps = 2;
// As much as these models need: the emulated products write all over it each time.
constexpr std::int64_t kScratch = 1 << 19;
// So little that a block's gradients take several parts; the emulator remembers who wrote each byte.
constexpr std::int64_t kBuffer = 1 << 16;

const Place kOnGpus = [](exec::EngineOptions options, comm::Communicator& hosts, const Train& train) {
  cuda::CudaDevice device(hosts.rank());
  const auto gpus = cuda::make_nccl(hosts, device, kBuffer);
  options.device = &device;
  options.kernels = [](Dtype) { return std::make_unique<kernels::CudaKernels>(1, kScratch); };
  train(options, *gpus);
};

spec::ModelSpec model_of(const std::string& kind) {
  nlohmann::json config{{"model_type", kind}, {"vocab_size", 51}};
  if (kind == "gpt2")
    config.update({{"n_embd", 128}, {"n_layer", 2}, {"n_head", 2}, {"n_positions", 32}});
  else
    config.update({{"hidden_size", 128},
                   {"num_hidden_layers", 2},
                   {"num_attention_heads", 2},
                   {"num_key_value_heads", 1},
                   {"intermediate_size", 96},
                   {"max_position_embeddings", 32},
                   {"tie_word_embeddings", false}});
  return spec::from_config(config, "test");
}

// Two documents a row.
std::vector<data::Row> rows_of(int count, int step) {
  std::vector<data::Row> rows;
  const RandomStream random{.seed = 5};
  for (int r = 0; r < count; ++r) {
    Ints ids;
    for (int i = 0; i < kLength; ++i)
      ids.push_back(std::int32_t(random.u64(std::uint64_t((step * count + r) * kLength + i)) % 51));
    rows.push_back(row_of(ids, {11, int(kLength) - 11}));
  }
  return rows;
}

double largest_difference(const Floats& a, const Floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most;
}

// What rounding may change: sums of 128 products in float32, or of operands in bfloat16 with 8 bits.
void check_same_training(const spec::ModelSpec& model, const ZeroCase& c) {
  const int count = int(c.micros) * c.ranks;
  const auto rows = [&](int step) { return rows_of(count, step); };
  const kernels::AdamW optimizer{.lr = 0.01f};
  const ZeroTrace host = train_over_ranks(model, c, 1, kLength, kSteps, rows, optimizer, 0.05f);
  const ZeroTrace gpu = train_over_ranks(model, c, 1, kLength, kSteps, rows, optimizer, 0.05f, kOnGpus);
  CHECK(emulator::to_string(emulator::take_findings()) == "");
  const double bound = c.dtype == Dtype::f32 ? 2e-5 : 2e-2;
  for (int step = 0; step < kSteps; ++step) {
    CAPTURE(step);
    CHECK(gpu.losses[std::size_t(step)] == doctest::Approx(host.losses[std::size_t(step)]).epsilon(bound));
    CHECK(gpu.norms[std::size_t(step)] == doctest::Approx(host.norms[std::size_t(step)]).epsilon(5 * bound));
  }
  // AdamW's first steps go lr far in the direction of the gradient's sign, whatever its size.
  CHECK(largest_difference(gpu.values, host.values) <= 2 * kSteps * 0.01);
  for (std::size_t r = 0; r < gpu.of_ranks.size(); ++r) CHECK(gpu.of_ranks[r] == gpu.of_ranks[0]);
}

// The emulator has more than any test asks for; each rank needs one.
int gpus() {
  int count = 0;
  cuda::check(cudaGetDeviceCount(&count), "cannot count the GPUs");
  return count;
}

void each_order(const std::function<void()>& body) {
  using emulator::Order;
  using emulator::Policy;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    emulator::configure(seed, Policy::random, Order::random);
    body();
  }
  for (const Policy policy : {Policy::lazy, Policy::eager}) {
    emulator::configure(1, policy, Order::forward);
    body();
  }
}

}  // namespace

TEST_CASE("a training step on GPUs takes the host's steps at every stage and number of ranks") {
  for (const std::string kind : {"gpt2", "llama"}) {
    const spec::ModelSpec model = model_of(kind);
    for (const int ranks : {1, 2, 4}) {
      if (ranks > gpus()) continue;
      for (const int stage : {0, 1, 2, 3}) {
        if (ranks == 1 && stage > 0) continue;
        CAPTURE(kind);
        CAPTURE(ranks);
        CAPTURE(stage);
        emulator::configure(std::uint64_t(10 * ranks + stage), emulator::Policy::random,
                            emulator::Order::random);
        check_same_training(model, {.ranks = ranks, .stage = stage, .micros = 2});
      }
    }
  }
}

TEST_CASE("a training step on GPUs is the host's in any order of what is enqueued") {
  const spec::ModelSpec model = model_of("llama");
  each_order([&] {
    ZeroCase c{.ranks = std::min(2, gpus()), .stage = 3, .micros = 2, .dtype = Dtype::bf16};
    if (c.ranks == 1) c.stage = 0;
    c.policy.zero.prefetch = 1;
    c.policy.recompute = schedule::Recompute::full;
    check_same_training(model, c);
  });
}

// NCCL tells nobody of a peer that has aborted: the ranks' own communicator does.
TEST_CASE("a rank that fails ends another's wait for the GPU") {
  if (gpus() < 2) return;
  emulator::configure(1, emulator::Policy::random, emulator::Order::random);
  std::string said;
  const auto body = [&](comm::Communicator& hosts) {
    cuda::CudaDevice gpu(hosts.rank());
    const device::Arena memory = gpu.claim(1024, "a test");
    const auto ranks = cuda::make_nccl(hosts, gpu);
    if (hosts.rank() == 1) throw Error(Blame::machine, "struck by lightning");
    ranks->all_gather(memory.at(0), 512);
    try {
      gpu.synchronize();
    } catch (const Error& e) {
      CHECK(e.blame() == Blame::peer);
      said = e.what();
      throw;
    }
  };
  CHECK_THROWS_WITH_AS(comm::run_threads(2, 60, body), doctest::Contains("rank 1: struck by lightning"),
                       Error);
  CHECK(said.find("rank 1") != std::string::npos);
  CHECK(said.find("the GPU's collectives") != std::string::npos);
  CHECK(emulator::to_string(emulator::take_findings()) == "");
}

TEST_CASE("gradients kept in float32 that travel as bfloat16 between GPUs are added as the host adds them") {
  if (gpus() < 2) return;
  const spec::ModelSpec model = model_of("llama");
  each_order([&] {
    check_same_training(model, {.ranks = std::min(4, gpus()), .stage = 2, .micros = 2, .wire = Dtype::bf16});
  });
}

// Parts of a buffer of 96 bytes, so that every sum takes several; values whose sums depend on their order.
TEST_CASE("a sum over GPUs by way of bfloat16 has the host's bits") {
  for (const int ranks : {2, 3, 4}) {
    if (ranks > gpus()) continue;
    for (const std::int64_t slice : {1, 7, 8, 33}) {
      CAPTURE(ranks);
      CAPTURE(slice);
      emulator::configure(std::uint64_t(ranks), emulator::Policy::random, emulator::Order::random);
      const auto count = static_cast<std::size_t>(ranks);
      std::vector<Floats> sums(count), right(count);
      comm::run_threads(ranks, 60, [&](comm::Communicator& hosts) {
        Floats whole(static_cast<std::size_t>(slice * ranks));
        const RandomStream random{.seed = std::uint64_t(hosts.rank() + 1)};
        for (std::size_t i = 0; i < whole.size(); ++i)
          whole[i] = float(std::int64_t(random.u64(i) % 20001) - 10000) * std::exp2(float(random.u64(i) % 9));
        const auto own = [&](const Floats& all) {
          return Floats(all.begin() + hosts.rank() * slice, all.begin() + (hosts.rank() + 1) * slice);
        };
        cuda::CudaDevice device(hosts.rank());
        const auto nccl = cuda::make_nccl(hosts, device, 96);
        const device::Arena memory = device.claim(slice * ranks * 4, "a test");
        device.to_device(memory.at(0), whole.data(), memory.bytes());
        nccl->reduce_scatter(memory.at(0), Dtype::f32, Dtype::bf16, slice);
        Floats back(whole.size());
        device.to_host(back.data(), memory.at(0), memory.bytes());
        sums[std::size_t(hosts.rank())] = own(back);
        hosts.reduce_scatter(whole.data(), Dtype::f32, Dtype::bf16, slice);
        right[std::size_t(hosts.rank())] = own(whole);
      });
      CHECK(sums == right);
      CHECK(emulator::to_string(emulator::take_findings()) == "");
    }
  }
}

// The waits are the planner's, but for those at a list's begin and end. The emulator knows which ordered anything that was not
// in order yet. The ones at the begin stand for fills and copies before a list, of which a first step has none.
TEST_CASE("each wait of a step that is forgotten is reported") {
  const spec::ModelSpec model = model_of("llama");
  ZeroCase c{.ranks = 2, .stage = 3, .micros = 2};
  c.policy.zero.prefetch = 1;
  const auto one_step = [&] {
    train_over_ranks(
        model, c, 1, kLength, 1, [](int step) { return rows_of(4, step); }, {.lr = 0.01f}, 0.05f, kOnGpus);
  };
  const auto begin_anew = [] { emulator::configure(1, emulator::Policy::random, emulator::Order::forward); };
  begin_anew();
  one_step();
  REQUIRE(emulator::to_string(emulator::take_findings()) == "");
  const std::vector<emulator::Wait> waits = emulator::waits(0);
  std::size_t forgotten = 0, reported = 0;
  std::string survivors;
  constexpr std::size_t kAtBegin = schedule::kLanes - 1;
  for (std::size_t n = kAtBegin; n < waits.size(); ++n) {
    if (!waits[n].needed) continue;
    ++forgotten;
    begin_anew();
    emulator::forget_wait(0, std::int64_t(n));
    one_step();
    if (!emulator::take_findings().empty())
      ++reported;
    else
      survivors += cat("\n  wait ", n, ", ", waits[n].place);
  }
  begin_anew();
  emulator::forget_wait(0, -1);
  MESSAGE(waits.size(), " waits; ", forgotten, " needed ones forgotten, ", reported, " reported");
  CHECK(forgotten >= 20);
  CHECK(survivors == "");
}

}  // namespace zt::test
