#include "recipe/codec.h"

#include "recipe/table.h"

namespace zt::recipe {

std::string number_text(double x) { return fmt::format("{}", x); }

std::string alternatives(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

nlohmann::ordered_json word_json(const std::string& word) {
  if (word == "true") return true;
  if (word == "false") return false;
  return word;
}

bool Codec<std::int64_t>::read(const Node& node, const At& at, std::int64_t& value) {
  if (node.is_scalar() && parse_int(node.text, &value)) return true;
  return at.refuse(node, "a whole number");
}

bool Codec<double>::read(const Node& node, const At& at, double& value) {
  if (node.is_scalar() && parse_double(node.text, &value) && std::isfinite(value)) return true;
  return at.refuse(node, "a number");
}

bool Codec<bool>::read(const Node& node, const At& at, bool& value) {
  if (!node.is_scalar() || (node.text != "true" && node.text != "false"))
    return at.refuse(node, "true or false");
  value = node.text == "true";
  return true;
}

bool Codec<std::string>::read(const Node& node, const At& at, std::string& value) {
  if (!node.is_scalar() || node.text.empty()) return at.refuse(node, "text");
  value = node.text;
  return true;
}

bool Codec<std::vector<std::string>>::read(const Node& node, const At& at, std::vector<std::string>& value) {
  if (!node.is_list()) return at.refuse(node, "a list of texts, such as [a, b]");
  value.assign(node.items.size(), "");
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i)
    good = Codec<std::string>::read(node.items[i], at.item(i), value[i]) && good;
  return good;
}

bool Codec<std::array<double, 2>>::read(const Node& node, const At& at, std::array<double, 2>& value) {
  if (!node.is_list()) return at.refuse(node, "a list of two numbers");
  if (node.items.size() != 2) {
    at.faults.add(node.origin, at.path, cat(at.path, " must have two numbers, has ", node.items.size()));
    return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < 2; ++i) good &= Codec<double>::read(node.items[i], at.item(i), value[i]);
  return good;
}

bool Codec<std::map<std::string, std::string>>::read(const Node& node, const At& at,
                                                     std::map<std::string, std::string>& value) {
  if (node.is_null()) return value.clear(), true;
  if (!node.is_map()) return at.refuse(node, "a section of names, such as `{instruction: question}`");
  bool good = true;
  value.clear();
  for (const Entry& entry : node.entries) {
    if (value.count(entry.key) > 0) {
      at.faults.add(entry.origin, at.path, cat("key '", at.path, ".", entry.key, "' is given twice"));
      good = false;
    }
    good &= Codec<std::string>::read(entry.value, at.below(entry.key), value[entry.key]);
  }
  return good;
}

bool Codec<nlohmann::json>::read(const Node& node, const At& at, nlohmann::json& value) {
  if (!node.is_map() && !node.is_null())
    return at.refuse(node, "a section of Hugging Face config.json names");
  value = core_value(node, at.path, at.faults);
  return true;
}

bool Codec<std::vector<Source>>::read(const Node& node, const At& at, std::vector<Source>& value) {
  if (!node.is_list()) return at.refuse(node, "a list of sources, such as `- {path: FILE, format: text}`");
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    Source source;
    const At below = at.item(i);
    if (node.items[i].is_null()) {
      below.refuse(node.items[i], "a section with a path");
    } else if (read_section(source_keys(), node.items[i], below, source) && source.path.empty() &&
               below.faults.sound(below.path + ".path")) {
      below.faults.add(node.items[i].origin, below.path, cat(below.path, " needs a path"));
    }
    value.push_back(std::move(source));
  }
  return true;
}

nlohmann::ordered_json Codec<std::vector<Source>>::to_json(const std::vector<Source>& value) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Source& source : value) list.push_back(section_json(source_keys(), source));
  return list;
}

nlohmann::ordered_json Codec<std::vector<Source>>::schema() {
  nlohmann::ordered_json item = section_schema(source_keys(), Source{});
  item["properties"]["path"].erase("default");
  item["required"] = {"path"};
  return {{"type", "array"}, {"items", std::move(item)}};
}

static const std::vector<Key<Validation>>& validation_keys() {
  static const std::vector<Key<Validation>> keys = {
      key("fraction", &Validation::fraction, "",
          "The share of the training text, from its end, that is held out.", share_inside())};
  return keys;
}

