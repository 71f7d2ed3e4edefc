#include "text/normalizer.h"

#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/regex.h"
#include "text/unicode_forms.h"

namespace zt::text {
namespace {

constexpr int kDepthLimit = 8;

std::string replace_all(const std::string& text, std::string_view what, std::string_view with) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(what, from)) != std::string::npos; from = at + what.size()) {
    out.append(text, from, at - from);
    out += with;
  }
  return out.append(text, from);
}

std::string replace_matches(const std::string& text, const Regex& regex, std::string_view with) {
  std::string out;
  std::size_t from = 0;
  Match match;
  while (from <= text.size() && regex.find(text, from, &match) && match.end > match.begin) {
    out.append(text, from, match.begin - from);
    out += with;
    from = match.end;
  }
  return out.append(text, from);
}

// Without white space at the chosen ends.
std::string stripped(const std::string& text, bool left, bool right) {
  static const Regex word("\\S+");
  Match first;
  if (!word.find(text, 0, &first)) return "";
  std::size_t end = first.end;
  for (Match next; word.find(text, end, &next); end = next.end) continue;
  const std::size_t begin = left ? first.begin : 0;
  return text.substr(begin, (right ? end : text.size()) - begin);
}

}  // namespace

std::string pattern_from_json(const Json& pattern, const std::string& where) {
  if (present(pattern, "Regex")) return text_member(pattern, "Regex", where);
  const std::string literal = text_member(pattern, "String", where);
  if (literal.empty()) throw Error(Blame::model, cat(where, ".String is empty"));
  return quoted_for_regex(literal);
}

Normalizer Normalizer::from_json(const Json& description) {
  Normalizer normalizer;
  if (!description.is_null()) normalizer.add(description, "normalizer", 0);
  return normalizer;
}

void Normalizer::add(const Json& description, const std::string& where, int depth) {
  if (depth > kDepthLimit)
    throw Error(Blame::model, cat(where, " is nested deeper than ", kDepthLimit, " levels"));
  const std::string type = type_of(description, where);
  if (type == "Sequence") {
    allow_only(description, {"normalizers"}, where);
    for (const Json& step : member(description, "normalizers", where)) add(step, where, depth + 1);
  } else if (type == "Prepend") {
    allow_only(description, {"prepend"}, where);
    steps_.push_back([prefix = text_member(description, "prepend", where)](std::string text, Place place) {
      return text.empty() || place == Place::continuation ? text : prefix + text;
    });
  } else if (type == "Replace") {
    allow_only(description, {"pattern", "content"}, where);
    const Json& pattern = member(description, "pattern", where);
    const std::string with = text_member(description, "content", where);
    const std::string expression = pattern_from_json(pattern, where + ".pattern");
    if (present(pattern, "String")) {
      steps_.push_back([what = text_member(pattern, "String", where), with](std::string text, Place) {
        return replace_all(text, what, with);
      });
    } else {
      steps_.push_back([regex = std::make_shared<const Regex>(expression), with](std::string text, Place) {
        return replace_matches(text, *regex, with);
      });
    }
  } else if (type == "Strip") {
    allow_only(description, {"strip_left", "strip_right"}, where);
    const bool left = flag_or(description, "strip_left", true, where),
               right = flag_or(description, "strip_right", true, where);
    steps_.push_back([left, right](std::string text, Place) { return stripped(text, left, right); });
  } else if (const auto form = unicode_form(type)) {
    allow_only(description, {}, where);
    steps_.push_back(
        [form = *form](std::string text, Place) { return to_unicode_form(std::move(text), form); });
  } else {
    throw Error(Blame::model, cat(where, " of type ", type, " is not supported"));
  }
}

std::string Normalizer::apply(std::string text, Place place) const {
  for (const Step& step : steps_) text = step(std::move(text), place);
  return text;
}

}  // namespace zt::text
