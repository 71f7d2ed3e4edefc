#include "plan/published_memory.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "spec/model.h"
#include "support/known_models.h"
#include "support/paths.h"
#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

using std::string;

constexpr double kGB = 1e9, kGiB = 1024.0 * 1024 * 1024;

// Rajbhandari et al. 2020 (ZeRO), table 1: GB of model states a device, by DP degree; stages 1, 2, 3 of 7.5B,
// 128B, 1T.
const struct Table1Row {
  int degree;
  string cells[3][3];
} kTable1[] = {{1, {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}}},
               {4, {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}}},
               {16, {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}}},
               {64, {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}}},
               {256, {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}}},
               {1024, {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}}};
const std::int64_t kSizes[] = {7'500'000'000, 128'000'000'000, 1'000'000'000'000};

TEST_CASE("published: all 54 cells of ZeRO's table 1, to the printed digit") {
  for (const Table1Row& row : kTable1) {
    for (std::size_t model = 0; model < 3; ++model) {
      for (int stage = 1; stage <= 3; ++stage) {
        CAPTURE(row.degree);
        CAPTURE(kSizes[model]);
        CAPTURE(stage);
        CHECK(zero_table1_cell(kSizes[model], row.degree, stage) == row.cells[model][stage - 1]);
        // The digits come of these bytes.
        const double gb = zero_states(stage).at(row.degree) * double(kSizes[model]) / kGB;
        CHECK(std::abs(gb - std::stod(row.cells[model][stage - 1])) < (gb >= 100  ? 1
                                                                       : gb >= 10 ? 0.0501
                                                                                  : 0.00501));
      }
    }
  }
}

TEST_CASE("published: table 1's bold cells are the first that fit 32 GB") {
  const struct {
    std::size_t model;
    int stage, degree;  // 0: none does
  } bold[] = {{0, 1, 64}, {0, 2, 16}, {0, 3, 4}, {1, 1, 0},   {1, 2, 0},
              {1, 3, 64}, {2, 1, 0},  {2, 2, 0}, {2, 3, 1024}};
  for (const auto& cell : bold) {
    CAPTURE(cell.model);
    CAPTURE(cell.stage);
    const StateBytes states = zero_states(cell.stage);
    const auto fewest = fewest_ranks(states, double(kSizes[cell.model]), 32 * kGB);
    REQUIRE(fewest.has_value() == (cell.degree > 0));
    if (!fewest) continue;
    int first = 0;
    for (const Table1Row& row : kTable1) {
      if (first == 0 && row.degree >= *fewest) first = row.degree;
    }
    CHECK(first == cell.degree);
    CHECK(states.at(double(*fewest)) * double(kSizes[cell.model]) <= 32 * kGB);
    CHECK(states.at(double(*fewest - 1)) * double(kSizes[cell.model]) > 32 * kGB);
  }
}

TEST_CASE("published: figure 1 of the ZeRO paper, 7.5B on 64 ranks") {
  const double expected[] = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage <= 3; ++stage)
    CHECK(prints(zero_states(stage).at(64) * 7.5, expected[stage], 0.1));
  // In the limit of many ranks a quarter, an eighth, and nothing.
  CHECK(zero_states(0).at(1e12) == 16);
  CHECK(zero_states(1).at(1e12) == doctest::Approx(4));
  CHECK(zero_states(2).at(1e12) == doctest::Approx(2));
  CHECK(zero_states(3).at(1e12) < 1e-9);
  // GPT-2 1.5B: 24 GB (section 3.1).
  CHECK(zero_states(0).at(1) * 1.5 == 24);
}

