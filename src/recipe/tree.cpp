#include "recipe/tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/plain_text.h"
#include "base/text.h"

namespace zt::recipe {
namespace {

// The first fault of syntax; nothing after it can be trusted.
[[noreturn]] void refuse(const std::string& set, int line, int column, const std::string& text) {
  const std::string where = set.empty() ? cat("line ", line, ", column ", column) : set;
  throw Error(Blame::usage, cat("recipe has problems:\n  ", where, ": ", text));
}

std::size_t bytes_of(const Node& node) {
  std::size_t sum = node.text.size();
  for (const Node& item : node.items) sum += bytes_of(item);
  for (const Entry& entry : node.entries) sum += entry.key.size() + bytes_of(entry.value);
  return sum;
}

int values_of(const Node& node) {
  int sum = 1;
  for (const Node& item : node.items) sum += values_of(item);
  for (const Entry& entry : node.entries) sum += values_of(entry.value);
  return sum;
}

int depth_of(const Node& node) {
  int deepest = 0;
  for (const Node& item : node.items) deepest = std::max(deepest, depth_of(item));
  for (const Entry& entry : node.entries) deepest = std::max(deepest, depth_of(entry.value));
  return deepest + 1;
}

// A comment put after the text. yaml-cpp closes an open quote at the end of the text by itself; then this
// comment is part of the value. It holds a control character, so no recipe can hold it.
constexpr const char* kEndMark = "# \x02 end of recipe";

// Builds the tree from yaml-cpp's events. Events, not YAML::Node, because those keep repeated keys, every
// line, and aliases as aliases, whose cost can be seen before they are written out.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& set) : set_(set) {}
  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node = leaf(Node::Kind::null, mark);
    keep(anchor, node, mark);
    put(std::move(node), mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(tag, mark);
    if (value.find(kEndMark) != std::string::npos) fail(mark, "the quote that opens here never closes");
    Node node = leaf(Node::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag != "?";
    keep(anchor, node, mark);
    put(std::move(node), mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(mark, "an alias (*) inside the value it stands for");
    count(mark, found->second.values, found->second.bytes);
    if (static_cast<int>(open_.size()) + found->second.depth > kMaxDepth) too_deep(mark);
    put(found->second.node, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(Node::Kind::list, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(Node::Kind::map, mark, tag, anchor);
  }
  void OnSequenceEnd() override { finish(); }
  void OnMapEnd() override {
    merge(open_.back().node);
    finish();
  }

 private:
  struct Open {
    Node node;
    YAML::Mark mark;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
    Entry entry;
  };
  struct Anchored {
    Node node;
    int values = 0, depth = 0;
    std::size_t bytes = 0;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& text) const {
    refuse(set_, mark.line + 1, mark.column + 1, text);
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) const {
    fail(mark, cat("values are nested more than ", kMaxDepth, " deep"));
  }
  Origin origin(const YAML::Mark& mark) const {
    return set_.empty() ? Origin{mark.line + 1, ""} : Origin{0, set_};
  }
  Node leaf(Node::Kind kind, const YAML::Mark& mark) {
    count(mark, 1, 0);
    Node node;
    node.kind = kind;
    node.origin = origin(mark);
    return node;
  }
  void count(const YAML::Mark& mark, int values, std::size_t bytes) {
    values_ += values;
    bytes_ += bytes;
    if (values_ > kMaxValues || bytes_ > kMaxExpandedBytes)
      fail(mark, cat("more than ", with_commas(kMaxValues), " values (aliases and merges written out)"));
  }
  void check_tag(const std::string& tag, const YAML::Mark& mark) const {
    if (tag != "?" && tag != "!" && !tag.empty() && tag != "tag:yaml.org,2002:str")
      fail(mark, cat("the tag '", tag, "' has no meaning in a recipe"));
  }
  void start(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(tag, mark);
    if (static_cast<int>(open_.size()) >= kMaxDepth) too_deep(mark);
    if (expects_key()) fail(mark, "a key must be a word, not a list or a section");
    open_.push_back({leaf(kind, mark), mark, anchor, false, {}});
  }
  bool expects_key() const { return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key; }
  void finish() {
    Open done = std::move(open_.back());
    open_.pop_back();
    keep(done.anchor, done.node, done.mark);
    put(std::move(done.node), done.mark);
  }
  void keep(YAML::anchor_t anchor, const Node& node, const YAML::Mark& mark) {
    if (anchor == YAML::NullAnchor) return;
    count(mark, values_of(node), bytes_of(node));
    anchors_[anchor] = {node, values_of(node), depth_of(node), bytes_of(node)};
  }
  void put(Node node, const YAML::Mark& mark) {
    if (open_.empty()) {
      root = std::move(node);
    } else if (open_.back().node.is_list()) {
      open_.back().node.items.push_back(std::move(node));
    } else if (expects_key()) {
      if (node.is_list() || node.is_map()) fail(mark, "a key must be a word, not a list or a section");
      open_.back().entry = {node.is_null() ? "null" : node.text, origin(mark), {}};
      open_.back().has_key = true;
    } else {
      open_.back().entry.value = std::move(node);
      open_.back().node.entries.push_back(std::move(open_.back().entry));
      open_.back().has_key = false;
    }
  }
  // `<<: *a` adds a's keys that the map doesn't have itself. https://yaml.org/type/merge.html
  void merge(Node& map) const {
    std::vector<Entry> own;
    std::vector<const Node*> merged;
    for (Entry& entry : map.entries) {
      if (entry.key != "<<") {
        own.push_back(std::move(entry));
        continue;
      }
      const bool list = entry.value.is_list();
      if (!list) merged.push_back(&entry.value);
      for (const Node& item : entry.value.items) merged.push_back(&item);
    }
    std::set<std::string> keys;
    for (const Entry& entry : own) keys.insert(entry.key);
    for (const Node* node : merged) {
      if (!node->is_map())
        refuse(set_, node->origin.line, 1, "`<<` merges a section or a list of sections, nothing else");
      for (const Entry& entry : node->entries)
        if (keys.insert(entry.key).second) own.push_back(entry);
    }
    map.entries = std::move(own);
  }

  std::string set_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  int values_ = 0;
  std::size_t bytes_ = 0;
};

// yaml-cpp ends the text at some control characters without a word, and passes on bytes that aren't UTF-8.
void refuse_what_is_no_text(std::string_view text, const std::string& set) {
  int line = 1, column = 1;
  for (std::size_t i = 0; i < text.size(); ++column) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool blank = byte == '\t' || byte == '\n' || byte == '\r';
    if ((byte < 0x20 && !blank) || byte == 0x7f)
      refuse(set, line, column, fmt::format("a control character (0x{:02x}); is this a text file?", byte));
    const std::size_t length = valid_utf8_length(text.substr(i, 4));
    if (length == 0) refuse(set, line, column, fmt::format("byte 0x{:02x} isn't UTF-8", byte));
    if (byte == '\n') ++line, column = 0;
    i += length;
  }
}

bool tab_indents(const std::string& text, int line) {
  std::istringstream in(text);
  std::string read;
  for (int i = 0; i <= line && std::getline(in, read); ++i) {
  }
  return read.substr(0, read.find_first_not_of(" \t")).find('\t') != std::string::npos;
}

}  // namespace

Node parse_tree(const std::string& text, const std::string& set) {
  refuse_what_is_no_text(text, set);
  Builder builder(set);
  try {
    std::istringstream in(cat(text, "\n", kEndMark, "\n"));
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) return {};
    Builder second(set);
    if (parser.HandleNextDocument(second) && !second.root.is_null())
      refuse(set, second.root.origin.line, 1,
             "a second YAML document starts here; is this line indented less than the first key?");
  } catch (const YAML::Exception& e) {
    const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    const bool at_end = e.mark.line > lines;
    const bool tab = tab_indents(text, e.mark.line);
    refuse(set, std::min(e.mark.line, lines) + 1, at_end ? 1 : e.mark.column + 1,
           tab ? "a tab indents this line; YAML allows only spaces there" : cat("not valid YAML: ", e.msg));
  }
  return std::move(builder.root);
}

std::string shortened(const std::string& text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return text.substr(0, end) + "...";
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return "empty";
    case Node::Kind::list: return "a list";
    case Node::Kind::map: return "a section";
    case Node::Kind::scalar: break;
  }
  std::int64_t whole = 0;
  double number = 0;
  const std::string shown = shortened(node.text, 60);
  return parse_int(shown, &whole) || parse_double(shown, &number) ? shown : cat("'", shown, "'");
}

namespace {

// YAML 1.2, section 10.3.2, decimal forms: [-+]? ( \.[0-9]+ | [0-9]+ (\.[0-9]*)? ) ([eE] [-+]? [0-9]+)?
bool is_number(std::string_view text) {
  std::size_t at = 0;
  const auto next = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos ? ++at : 0;
  };
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  next("+-");
  std::size_t mantissa = digits();
  if (next(".")) mantissa += digits();
  if (mantissa == 0) return false;
  if (next("eE")) {
    next("+-");
    if (digits() == 0) return false;
  }
  return at == text.size();
}

nlohmann::json core_scalar(const Node& node, const std::string& path, Faults& faults) {
  const std::string& text = node.text;
  if (node.quoted) return text;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text == ".inf" || text == "-.inf" || text == "+.inf" || text == ".nan" || text == ".NaN")
    faults.add(node.origin, path, cat(path, " must be finite, is ", text));
  if (!is_number(text)) return text;
  std::int64_t whole = 0;
  double number = 0;
  if (parse_int(text, &whole)) return whole;
  const bool is_whole = text.find_first_of(".eE") == std::string::npos;
  if (!is_whole && parse_double(text, &number)) return number;
  faults.add(node.origin, path, cat(path, " is no number that fits, is ", describe(node)));
  return text;
}

}  // namespace

nlohmann::json core_value(const Node& node, const std::string& path, Faults& faults) {
  if (node.is_null()) return nullptr;
  if (node.is_scalar()) return core_scalar(node, path, faults);
  if (node.is_list()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Node& item : node.items)
      list.push_back(core_value(item, cat(path, "[", list.size(), "]"), faults));
    return list;
  }
  nlohmann::json map = nlohmann::json::object();
  for (const Entry& entry : node.entries) {
    const std::string below = cat(path, ".", entry.key);
    if (map.contains(entry.key)) faults.add(entry.origin, below, cat("key '", below, "' is given twice"));
    map[entry.key] = core_value(entry.value, below, faults);
  }
  return map;
}

}  // namespace zt::recipe
