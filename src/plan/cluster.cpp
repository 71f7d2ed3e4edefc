#include "plan/cluster.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/text.h"
#include "plan/described_clusters.h"
#include "recipe/table.h"

namespace zt::recipe {

using plan::Cluster;
using plan::Link;
using plan::Rate;

// A section, or a list of sections, whose keys stand in a table of its own.
template <typename S>
const std::vector<Key<S>>& keys_of();

template <typename S>
struct SectionCodec {
  static std::string type() { return "section"; }
  static bool read(const Node& node, const At& at, S& value) {
    return read_section(keys_of<S>(), node, at, value);
  }
  static nlohmann::ordered_json to_json(const S& value) { return section_json(keys_of<S>(), value); }
  static nlohmann::ordered_json schema() { return section_schema(keys_of<S>(), S{}); }
};
template <typename S>
struct ListCodec {
  static std::string type() { return "list of sections"; }
  static bool read(const Node& node, const At& at, std::vector<S>& value) {
    if (!node.is_list()) return at.refuse(node, "a list of sections");
    for (std::size_t i = 0; i < node.items.size(); ++i)
      if (S item; read_section(keys_of<S>(), node.items[i], at.item(i), item))
        value.push_back(std::move(item));
    return true;
  }
  static nlohmann::ordered_json to_json(const std::vector<S>& value) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const S& item : value) list.push_back(section_json(keys_of<S>(), item));
    return list;
  }
  static nlohmann::ordered_json schema() { return {{"type", "array"}}; }
};
template <>
struct Codec<Link> : SectionCodec<Link> {};
template <>
struct Codec<std::vector<Rate>> : ListCodec<Rate> {};
template <>
struct Codec<std::vector<plan::Node>> : ListCodec<plan::Node> {};

// Beyond these a number is a typing error.
constexpr std::int64_t kMostRanks = 1'000'000, kMostSize = std::int64_t{1} << 40;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

static Check rate() { return between(1, kMostBytes); }
static Check rate_or_zero() {
  return {cat("0, or between 1 and ", kMostBytes),
          [](double x) { return x == 0 || (x >= 1 && x <= double(kMostBytes)); },
          {{"minimum", 0}, {"maximum", kMostBytes}}};
}
static Check seconds() { return between(0, 3600); }
// Of a speed that something else slows down.
static Check speed() {
  return {"between 0.01 and 1",
          [](double x) { return x >= 0.01 && x <= 1; },
          {{"minimum", 0.01}, {"maximum", 1}}};
}

template <>
const std::vector<Key<Link>>& keys_of<Link>() {
  static const std::vector<Key<Link>> keys = {
      key("bandwidth", &Link::bandwidth, "bytes/s", "In each direction.", rate()),
      key("latency", &Link::latency, "seconds", "Of a message.", seconds())};
  return keys;
}

template <>
const std::vector<Key<Rate>>& keys_of<Rate>() {
  static const std::vector<Key<Rate>> keys = {
      key("kernel", &Rate::kernel, "", "What is computed."),
      key("dtype", &Rate::dtype, "", "On which numbers."),
      key("m", &Rate::m, "", "Size; 0: any.", between(0, kMostSize)),
      key("n", &Rate::n, "", "Size; 0: any.", between(0, kMostSize)),
      key("k", &Rate::k, "", "Size; 0: any.", between(0, kMostSize)),
      key("per_second", &Rate::per_second, "FLOP/s or bytes/s", "What one rank achieves.", rate())};
  return keys;
}

template <>
const std::vector<Key<plan::Node>>& keys_of<plan::Node>() {
  using plan::Node;
  static const std::vector<Key<Node>> keys = {
      key("ranks", &Node::ranks, "ranks", "On the node, all busy.", between(1, kMostRanks)),
      key("threads", &Node::threads, "threads", "Of each rank.", between(1, kMostRanks)),
      key("memory_bandwidth", &Node::memory_bandwidth, "bytes/s", "Of kernels without a rate.", rate()),
      key("call_seconds", &Node::call_seconds, "seconds", "What every kernel call takes besides.", seconds()),
      key("step_seconds", &Node::step_seconds, "seconds", "What every step takes besides.", seconds()),
      key("gather", &Node::gather, "", "all_gather inside the node."),
      key("reduce", &Node::reduce, "", "reduce_scatter inside the node."),
      key("overlap_compute", &Node::overlap_compute, "", "Speed of computing while something moves.",
          speed()),
      key("overlap_comm", &Node::overlap_comm, "", "Speed of moving while something computes.", speed()),
      key("stretch", &Node::stretch, "", "Whole steps take so many times what their ops take.",
          Check{cat("between ", plan::kLeastStretch, " and ", plan::kMostStretch),
                [](double x) { return x >= plan::kLeastStretch && x <= plan::kMostStretch; },
                nlohmann::ordered_json::object()}),
      key("rates", &Node::rates, "", "What kernels achieve.")};
  return keys;
}

