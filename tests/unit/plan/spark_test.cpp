#include "plan/spark.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "schedule/schedule.h"
#include "support/steps.h"

namespace zt::plan {
namespace {

// Ops without meaning, the n-th of micro-batch n.
std::vector<schedule::Op> ops_of(std::size_t count) {
  std::vector<schedule::Op> ops(count);
  for (std::size_t i = 0; i < count; ++i) ops[i].block = 0, ops[i].micro = int(i);
  return ops;
}
MemoryStack stack_of_bytes(std::int64_t constant, std::vector<std::int64_t> bytes) {
  return {constant, {{"all", std::move(bytes)}}};
}
std::string cells(const std::string& spark) { return split(spark, '\n').front(); }

TEST_CASE("spark: six levels between the constant part and the peak, which have one each") {
  const MemoryStack stack = stack_of_bytes(100, {0, 1, 9, 17, 33, 42, 59, 60});
  CHECK(spark_line(stack, ops_of(8), {8, false}) ==
        "▁▂▂▃▅▆▇█\n▁ 100 B always, █ peak 160 B at forward b0 m7 (#7 of 8 ops)\n");
  CHECK(cells(spark_line(stack, ops_of(8), {8, true})) == "_..:=+*#");
  CHECK(cells(spark_line(stack, ops_of(8), {16, true})) == "__....::==++**##");
}

TEST_CASE("spark: a single high op among any number of others is never lost, and is the only highest cell") {
  for (const std::size_t n :
       {std::size_t(1), std::size_t(71), std::size_t(72), std::size_t(1000), std::size_t(100'000)}) {
    for (const std::size_t at : {std::size_t(0), n / 3, n - 1}) {
      CAPTURE(n);
      CAPTURE(at);
      std::vector<std::int64_t> bytes(n, 10);
      bytes[at] = 1000;
      const std::string line = cells(spark_line(stack_of_bytes(5, bytes), ops_of(n), {72, true}));
      CHECK(line.size() == 72);
      const std::size_t high = std::size_t(std::count(line.begin(), line.end(), '#'));
      CHECK(high >= 1);
      if (n >= 72) CHECK(high == 1);
      CHECK(std::abs(double(line.find('#')) - double(at) * 72 / double(n)) <= 1);
    }
  }
}

TEST_CASE("spark: steps without ops or without ups and downs have a line too") {
  CHECK(spark_line(stack_of_bytes(7, {}), {}, {8, true}) == "________\n_ 7 B always\n");
  CHECK(spark_line(stack_of_bytes(7, {0}), ops_of(1), {8, true}) ==
        "________\n_ 7 B always, _ peak 7 B at forward b0 m0 (#0 of 1 ops)\n");
  CHECK_THROWS_AS(spark_line(stack_of_bytes(7, {1}), {}), Error);
}

TEST_CASE("spark: a planned step's peak is the constant part and the busiest moment of its arena") {
  const schedule::Schedule list = test::small_step(6, 2, 4);
  const auto timeline = memory_timeline(list);
  const MemoryPoint peak = busiest(timeline);
  const std::string spark = spark_line(stack_of(timeline, 1 << 20), list.ops);
  CHECK(spark.find("peak " + human_bytes((1 << 20) + peak.live()) + " at " +
                   name(list.ops[std::size_t(peak.op)])) != std::string::npos);
}

}  // namespace
}  // namespace zt::plan