TEST_CASE("published: the theory columns of ZeRO's table 2, to the printed digit") {
  const struct {
    int model_parallel;
    string cells[4];
    double measured;  // ZeRO-OS, billions
  } rows[] = {{1, {"2B", "7.6B", "14.4B", "128B"}, 6.2},
              {2, {"4B", "15.2B", "28.8B", "256B"}, 12.5},
              {4, {"8B", "30.4B", "57.6B", "0.5T"}, 25},
              {8, {"16B", "60.8B", "115.2B", "1T"}, 50},
              {16, {"32B", "121.6B", "230.4B", "2T"}, 100}};
  for (const auto& row : rows) {
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(row.model_parallel);
      CAPTURE(stage);
      CHECK(zero_table2_cell(stage, 64, row.model_parallel, 32) == row.cells[stage]);
    }
    // Measured models took 0.82 of theory.
    const double theory = most_parameters(zero_states(1), 64, 32 * kGB) * row.model_parallel / 1e9;
    CHECK(row.measured / theory == doctest::Approx(0.815).epsilon(0.01));
  }
}

TEST_CASE("published: on 64 ranks of 32 GB models of 7.5B, 14B and 128B fit (ZeRO paper, section 5.4)") {
  CHECK(std::floor(most_parameters(zero_states(1), 64, 32 * kGB) / 0.5e9) * 0.5 == 7.5);
  CHECK(std::floor(most_parameters(zero_states(2), 64, 32 * kGB) / 1e9) == 14);
  CHECK(most_parameters(zero_states(3), 64, 32 * kGB) == 128e9);
  CHECK(most_parameters(zero_states(3), 1024, 32 * kGB) > 1e12);
  // 13B without model parallelism on 128 GPUs at stage 2: 27.4 GB of 32.
  CHECK(prints(zero_states(2).at(128) * 13, 27.4, 0.1));
}

TEST_CASE("published: states of the ZeRO paper's configurations C1 to C5 (table 3, figure 6)") {
  // 400 GPUs, MP 16, so 25 ranks share.
  const struct {
    int stage;
    double billions, gb;
  } rows[] = {{1, 40, 11.2}, {1, 60, 16.8}, {2, 140, 22.4}, {2, 150, 24.0}, {2, 170, 27.2}};
  for (const auto& row : rows) {
    CAPTURE(row.billions);
    CHECK(prints(zero_states(row.stage).at(25) * row.billions / 16, row.gb, 0.1));
  }
}