template <>
const std::vector<Key<Cluster>>& keys_of<Cluster>() {
  static const std::vector<Key<Cluster>> keys = {
      key("name", &Cluster::name, "", "What the cluster is called."),
      key("about", &Cluster::about, "", "What it is, and where the numbers are from."),
      key("calibrated", &Cluster::calibrated, "", "When it was measured."),
      key("backend", &Cluster::backend, "", "What computes."),
      key("peak_float32", &Cluster::peak_float32, "FLOP/s", "Of a rank.", rate_or_zero()),
      key("peak_bfloat16", &Cluster::peak_bfloat16, "FLOP/s", "Of a rank.", rate_or_zero()),
      key("peak_float16", &Cluster::peak_float16, "FLOP/s", "Of a rank.", rate_or_zero()),
      key("device_memory", &Cluster::device_memory, "bytes", "A rank may use; 0 on a CPU.",
          between(0, kMostBytes)),
      key("host_memory", &Cluster::host_memory, "bytes", "Of a node; 0: unknown.", between(0, kMostBytes)),
      key("library_bytes", &Cluster::library_bytes, "bytes", "What libraries of a device hold for a rank.",
          between(0, kMostBytes)),
      key("collectives", &Cluster::collectives, "", "How collectives go over several nodes."),
      key("between", &Cluster::between, "", "A node's link to all others."),
      key("disk_write", &Cluster::disk_write, "bytes/s", "Of a node; 0: unknown.", rate_or_zero()),
      key("disk_read", &Cluster::disk_read, "bytes/s", "Of a node; 0: unknown.", rate_or_zero()),
      key("nodes", &Cluster::nodes, "", "A node by how many ranks are on it.")};
  return keys;
}

}  // namespace zt::recipe

