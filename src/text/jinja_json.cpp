// json.dumps of values. Source: Python's json.encoder.
#include <algorithm>

#include "base/text.h"
#include "text/jinja_text.h"
#include "text/jinja_value.h"

namespace zt::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Machine& m, const JsonStyle& style) : m_(m), style_(style) {}

  void write(const Value& value);
  std::string out;

 private:
  void write_items(const Items& items);
  void write_dict(Entries entries);
  void line(int levels);
  std::string key_text(const Value& key);

  Machine& m_;
  const JsonStyle& style_;
  int level_ = 0;
};

void JsonWriter::write(const Value& value) {
  const Machine::Deeper deeper(&m_);
  m_.charge(1);
  switch (value.kind) {
    case Kind::none: return m_.append(&out, "null");
    case Kind::boolean: return m_.append(&out, value.boolean ? "true" : "false");
    case Kind::integer: return m_.append(&out, cat(value.integer));
    case Kind::real: return m_.append(&out, python_literal(value.real));
    case Kind::text: return m_.append(&out, json_literal(*value.text));
    case Kind::list:
    case Kind::tuple: return write_items(*value.items);
    case Kind::dict: return write_dict(*value.entries);
    default: m_.fail(cat("tojson can't write ", type_name(value.kind)));
  }
}

void JsonWriter::line(int levels) {
  if (style_.indent == nullptr) return;
  out += '\n';
  for (int i = 0; i < levels; ++i) m_.append(&out, *style_.indent);
}

void JsonWriter::write_items(const Items& items) {
  if (items.empty()) return m_.append(&out, "[]");
  out += '[';
  ++level_;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) m_.append(&out, style_.comma);
    line(level_);
    write(items[i]);
  }
  line(--level_);
  out += ']';
}

std::string JsonWriter::key_text(const Value& key) {
  if (key.is(Kind::text)) return *key.text;
  if (key.is(Kind::none)) return "null";
  if (key.is(Kind::boolean)) return key.boolean ? "true" : "false";
  if (!key.is_number()) m_.fail(cat("tojson can't write a key that is ", type_name(key.kind)));
  return repr(m_, key);
}

void JsonWriter::write_dict(Entries entries) {
  if (entries.empty()) return m_.append(&out, "{}");
  if (style_.sorted)
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const auto& a, const auto& b) { return less(m_, a.first, b.first); });
  out += '{';
  ++level_;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) m_.append(&out, style_.comma);
    line(level_);
    m_.append(&out, json_literal(key_text(entries[i].first)));
    m_.append(&out, style_.colon);
    write(entries[i].second);
  }
  line(--level_);
  out += '}';
}

}  // namespace

std::string to_json(Machine& m, const Value& value, const JsonStyle& style) {
  JsonWriter writer(m, style);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace zt::text::jinja
