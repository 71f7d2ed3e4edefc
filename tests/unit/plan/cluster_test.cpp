#include "plan/cluster.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "support/paths.h"

namespace zt::plan {
namespace {

const char* const kSmall = R"(name: two
backend: cpu
host_memory: 1000
nodes:
  - ranks: 2
    memory_bandwidth: 1e10
    gather: {bandwidth: 1e9, latency: 1e-5}
    reduce: {bandwidth: 1e9, latency: 1e-5}
    rates: [{kernel: product, dtype: float32, per_second: 1e11}]
)";

std::string fault_of(const std::string& text) {
  try {
    parse_cluster(text, "c.yaml");
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::usage);
    return e.problem();
  }
  return "";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a cluster file is read by its keys, and written text reads back equal") {
  const Cluster c = parse_cluster(kSmall, "c.yaml");
  CHECK(c.name == "two");
  CHECK(c.nodes[0].ranks == 2);
  CHECK(c.nodes[0].gather == Link{1e9, 1e-5});
  CHECK(c.nodes[0].rates == std::vector<Rate>{{Kernel::product, recipe::ModelDtype::float32, 0, 0, 0, 1e11}});
  CHECK(parse_cluster(cluster_text(c), "again") == c);
  Cluster all = c;
  all.about = "quotes \" and: colons # and\nlines";
  all.calibrated = "2026-11-30T04:00:00Z";
  all.between = {3.3333333333e9, 1.7e-6};
  all.nodes.push_back(c.nodes[0]);
  all.nodes[1].ranks = 7;
  all.nodes[1].rates.push_back({Kernel::attention_backward, recipe::ModelDtype::bfloat16, 3, 5, 7, 1e11 / 3});
  CHECK(parse_cluster(cluster_text(all), "again") == all);
}

TEST_CASE("every described cluster is sound, named as its file, and knows what MFU is a share of") {
  REQUIRE(cluster_names().size() >= 6);
  for (const std::string& name : cluster_names()) {
    CAPTURE(name);
    const Cluster c = open_cluster(name);
    CHECK(c.name == name);
    CHECK_FALSE(c.calibrated.has_value());
    CHECK(c.about.size() > 20);
    CHECK(c == open_cluster((test::source_dir() / "recipes/clusters" / (name + ".yaml")).string()));
    const double peak = std::max(c.peak_bfloat16, c.peak_float16);
    for (const Node& node : c.nodes)
      for (const Rate& rate : node.rates)
        if (rate.dtype != recipe::ModelDtype::float32) {
          CHECK(rate.per_second < peak);
          CHECK(rate.per_second > 0.1 * peak);
        }
  }
}