namespace zt::plan {

// Larger files are refused unread.
static constexpr std::int64_t kMaxClusterBytes = 10'000'000;

std::int64_t Cluster::memory_of_rank(int ranks) const {
  if (backend == Backend::cuda) return device_memory;
  return host_memory / std::min<std::int64_t>(ranks, node_for(ranks).ranks);
}

double Cluster::peak(recipe::ModelDtype dtype) const {
  switch (dtype) {
    case recipe::ModelDtype::float32: return peak_float32;
    case recipe::ModelDtype::bfloat16: return peak_bfloat16;
    case recipe::ModelDtype::float16: return peak_float16 > 0 ? peak_float16 : peak_bfloat16;
  }
  return 0;
}

const Node& Cluster::node_for(int ranks) const {
  for (const Node& node : nodes)
    if (node.ranks >= ranks) return node;
  if (between.bandwidth > 0) return nodes.back();
  throw Error(Blame::usage,
              cat(ranks, " ranks do not fit on one node of '", name, "' (at most ", nodes.back().ranks,
                  "), and it has no link between nodes"),
              calibrated
                  ? cat("measure it with so many ranks: mpirun -n ", ranks, " zerotrain doctor --calibrate")
                  : "give `between: {bandwidth, latency}` in the cluster file");
}

// Whether a terminal shows it as it is.
static bool printable(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

// "2026-11-30T04:00:00Z".
static bool is_utc_time(const std::string& text) {
  static constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  return std::ranges::equal(text, kForm,
                            [](char c, char form) { return form == 'd' ? c >= '0' && c <= '9' : c == form; });
}

// What must hold between keys. Every node must be able to compute something and to move something.
static void check_between_keys(const Cluster& c, recipe::Faults& faults) {
  const auto fault = [&](const std::string& path, const std::string& text) {
    if (faults.sound(path)) faults.add({}, path, text);
  };
  if (c.name.empty()) fault("name", "the cluster needs a name");
  if (!printable(c.name) || c.name.find('\n') != std::string::npos)
    fault("name", "name must be one line without control characters");
  if (!printable(c.about)) fault("about", "about must be without control characters");
  if (c.calibrated && !is_utc_time(*c.calibrated))
    fault("calibrated", "calibrated must be a time in UTC as 2026-11-30T04:00:00Z");
  if (c.backend == Backend::cuda && c.device_memory == 0)
    fault("device_memory", "device_memory is needed with backend: cuda");
  if (c.nodes.empty()) fault("nodes", "nodes needs at least one entry");
  for (std::size_t i = 0; i < c.nodes.size(); ++i) {
    const Node& node = c.nodes[i];
    const std::string path = cat("nodes[", i, "]");
    if (node.memory_bandwidth <= 0)
      fault(path + ".memory_bandwidth", path + ".memory_bandwidth is needed, above 0");
    if (node.ranks > 1 && (node.gather.bandwidth <= 0 || node.reduce.bandwidth <= 0))
      fault(path + ".gather",
            path + " has several ranks and needs gather and reduce with a bandwidth above 0");
    if (std::ranges::none_of(node.rates, [](const Rate& r) { return r.kernel == Kernel::product; }))
      fault(path + ".rates", path + ".rates needs at least one rate of `product`");
    if (i > 0 && node.ranks <= c.nodes[i - 1].ranks)
      fault(path + ".ranks", path + ".ranks must be more than those of the entry before");
  }
}

static constexpr const char* kClusterHint =
    "docs/formats/cluster.md lists every key; recipes/clusters has examples";

// The tree of a text that may be no YAML at all.
static recipe::Node tree_of(const std::string& text, const std::string& where) {
  try {
    return recipe::parse_tree(text);
  } catch (const Error& e) {
    const std::size_t faults = e.problem().find('\n');
    if (faults == std::string::npos) throw;
    throw Error(e.blame(), cat("the cluster ", where, " has problems:", e.problem().substr(faults)),
                kClusterHint);
  }
}

Cluster parse_cluster(const std::string& text, const std::string& where) {
  recipe::Faults faults;
  std::map<std::string, recipe::Origin> origins;
  const recipe::Node root = tree_of(text, where);
  Cluster cluster;
  if (!root.is_map())
    faults.add({}, "", "a cluster file is a section with name, nodes and so on");
  else
    recipe::read_section(recipe::keys_of<Cluster>(), root, {"", faults, origins}, cluster);
  if (root.is_map()) check_between_keys(cluster, faults);
  faults.throw_if_any(cat("the cluster ", where, " has problems:"), kClusterHint);
  return cluster;
}

std::string cluster_text(const Cluster& cluster) {
  const auto flow = [](const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  nlohmann::ordered_json all = recipe::section_json(recipe::keys_of<Cluster>(), cluster);
  std::string out;
  for (const auto& [name, value] : all.items()) {
    const bool absent = (name == "between" && cluster.between == Link{}) ||
                        (name == "about" && cluster.about.empty()) ||
                        (name == "calibrated" && !cluster.calibrated);
    if (name != "nodes" && !absent) out += cat(name, ": ", flow(value), "\n");
  }
  out += "nodes:\n";
  for (const auto& node : all["nodes"]) {
    std::string lead = "  - ";
    for (const auto& [name, value] : node.items()) {
      const bool none = (name == "gather" || name == "reduce") && value["bandwidth"] == 0.0;
      if (none) continue;
      out += cat(lead, name, ":");
      lead = "    ";
      if (name != "rates") {
        out += cat(" ", flow(value), "\n");
        continue;
      }
      out += "\n";
      for (const auto& rate : value) out += cat("      - ", flow(rate), "\n");
    }
  }
  return out;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const DescribedCluster& c : kDescribedClusters) names.emplace_back(c.name);
  return names;
}

// The known name that was meant: one that begins so, else one with a typing error. "" where none is near.
static std::string meant(const std::string& name) {
  for (const std::string& known : cluster_names())
    if (!name.empty() && known.starts_with(name)) return known;
  return nearest(name, cluster_names());
}

static bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Cluster open_cluster(const std::string& name_or_path) {
  std::string name = name_or_path;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const DescribedCluster& c : kDescribedClusters)
    if (name == c.name) return parse_cluster(std::string(c.text), name);
  const bool is_path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml");
  if (is_path || is_there(name_or_path))
    return parse_cluster(read_text_file(name_or_path, Blame::usage, kMaxClusterBytes), name_or_path);
  const std::string near = meant(name);
  throw Error(Blame::usage,
              cat("there is no device '", recipe::shortened(name_or_path, 80), "'",
                  near.empty() ? "" : cat("; did you mean ", near, "?")),
              cat("known are ", join(cluster_names(), ", "), "; or give the path of a cluster file"));
}

std::string calibration_path() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string root = cache != nullptr && *cache != 0 ? std::string(cache)
                           : home != nullptr && *home != 0 ? cat(home, "/.cache")
                                                           : std::string("/tmp");
  return cat(root, "/zerotrain/", host_name(), ".yaml");
}

}  // namespace zt::plan
