// What the tables print: the resolved recipe, the key list, the manual and the schema.
#include <algorithm>

#include "recipe/recipe.h"
#include "recipe/table.h"

namespace zt::recipe {
namespace {

using nlohmann::ordered_json;

// Text that YAML would take for something else is quoted as JSON, which YAML reads.
std::string scalar_text(const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_";
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool reserved = lower == "null" || lower == "true" || lower == "false";
  const bool plain = !text.empty() && letters.find(text[0]) != std::string::npos &&
                     text.find_first_not_of(letters + "0123456789.-+") == std::string::npos;
  if (plain && !reserved) return text;
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string flow_text(const ordered_json& value) {
  std::vector<std::string> parts;
  if (value.is_object()) {
    for (const auto& [name, item] : value.items())
      parts.push_back(cat(scalar_text(name), ": ", flow_text(item)));
    return cat("{", join(parts, ", "), "}");
  }
  if (!value.is_array()) return scalar_text(value);
  for (const ordered_json& item : value) parts.push_back(flow_text(item));
  return cat("[", join(parts, ", "), "]");
}

// Writes block style as far as people wrote sections; deeper values of a model config stay on one line.
struct Writer {
  const Loaded& loaded;
  std::string out;

  void value(const std::string& lead, const ordered_json& json, const std::string& path) {
    out += cat(lead, flow_text(json), "  # ", loaded.source_of(path), "\n");
  }
  void entries(const ordered_json& map, const std::string& path, const std::string& indent) {
    for (const auto& [name, json] : map.items()) {
      const std::string below = path.empty() ? name : cat(path, ".", name);
      const bool section = json.is_object() && !json.empty() && indent.size() < 4;
      const bool sources = json.is_array() && !json.empty() && json.front().is_object() && indent.size() == 2;
      if (section || sources) out += cat(indent, scalar_text(name), ":\n");
      if (section) {
        entries(json, below, indent + "  ");
      } else if (sources) {
        for (std::size_t i = 0; i < json.size(); ++i) source(json[i], cat(below, "[", i, "]"));
      } else {
        value(cat(indent, scalar_text(name), ": "), json, below);
      }
    }
  }
  void source(const ordered_json& map, const std::string& path) {
    std::string lead = "    - ";
    for (const auto& [name, json] : map.items()) {
      value(cat(lead, name, ": "), json, cat(path, ".", name));
      lead = "      ";
    }
  }
};

std::string unit_and_type(const RowText& row) {
  return row.unit.empty() ? row.type : cat(row.type, " (", row.unit, ")");
}

// The keys of one source, which have no section of their own.
std::vector<RowText> source_rows() {
  std::vector<RowText> rows;
  for (const Key<Source>& key : source_keys()) {
    const ordered_json preset = key.value(Source{});
    rows.push_back({key.name, key.unit, key.meaning, key.type, preset == "" ? "none" : flow_text(preset)});
  }
  return rows;
}

std::string section_text(const std::string& prefix, const std::string& meaning,
                         const std::vector<RowText>& rows) {
  std::string out = cat(prefix, "  ", meaning, "\n");
  for (const RowText& row : rows)
    out += cat("  ", prefix, ".", row.name, "  [", row.default_text, "]\n      ", unit_and_type(row),
               "\n      ", row.meaning, "\n");
  return out;
}

std::string manual_table(const std::vector<RowText>& rows) {
  std::string out = "| key | default | type | meaning |\n|---|---|---|---|\n";
  for (const RowText& row : rows)
    out +=
        cat("| `", row.name, "` | ", row.default_text, " | ", unit_and_type(row), " | ", row.meaning, " |\n");
  return out;
}

const char* kSourceMeaning = "Each source of data.train, and of data.validation where that is a list.";

}  // namespace

std::string resolved_text(const Loaded& loaded) {
  Writer writer{loaded, ""};
  writer.entries(section_json(sections(), loaded.recipe), "", "");
  return writer.out;
}

std::string keys_text(const std::string& section) {
  std::string out;
  for (const Section& row : sections()) {
    if (!section.empty() && section != row.name) continue;
    out += (out.empty() ? "" : "\n") + section_text(row.name, row.meaning, row.rows);
    if (row.name == "data") out += "\n" + section_text("data.train[]", kSourceMeaning, source_rows());
  }
  if (!out.empty()) return out;
  const std::vector<std::string> names = names_of(sections());
  const std::string close = nearest(section, names);
  throw Error(Blame::usage,
              cat("no section is called '", section, "'", close.empty() ? "" : "; did you mean ", close,
                  close.empty() ? "" : "?"),
              cat("the sections are ", join(names, ", ")));
}

ordered_json values_of(const Recipe& recipe, const std::string& name) {
  for (const Section& section : sections())
    if (section.name == name) return section.value(recipe);
  throw Error(Blame::bug, cat("a recipe has no section '", name, "'"));
}

ordered_json schema() {
  ordered_json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", "zerotrain recipe"}};
  ordered_json properties = ordered_json::object();
  for (const Section& section : sections()) {
    properties[section.name] = section.schema();
    properties[section.name]["description"] = section.meaning;
  }
  out["type"] = "object";
  out["additionalProperties"] = false;
  out["properties"] = std::move(properties);
  out["required"] = {"model", "data", "train"};
  return out;
}

std::string manual_markdown() {
  std::string out =
      "# The keys of a recipe\n\n"
      "Made from the tables the program itself reads recipes by; `zerotrain keys` prints the same.\n"
      "An unknown or repeated key or a wrong type is an error, and all errors of a recipe are reported at "
      "once.\n"
      "Numbers may be written as 1e-5; booleans are `true` and `false` only.\n";
  for (const Section& section : sections()) {
    out += cat("\n## ", section.name, "\n\n", section.meaning, "\n\n", manual_table(section.rows));
    if (section.name == "data")
      out += cat("\n### data.train[]\n\n", kSourceMeaning, "\n\n", manual_table(source_rows()));
  }
  return out;
}

}  // namespace zt::recipe