TEST_CASE("faults of a cluster file are told all at once, by line") {
  struct Case {
    std::string from, to, want;
  };
  const std::vector<Case> cases = {
      {"name: two", "nam: two", "line 1: unknown key 'nam'; did you mean name?"},
      {"backend: cpu", "backend: tpu", "line 2: backend must be cpu or cuda, is 'tpu'"},
      {"backend: cpu", "backend: cuda", "device_memory is needed with backend: cuda"},
      {"ranks: 2", "ranks: 0", "line 5: nodes[0].ranks must be between 1 and 1000000, is 0"},
      {"ranks: 2", "ranks: 10000000000", "line 5: nodes[0].ranks must be between 1 and 1000000"},
      {"memory_bandwidth: 1e10", "threads: 1", "nodes[0].memory_bandwidth is needed, above 0"},
      {"memory_bandwidth: 1e10", "memory_bandwidth: -3", "nodes[0].memory_bandwidth must be between 1 and"},
      {"memory_bandwidth: 1e10", "memory_bandwidth: .inf", "memory_bandwidth must be"},
      {"memory_bandwidth: 1e10", "memory_bandwidth: .nan", "memory_bandwidth must be"},
      {"gather: {bandwidth: 1e9", "gather: {bandwidth: 0", "nodes[0].gather.bandwidth must be between 1 and"},
      {"gather: {bandwidth: 1e9, latency: 1e-5}", "overlap_comm: 1",
       "nodes[0] has several ranks and needs gather and reduce"},
      {"latency: 1e-5", "latency: 1e9", "latency must be between 0 and 3600"},
      {"kernel: product", "kernel: attention", "nodes[0].rates needs at least one rate of `product`"},
      {"kernel: product", "kernel: magic", "nodes[0].rates[0].kernel must be product, product_dx"},
      {"per_second: 1e11", "per_second: 0", "nodes[0].rates[0].per_second must be between 1 and"},
      {"per_second: 1e11", "per_second: 1e-300", "nodes[0].rates[0].per_second must be between 1 and"},
      {"backend: cpu", "backend: cpu\npeak_float32: 1e-300", "peak_float32 must be 0, or between 1 and"},
      {"ranks: 2", "ranks: 2\n    overlap_compute: 1e-300", "overlap_compute must be between 0.01 and 1"},
      {"ranks: 2", "ranks: 2\n    overlap_comm: 1.1", "overlap_comm must be between 0.01 and 1, is 1.1"},
      {"name: two", "name: \"\\e[31mtwo\"", "name must be one line without control characters"},
      {"name: two", "name: two\nabout: \"a\\e[0m\"", "about must be without control characters"},
      {"name: two", "name: \"two\\nthree\"", "name must be one line without control characters"},
      {"name: two", "name: two\ncalibrated: yesterday", "calibrated must be a time in UTC"},
      {"name: two", "name: two\ncalibrated: 2026-11-30 04:00", "calibrated must be a time in UTC"},
      {"per_second: 1e11", "per_second: fast", "must be a number, is 'fast'"},
      {"nodes:", "node_list:", "nodes needs at least one entry"}};
  for (const Case& c : cases) {
    CAPTURE(c.to);
    const std::string fault = fault_of(with(kSmall, c.from, c.to));
    CAPTURE(fault);
    CHECK(fault.find(c.want) != std::string::npos);
    CHECK(starts_with(fault, "the cluster c.yaml has problems:"));
  }
  const std::string both =
      fault_of(with(with(kSmall, "backend: cpu", "backend: tpu"), "ranks: 2", "ranks: -1"));
  CHECK(both.find("line 2") < both.find("line 5"));
  CHECK(fault_of("[]").find("is a section") != std::string::npos);
  CHECK(fault_of("").find("is a section") != std::string::npos);
  CHECK(starts_with(fault_of("a: ["), "the cluster c.yaml has problems:\n  line 1"));
  CHECK(starts_with(fault_of("a: \xff"), "the cluster c.yaml has problems:\n  line 1, column 4: byte 0xff"));
  const std::string entry = std::string(kSmall).substr(std::string(kSmall).find("  - ranks"));
  CHECK(fault_of(kSmall + entry).find("nodes[1].ranks must be more than") != std::string::npos);
}

TEST_CASE("the entry of a node is the smallest that holds the ranks, and more nodes need a link") {
  Cluster c = parse_cluster(kSmall, "c.yaml");
  c.nodes.push_back(c.nodes[0]);
  c.nodes[1].ranks = 4;
  CHECK(c.node_for(1).ranks == 2);
  CHECK(c.node_for(2).ranks == 2);
  CHECK(c.node_for(3).ranks == 4);
  CHECK_THROWS_WITH_AS(c.node_for(5),
                       doctest::Contains("5 ranks do not fit on one node of 'two' (at most 4)"), Error);
  c.between = {1e9, 1e-5};
  CHECK(c.node_for(5).ranks == 4);
  CHECK(c.node_for(1'000'000).ranks == 4);
  CHECK(c.memory_of_rank(1) == 1000);
  CHECK(c.memory_of_rank(4) == 250);
  CHECK(c.memory_of_rank(1'000'000) == 250);
  c.backend = Backend::cuda;
  c.device_memory = 70;
  CHECK(c.memory_of_rank(4) == 70);
}

TEST_CASE("a device is a known name or a file, and the nearest name is offered") {
  CHECK_THROWS_WITH_AS(open_cluster("h100-80g"), doctest::Contains("did you mean h100-80gb?"), Error);
  CHECK_THROWS_WITH_AS(open_cluster("H200"), doctest::Contains("did you mean h200-141gb?"), Error);
  CHECK(open_cluster("H100-80GB") == open_cluster("h100-80gb"));
  try {
    open_cluster(std::string(5000, 'x'));
    FAIL("a device of any name");
  } catch (const Error& e) {
    CHECK(e.problem().size() < 150);
    CHECK(starts_with(e.problem(), "there is no device 'xxxxx"));
  }
  CHECK_THROWS_WITH_AS(open_cluster("no/such.yaml"), doctest::Contains("no/such.yaml"), Error);
  const test::ScratchDir folder;
  CHECK(open_cluster(folder.write("mine.yaml", kSmall).string()).name == "two");
}

}  // namespace
}  // namespace zt::plan