bool Codec<Validation>::read(const Node& node, const At& at, Validation& value) {
  if (node.is_null()) return true;
  if (node.is_list()) return Codec<std::vector<Source>>::read(node, at, value.sources);
  if (!node.is_map()) return at.refuse(node, type());
  return read_section(validation_keys(), node, at, value);
}

nlohmann::ordered_json Codec<Validation>::to_json(const Validation& value) {
  if (value.absent()) return nullptr;
  if (!value.fraction) return Codec<std::vector<Source>>::to_json(value.sources);
  return section_json(validation_keys(), value);
}

nlohmann::ordered_json Codec<Validation>::schema() {
  nlohmann::ordered_json fraction = section_schema(validation_keys(), Validation{});
  return {{"anyOf", {fraction, Codec<std::vector<Source>>::schema(), {{"type", "null"}}}}};
}

static const std::vector<Key<Recompute>>& recompute_keys() {
  static const std::vector<Key<Recompute>> keys = {
      key("every", &Recompute::every, "blocks", "Every k-th block recomputes.", between(1, 1'000'000))};
  return keys;
}

bool Codec<Recompute>::read(const Node& node, const At& at, Recompute& value) {
  if (!node.is_map()) {
    value.every = 0;
    for (const Word<Recompute::Kind>& word : words(Recompute::Kind{}))
      if (node.is_scalar() && node.text == word.text) return value.kind = word.value, true;
    return at.refuse(node, type());
  }
  value = {Recompute::Kind::every, 0};
  if (!read_section(recompute_keys(), node, at, value)) return false;
  if (value.every == 0 && at.faults.sound(at.path)) return at.refuse(node, type());
  return value.every > 0;
}

nlohmann::ordered_json Codec<Recompute>::to_json(const Recompute& value) {
  if (value.kind == Recompute::Kind::every) return section_json(recompute_keys(), value);
  return word_of(value.kind);
}

// A number of seconds, or [D-]H:M:S as batch systems write it; 0 for anything else.
static std::int64_t duration_seconds(const std::string& text) {
  constexpr std::int64_t kMostDays = 100'000;
  std::int64_t days = 0, total = 0;
  std::string rest = text;
  if (const std::size_t dash = text.find('-'); dash != std::string::npos && dash > 0) {
    if (!parse_int(text.substr(0, dash), &days) || days < 0 || days > kMostDays) return 0;
    rest = text.substr(dash + 1);
  }
  const std::vector<std::string> parts = split(rest, ':');
  if (parts.size() != 3 && (parts.size() != 1 || days > 0)) return 0;
  for (const std::string& part : parts) {
    std::int64_t n = 0;
    const bool first = &part == &parts.front();
    if (!parse_int(part, &n) || n < 0 || n > (first ? kMostDays * 86'400 : 59)) return 0;
    total = total * 60 + n;
  }
  total += days * 86'400;
  return total <= kMostDays * 86'400 ? total : 0;
}

bool Codec<TimeLimit>::read(const Node& node, const At& at, TimeLimit& value) {
  if (!node.is_scalar()) return at.refuse(node, type());
  for (const Word<TimeLimit::Kind>& word : words(TimeLimit::Kind{}))
    if (node.text == word.text) return value = {word.value, 0}, true;
  const std::int64_t seconds = duration_seconds(node.text);
  if (seconds == 0) return at.refuse(node, type());
  return value = {TimeLimit::Kind::seconds, seconds}, true;
}

nlohmann::ordered_json Codec<TimeLimit>::to_json(const TimeLimit& value) {
  if (value.kind == TimeLimit::Kind::seconds) return value.seconds;
  return word_of(value.kind);
}

nlohmann::ordered_json Codec<TimeLimit>::schema() {
  return {{"anyOf",
           {Codec<TimeLimit::Kind>::schema(),
            {{"type", "integer"}, {"minimum", 1}},
            {{"type", "string"}, {"pattern", "^([0-9]+-)?[0-9]+:[0-5]?[0-9]:[0-5]?[0-9]$"}}}}};
}

nlohmann::ordered_json Codec<Recompute>::schema() {
  nlohmann::ordered_json every = section_schema(recompute_keys(), Recompute{});
  every["properties"]["every"].erase("default");
  every["required"] = {"every"};
  return {{"anyOf", {Codec<Recompute::Kind>::schema(), std::move(every)}}};
}

}  // namespace zt::recipe
