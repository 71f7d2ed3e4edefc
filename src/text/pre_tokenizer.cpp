#include "text/pre_tokenizer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/normalizer.h"
#include "text/regex.h"

namespace zt::text {
namespace {

constexpr int kDepthLimit = 8;

// Source: openai/gpt-2, src/encoder.py.
constexpr const char* kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// What the reference implementation's \w means: Unicode Technical Standard 18, annex C.
constexpr const char* kWordOrSymbols =
    "[\\p{alpha}\\p{M}\\p{Nd}\\p{Pc}\\p{joinc}]+|[^\\s\\p{alpha}\\p{M}\\p{Nd}\\p{Pc}\\p{joinc}]+";
constexpr const char* kPunctuation = "[\\p{P}\\$\\+\\<\\=\\>\\^\\`\\|\\~]";

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_named(const std::string& name, const std::string& where) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  throw Error(Blame::model, cat(where, ".behavior ", name, " is not supported"));
}

struct Part {
  std::size_t begin, end;
  bool matches;
};

// Calls use(part) for every part of the text, matching and not, in order.
template <typename Use>
void for_each_part(std::string_view text, const Regex& regex, bool invert, Use use) {
  std::size_t done = 0;
  for (std::size_t from = 0; from <= text.size();) {
    Match match;
    if (!regex.find(text, from, &match)) break;
    // An empty match parts the text but is no piece; looking on needs one more character.
    if (match.begin > done) use(Part{done, match.begin, invert});
    if (match.end > match.begin) use(Part{match.begin, match.end, !invert});
    done = match.end;
    from = match.end;
    if (match.end == match.begin) do
        ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80);
  }
  if (done < text.size()) use(Part{done, text.size(), invert});
}

// Joins parts as the behavior says and appends them to `out`.
void append_parts(std::string_view text, const std::vector<Part>& parts, Behavior behavior,
                  std::vector<std::string_view>* out) {
  const auto joins = [&](std::size_t i) {  // does part i belong to the piece of part i - 1?
    if (i == 0) return false;
    const bool before = parts[i - 1].matches, now = parts[i].matches;
    switch (behavior) {
      case Behavior::merged_with_previous: return now && !before;
      case Behavior::merged_with_next: return before && !now;
      case Behavior::contiguous: return before == now;
      case Behavior::removed:
      case Behavior::isolated: return false;
    }
    return false;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (behavior == Behavior::removed && parts[i].matches) continue;
    const std::string_view piece = text.substr(parts[i].begin, parts[i].end - parts[i].begin);
    if (joins(i))
      out->back() = {out->back().data(), out->back().size() + piece.size()};
    else
      out->push_back(piece);
  }
}

void split_pieces(Pieces* pieces, const Regex& regex, Behavior behavior, bool invert) {
  std::vector<std::string_view> cut;
  std::vector<Part> parts;
  for (const std::string_view piece : pieces->list) {
    if (behavior == Behavior::isolated) {
      for_each_part(piece, regex, invert,
                    [&](Part p) { cut.push_back(piece.substr(p.begin, p.end - p.begin)); });
      continue;
    }
    parts.clear();
    for_each_part(piece, regex, invert, [&](Part p) { parts.push_back(p); });
    append_parts(piece, parts, behavior, &cut);
  }
  pieces->list.swap(cut);
}

// Puts `prefix` before the pieces from `first` to before `last` that do not start with it.
void prefix_pieces(Pieces* pieces, const std::string& prefix, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < std::min(last, pieces->list.size()); ++i) {
    std::string_view& piece = pieces->list[i];
    if (!starts_with(piece, prefix)) piece = pieces->owned.emplace_back(prefix + std::string(piece));
  }
}

// All pieces, save the one that goes on where other ids end.
void prefix_all(Pieces* pieces, const std::string& prefix, Place place) {
  prefix_pieces(pieces, prefix, place == Place::continuation ? 1 : 0, pieces->list.size());
}

