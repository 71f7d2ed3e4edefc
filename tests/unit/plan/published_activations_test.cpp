#include "plan/published_activations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "unit/plan/printed.h"

namespace zt::plan {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024, kTiB = 1024 * kGiB;

TEST_CASE("published: activations of the ZeRO paper (sections 3.2 and 6.1)") {
  // GPT-2 1.5B, sequences of 1K, batch 32: about 60 GB; the layers' inputs alone are 5.03 GB, and the square
  // root of 60 about 8.
  const ActivationShape gpt2{32, 1024, 1600, 25};
  CHECK(prints(2 * zero_activations(gpt2, 48) / 1e9, 60.4, 0.1));
  CHECK(prints(2 * zero_checkpoints(gpt2, 48) / 1e9, 5.03, 0.01));
  // 100B, batch 32: the text's "33 GB" are elements, its "around 60 GB" are bytes; sixteen share them in P_a.
  const ActivationShape large{32, 1024, 8192, 64};
  CHECK(prints(zero_checkpoints(large, 125) / 1e9, 33.55, 0.01));
  CHECK(prints(2 * zero_checkpoints(large, 125) / 1e9, 67.1, 0.1));
  CHECK(prints(2 * zero_checkpoints(large, 125) / kGiB, 62.5, 0.1));
  CHECK(prints(2 * zero_checkpoints(large, 125) / 16 / 1e9, 4.19, 0.01));
}

TEST_CASE("published: all six rows of Korthikanti's table 2") {
  const struct {
    ActivationShape shape;
    double t;
  } cases[] = {
      {{1, 2048, 12288, 96}, 8}, {{4, 2048, 6144, 64}, 8}, {{1, 2048, 20480, 128}, 1}, {{3, 100, 60, 5}, 3}};
  for (const auto& c : cases) {
    const double s = c.shape.sequence, b = c.shape.batch, h = c.shape.hidden, a = c.shape.heads, t = c.t;
    const auto row = [&](ActivationRow r) { return doctest::Approx(korthikanti_activations(r, c.shape, t)); };
    // From the paper's parts: attention 11 s b h + 5 a s^2 b, MLP 19 s b h, two layer norms 4 s b h. Tensor
    // parallelism does not divide the norms, the inputs of attention and MLP, and the two masks after them.
    const double attention = 11 * s * b * h + 5 * a * s * s * b, mlp = 19 * s * b * h, norms = 4 * s * b * h;
    const double undivided = norms + 2 * (2 + 1) * s * b * h, scores = 5 * a * s * s * b;
    const double all = attention + mlp + norms;
    CHECK(row(ActivationRow::none) == all);
    CHECK(row(ActivationRow::tensor) == undivided + (all - undivided) / t);
    CHECK(row(ActivationRow::tensor_sequence) == all / t);
    CHECK(row(ActivationRow::tensor_selective) == undivided + (all - undivided - scores) / t);
    CHECK(row(ActivationRow::tensor_sequence_selective) == (all - scores) / t);
    CHECK(row(ActivationRow::full) == 2 * s * b * h);
    CHECK(korthikanti_activations(ActivationRow::none, c.shape) ==
          doctest::Approx(s * b * h * (34 + 5 * a * s / h)));
  }
}

TEST_CASE("published: selective recomputation saves 70 % at GPT-3 and 65 % at MT-NLG") {
  CHECK(prints(selective_saving({1, 2048, 12288, 96}), 0.70, 0.01));
  CHECK(prints(selective_saving({1, 2048, 20480, 128}), 0.65, 0.01));
  // Their scores are 80 and 64 against 34.
  const ActivationShape gpt3{1, 2048, 12288, 96};
  CHECK(korthikanti_activations(ActivationRow::none, gpt3) / (2048.0 * 12288) == doctest::Approx(34 + 80));
}

TEST_CASE("published: with an MLP of four widths and no scores Megatron-LM counts Korthikanti's 34") {
  for (const double h : {768., 12288.}) {
    const ActivationShape shape{2, 2048, h, 12};
    CHECK(megatron_activations(shape, 4 * h) ==
          doctest::Approx(korthikanti_activations(ActivationRow::tensor_sequence_selective, shape, 1)));
    CHECK(megatron_activations(shape, 11008) == doctest::Approx(2 * 2048 * h * (18 + 4 * 11008 / h)));
  }
}

TEST_CASE("published: ZeRO-Infinity's table of figure 2a, every column of its five models") {
  // Sequences of 1024, batch 32 a node; working memory at 2 a GPU and a checkpoint each layer.
  const struct {
    double trillions, layers, hidden, heads, states, activations, checkpoints, state_work, activation_work;
  } rows[] = {{0.10, 80, 10, 128, 1.83, 2.03, 0.05, 1.56, 1.63},
              {0.50, 100, 20, 160, 9.16, 3.91, 0.12, 6.25, 2.50},
              {1.01, 128, 25, 256, 18.31, 7.13, 0.20, 9.77, 3.56},
              {10.05, 195, 64, 512, 182.81, 24.38, 0.76, 64.00, 8.00},
              {101.47, 315, 160, 1024, 1845.70, 88.59, 3.08, 400.00, 18.00}};
  for (const auto& row : rows) {
    CAPTURE(row.trillions);
    const double h = row.hidden * 1024, parameters = infinity_parameters(row.layers, h);
    const ActivationShape node{32, 1024, h, row.heads}, gpu{2, 1024, h, row.heads};
    CHECK(prints(parameters / 1e12, row.trillions, 0.01));
    CHECK(prints(20 * parameters / kTiB, row.states, 0.01));
    CHECK(prints(infinity_activations(node, row.layers) / kTiB, row.activations, 0.01));
    CHECK(prints(infinity_checkpoints(node, row.layers, 1) / kTiB, row.checkpoints, 0.01));
    CHECK(prints(infinity_state_working_memory(h) / kGiB, row.state_work, 0.01));
    CHECK(prints(infinity_activation_working_memory(gpu, 1) / kGiB, row.activation_work, 0.01));
  }
}

TEST_CASE("published: parameters of the ZeRO paper's models by 12 L h^2 (table 4)") {
  const struct {
    double layers, hidden, billions, digit;
  } rows[] = {
      {48, 1600, 1.47, 0.01},  {72, 3072, 8.15, 0.01},  {88, 6144, 39.9, 0.1},   {132, 6144, 59.8, 0.1},
      {100, 8192, 80.5, 0.1},  {125, 8192, 100.7, 0.1}, {150, 8192, 120.8, 0.1}, {175, 8192, 140.9, 0.1},
      {212, 8192, 170.7, 0.1}, {24, 1920, 1.06, 0.01},  {34, 1920, 1.50, 0.01},  {54, 1920, 2.39, 0.01},
      {64, 2304, 4.08, 0.01},  {52, 3072, 5.89, 0.01},  {50, 4096, 10.1, 0.1},   {54, 4096, 10.9, 0.1},
      {58, 4096, 11.7, 0.1},   {62, 4096, 12.5, 0.1},   {75, 8192, 60.4, 0.1}};
  for (const auto& row : rows) {
    CAPTURE(row.layers);
    CAPTURE(row.hidden);
    CHECK(prints(infinity_parameters(row.layers, row.hidden) / 1e9, row.billions, row.digit));
  }
}

TEST_CASE("published: checkpoints of Chen et al. keep the fewest layers with segments near the square root") {
  const struct {
    std::int64_t layers, kept;
  } rows[] = {{12, 7}, {32, 12}, {80, 18}, {125, 23}};
  for (const auto& row : rows) CHECK(checkpointed_layers(row.layers, best_segment(row.layers)) == row.kept);
  for (std::int64_t layers = 1; layers <= 200; ++layers) {
    const std::int64_t least = checkpointed_layers(layers, best_segment(layers));
    for (std::int64_t k = 1; k <= layers; ++k) CHECK(least <= checkpointed_layers(layers, k));
    CHECK(double(least) >= 2 * std::sqrt(double(layers)) - 1e-9);
  }
}

}  // namespace
}  // namespace zt::plan