TEST_CASE("published: exact tables of sizes beyond any machine neither overflow nor drift") {
  CHECK(zero_table1_cell(10'000'000'000'000, 1'000'000, 0) == "160000");
  CHECK(zero_table1_cell(10'000'000'000'000, 1'000'000, 3) == "0.16");
  CHECK(zero_table1_cell(9'223'372'036'854'775'807, 1, 3) == "147573952589");
  CHECK(zero_table1_cell(1, 1'000'000, 3) == "0");
  // Halves go up, in binary numbers or not: 41.25, 1.005, 0.125.
  CHECK(zero_table1_cell(7'500'000'000, 4, 2) == "41.3");
  CHECK(zero_table1_cell(62'812'500, 1, 3) == "1.01");
  CHECK(zero_table1_cell(7'812'500, 1, 3) == "0.13");
  // Nor do they round up into the next range otherwise than printed.
  CHECK(zero_table1_cell(6'249'999'999, 1, 3) == "100");
  CHECK(zero_table1_cell(624'999'999, 1, 3) == "10");
}

TEST_CASE("published: fewest ranks is one where it fits alone, none where whole copies don't fit") {
  CHECK(fewest_ranks(zero_states(0), 1e9, 16e9) == 1);
  CHECK(fewest_ranks(zero_states(0), 1e9, 15e9) == std::nullopt);
  CHECK(fewest_ranks(zero_states(1), 1e9, 4e9) == std::nullopt);
  CHECK(fewest_ranks(zero_states(1), 1e9, 5e9) == 12);
  CHECK(fewest_ranks(zero_states(3), 1e9, 1e9) == 16);
  CHECK(fewest_ranks(zero_states(3), 1e13, 0) == std::nullopt);
  CHECK(fewest_ranks(zero_states(3), 1e13, 1e-9) == std::nullopt);
}

TEST_CASE("published: Megatron's distributed optimizer, its three rows") {
  // docs/user-guide/features/dist_optimizer.md: bytes a parameter without, and with d ranks.
  const struct {
    MegatronDtypes dtypes;
    double without, whole, shared;
  } rows[] = {{MegatronDtypes::fp16_fp16, 20, 4, 16},
              {MegatronDtypes::bf16_fp32, 18, 6, 12},
              {MegatronDtypes::fp32_fp32, 16, 8, 8}};
  for (const auto& row : rows) {
    for (const double d : {1., 2., 7., 64., 1e6}) {
      CHECK(megatron_states(row.dtypes, false).at(d) == row.without);
      CHECK(megatron_states(row.dtypes, true).at(d) == doctest::Approx(row.whole + row.shared / d));
    }
  }
}

TEST_CASE("published: LLaMA-Factory's and ZeRO-Infinity's bytes a parameter") {
  // LLaMA-Factory README, "Hardware Requirement", last column: 18x, 8x, 2x, x, x/2, x/4 GB for x billions.
  std::vector<double> bytes;
  for (const FactoryRow& row : factory_states()) bytes.push_back(row.bytes);
  CHECK(bytes == std::vector<double>{18, 8, 2, 1, 0.5, 0.25});
  CHECK(kInfinityStates.at(1) == 20);
}

// Source: DeepSpeed docs/code-docs/source/memory.rst, "cold" estimates of t5-3b on one node of 8 GPUs, in
// GiB.
constexpr double kT5Parameters = 2851e6, kT5Layer = 32e6;
const struct {
  const char* key;
  int stage;
  DeepSpeedOffload offload;
  bool zero_init;
  double cpu, gpu;
} kDeepSpeed[] = {{"offload_optimizer=cpu", 2, DeepSpeedOffload::optimizer, true, 127.45, 5.31},
                  {"offload_optimizer=none", 2, DeepSpeedOffload::none, true, 127.45, 15.93},
                  {"param=cpu,opt=cpu,zero_init=1", 3, DeepSpeedOffload::all, true, 71.69, 0.12},
                  {"param=cpu,opt=cpu,zero_init=0", 3, DeepSpeedOffload::all, false, 127.45, 0.12},
                  {"param=none,opt=cpu,zero_init=1", 3, DeepSpeedOffload::optimizer, true, 63.72, 0.78},
                  {"param=none,opt=cpu,zero_init=0", 3, DeepSpeedOffload::optimizer, false, 127.45, 0.78},
                  {"param=none,opt=none,zero_init=1", 3, DeepSpeedOffload::none, true, 1.43, 6.09},
                  {"param=none,opt=none,zero_init=0", 3, DeepSpeedOffload::none, false, 127.45, 6.09}};

TEST_CASE("published: DeepSpeed's estimates for t5-3b on eight GPUs, to the printed digit") {
  for (const auto& row : kDeepSpeed) {
    CAPTURE(string(row.key));
    const DeepSpeedEstimate e =
        deepspeed_estimate({kT5Parameters, kT5Layer, 1, 8, row.stage, row.offload, row.zero_init});
    CHECK(prints(e.cpu / kGiB, row.cpu, 0.01));
    CHECK(prints(e.gpu / kGiB, row.gpu, 0.01));
  }
}

TEST_CASE("published: DeepSpeed's estimates for t5-large on four GPUs, in whole MiB") {
  const double P = 737.67e6, largest = 32.90e6, MiB = 1024 * 1024;
  const auto gpu = [&](DeepSpeedOffload offload) {
    return std::floor(deepspeed_estimate({P, largest, 1, 4, 3, offload, true}).gpu / MiB);
  };
  CHECK(std::floor(4 * largest / MiB) == 125);
  CHECK(gpu(DeepSpeedOffload::none) == 3291);
  CHECK(gpu(DeepSpeedOffload::all) == 125);
  CHECK(gpu(DeepSpeedOffload::optimizer) == 477);
}

TEST_CASE("published: the collected figures of DeepSpeed are those checked here") {
  const auto path = test::test_data("numbers/published_figures.json");
  if (!path) return;
  const auto all = nlohmann::json::parse(test::read_file(*path)).at("deepspeed_zero_memory");
  const auto& t5 = all.at("t5-3b, 2851e6 params, largest layer 32e6, 1 node x 8 GPUs (cold)");
  std::size_t seen = 0;
  for (const auto& row : kDeepSpeed) {
    const auto& figures = t5.at(row.stage == 2 ? "zero2" : "zero3").at(row.key);
    CHECK(figures.at("cpu").get<double>() == row.cpu);
    CHECK(figures.at("gpu").get<double>() == row.gpu);
    ++seen;
  }
  CHECK(seen == t5.at("zero2").size() + t5.at("zero3").size());
}

TEST_CASE(
    "published: on more nodes DeepSpeed's host memory is divided, but never below a whole model a process") {
  // memory.rst, "General RAM": params * max(4 * n_gpus, 18 * gpus_factor) * 1.5, with gpus_factor = 1 /
  // nodes.
  const DeepSpeedAsk ask{1e9, 1e8, 2, 4, 3, DeepSpeedOffload::all, false};
  CHECK(deepspeed_estimate(ask).cpu == 1.5 * 16e9);
  CHECK(deepspeed_estimate({1e9, 1e8, 2, 1, 3, DeepSpeedOffload::all, false}).cpu == 1.5 * 9e9);
  CHECK(deepspeed_estimate({1e9, 1e8, 2, 4, 3, DeepSpeedOffload::all, true}).cpu == 1.5 * 9e9);
  CHECK(deepspeed_estimate({1e9, 1e8, 2, 4, 3, DeepSpeedOffload::optimizer, true}).cpu == 1.5 * 8e9);
  CHECK(deepspeed_estimate({1e9, 1e8, 1, 1, 2, DeepSpeedOffload::optimizer, true}).cpu == 1.5 * 16e9);
  CHECK(deepspeed_estimate({1e9, 1e8, 2, 4, 2, DeepSpeedOffload::none, true}).gpu == 4e9 + 2e9);
}

TEST_CASE("published: stages that nobody estimates are refused, by number") {
  for (const int stage : {-1, 4, 100}) {
    CAPTURE(stage);
    CHECK_THROWS_WITH_AS(zero_states(stage), doctest::Contains(std::to_string(stage).c_str()), Error);
  }
  for (const int stage : {0, 1, 4}) {
    CHECK_THROWS_WITH_AS(deepspeed_estimate({1e9, 1e8, 1, 8, stage, DeepSpeedOffload::none, true}),
                         doctest::Contains("stages are 2 to 3"), Error);
  }
  CHECK_THROWS_WITH_AS(deepspeed_estimate({1e9, 1e8, 1, 8, 2, DeepSpeedOffload::all, true}),
                       doctest::Contains("can't offload weights at stage 2"), Error);
}

TEST_CASE("published: Llama-2-70B by GPUs and stage, in GB") {
  const spec::ModelSpec model = test::llama2_70b();
  const double psi = double(model.parameters());
  CHECK(prints(zero_states(0).at(1) * psi / kGB, 1103.6, 0.1));
  const struct {
    int gpus;
    double stage1, stage2, stage3, fp32_gradients;
  } rows[] = {{8, 379.4, 258.7, 138.0, 155.2}, {16, 327.6, 198.3, 69.0, 77.6}, {32, 301.8, 168.1, 34.5, 38.8},
              {64, 288.8, 153.0, 17.2, 19.4},  {128, 282.4, 145.5, 8.6, 9.7},  {256, 279.1, 141.7, 4.3, 4.8}};
  for (const auto& row : rows) {
    CAPTURE(row.gpus);
    const auto gb = [&](int stage, int gradient) {
      return zero_states(stage, gradient).at(row.gpus) * psi / kGB;
    };
    CHECK(prints(gb(1, 2), row.stage1, 0.1));
    CHECK(prints(gb(2, 2), row.stage2, 0.1));
    CHECK(prints(gb(3, 2), row.stage3, 0.1));
    CHECK(prints(gb(3, 4), row.fp32_gradients, 0.1));
  }
  // Stage 2 never goes below two bytes of each parameter: 138 GB.
  CHECK(fewest_ranks(zero_states(2), psi, 137e9) == std::nullopt);
  CHECK(fewest_ranks(zero_states(3), psi, 80e9) == 14);
}

}  // namespace
}  // namespace zt::plan