void replace_spaces(Pieces* pieces, const std::string& with) {
  for (std::string_view& piece : pieces->list) {
    if (piece.find(' ') == std::string_view::npos) continue;
    std::string changed;
    for (const char c : piece) c == ' ' ? changed += with : changed += c;
    piece = pieces->owned.emplace_back(std::move(changed));
  }
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const Json& description) {
  PreTokenizer made;
  if (!description.is_null()) made.add(description, "pre_tokenizer", 0);
  return made;
}

void PreTokenizer::apply(std::string_view text, Place place, Pieces* pieces) const {
  pieces->owned.clear();
  pieces->list.clear();
  if (!text.empty()) pieces->list.push_back(text);
  for (const Step& step : steps_) step(pieces, place);
}

void PreTokenizer::add(const Json& description, const std::string& where, int depth) {
  if (depth > kDepthLimit)
    throw Error(Blame::model, cat(where, " is nested deeper than ", kDepthLimit, " levels"));
  const std::string type = type_of(description, where);
  if (byte_level_) throw Error(Blame::model, cat(where, ": ", type, " after ByteLevel is not supported"));
  if (type == "Sequence") {
    allow_only(description, {"pretokenizers"}, where);
    for (const Json& step : member(description, "pretokenizers", where)) add(step, where, depth + 1);
  } else if (type == "ByteLevel") {
    add_byte_level(description, where);
  } else if (type == "Split") {
    allow_only(description, {"pattern", "behavior", "invert"}, where);
    add_split(pattern_from_json(member(description, "pattern", where), where + ".pattern"),
              text_member(description, "behavior", where), flag_or(description, "invert", false, where),
              where);
  } else if (type == "Digits") {
    allow_only(description, {"individual_digits"}, where);
    add_split(flag_or(description, "individual_digits", false, where) ? "\\p{N}" : "\\p{N}+", "Isolated",
              false, where);
  } else if (type == "Metaspace") {
    add_metaspace(description, where);
  } else if (type == "Whitespace") {
    allow_only(description, {}, where);
    add_split(kWordOrSymbols, "Removed", true, where);
  } else if (type == "WhitespaceSplit") {
    allow_only(description, {}, where);
    add_split("\\s", "Removed", false, where);
  } else if (type == "Punctuation") {
    allow_only(description, {"behavior"}, where);
    add_split(kPunctuation, text_or(description, "behavior", "Isolated", where), false, where);
  } else {
    throw Error(Blame::model, cat(where, " of type ", type, " is not supported"));
  }
}

void PreTokenizer::add_split(const std::string& pattern, const std::string& behavior, bool invert,
                             const std::string& where) {
  steps_.push_back([regex = std::make_shared<const Regex>(pattern), how = behavior_named(behavior, where),
                    invert](Pieces* pieces, Place) { split_pieces(pieces, *regex, how, invert); });
}

void PreTokenizer::add_byte_level(const Json& description, const std::string& where) {
  allow_only(description, {"add_prefix_space", "trim_offsets", "use_regex"}, where);
  if (flag_or(description, "add_prefix_space", true, where))
    steps_.push_back([](Pieces* pieces, Place place) { prefix_all(pieces, " ", place); });
  if (flag_or(description, "use_regex", true, where)) add_split(kGpt2Words, "Isolated", false, where);
  byte_level_ = true;
}

void PreTokenizer::add_metaspace(const Json& description, const std::string& where) {
  allow_only(description, {"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}, where);
  const std::string mark = text_or(description, "replacement", "\u2581", where);
  // Files older than prepend_scheme say it with add_prefix_space.
  const bool old_prefix = flag_or(description, "add_prefix_space", true, where);
  const std::string scheme = text_or(description, "prepend_scheme", old_prefix ? "always" : "never", where);
  if (scheme != "always" && scheme != "never" && scheme != "first")
    throw Error(Blame::model, cat(where, ".prepend_scheme ", scheme, " is not supported"));
  steps_.push_back([mark, scheme](Pieces* pieces, Place place) {
    replace_spaces(pieces, mark);
    if (scheme == "always") prefix_all(pieces, mark, place);
    if (scheme == "first" && place == Place::start) prefix_pieces(pieces, mark, 0, 1);
  });
  if (flag_or(description, "split", true, where))
    add_split(quoted_for_regex(mark), "MergedWithNext", false, where);
}

}  // namespace zt::text
