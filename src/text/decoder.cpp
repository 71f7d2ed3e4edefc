#include "text/decoder.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace zt::text {
namespace {

constexpr int kDepthLimit = 8;
constexpr const char* kReplacement = "\uFFFD";

std::string replaced(const std::string& text, const Regex& regex, const std::string& with) {
  std::string out;
  std::size_t done = 0;
  for (Match match; regex.find(text, done, &match) && match.end > match.begin; done = match.end) {
    out.append(text, done, match.begin - done);
    out += with;
  }
  return out.append(text, done);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that "<0x0A>" names.
std::optional<char> byte_named(const std::string& token) {
  if (token.size() != 6 || !starts_with(token, "<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// Runs of byte tokens become characters; a run that is not UTF-8 becomes one U+FFFD for each byte.
void join_bytes(std::vector<std::string>* tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (!first_invalid_utf8(run))
      out.push_back(run);
    else
      for (std::size_t i = 0; i < run.size(); ++i) out.emplace_back(kReplacement);
    run.clear();
  };
  for (std::string& token : *tokens) {
    if (const auto byte = byte_named(token)) {
      run += *byte;
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens->swap(out);
}

void from_alphabet(std::vector<std::string>* tokens) {
  // An added token such as "<|im_start|>" is spelled in the alphabet too; what is not, is text already.
  for (std::string& token : *tokens)
    if (auto bytes = bytes_of_alphabet(token)) token = std::move(*bytes);
}

void strip(std::string* token, const std::string& content, std::int64_t start, std::int64_t stop) {
  std::size_t begin = 0, end = token->size();
  for (std::int64_t i = 0; i < start && begin < end && token->compare(begin, content.size(), content) == 0;
       ++i)
    begin += content.size();
  for (std::int64_t i = 0; i < stop && end >= begin + content.size() &&
                           token->compare(end - content.size(), content.size(), content) == 0;
       ++i)
    end -= content.size();
  *token = token->substr(begin, end - begin);
}

void fuse(std::vector<std::string>* tokens) { *tokens = {join(*tokens, "")}; }

std::int64_t count_member(const Json& description, const char* key, const std::string& where) {
  const std::int64_t count = int_member(description, key, where);
  if (count < 0) throw Error(Blame::model, cat(where, ".", key, " must be at least 0, is ", count));
  return count;
}

}  // namespace

Decoder Decoder::from_json(const Json& description) {
  Decoder decoder;
  decoder.joins_by_space_ = description.is_null();
  if (!description.is_null()) decoder.add(description, "decoder", 0);
  return decoder;
}

void Decoder::add(const Json& description, const std::string& where, int depth) {
  if (depth > kDepthLimit)
    throw Error(Blame::model, cat(where, " is nested deeper than ", kDepthLimit, " levels"));
  const std::string type = type_of(description, where);
  if (type == "Sequence") {
    allow_only(description, {"decoders"}, where);
    for (const Json& step : member(description, "decoders", where)) add(step, where, depth + 1);
  } else if (type == "ByteLevel") {
    allow_only(description, {"add_prefix_space", "trim_offsets", "use_regex"}, where);
    steps_.push_back(from_alphabet);
  } else if (type == "ByteFallback") {
    allow_only(description, {}, where);
    steps_.push_back(join_bytes);
  } else if (type == "Fuse") {
    allow_only(description, {}, where);
    steps_.push_back(fuse);
  } else if (type == "Strip") {
    allow_only(description, {"content", "start", "stop"}, where);
    const std::string content = text_member(description, "content", where);
    if (content.empty()) throw Error(Blame::model, cat(where, ".content is empty"));
    const std::int64_t start = count_member(description, "start", where),
                       stop = count_member(description, "stop", where);
    steps_.push_back([=](std::vector<std::string>* tokens) {
      for (std::string& token : *tokens) strip(&token, content, start, stop);
    });
  } else if (type == "Replace") {
    allow_only(description, {"pattern", "content"}, where);
    const auto regex = std::make_shared<const Regex>(
        pattern_from_json(member(description, "pattern", where), where + ".pattern"));
    steps_.push_back(
        [regex, with = text_member(description, "content", where)](std::vector<std::string>* tokens) {
          for (std::string& token : *tokens) token = replaced(token, *regex, with);
        });
  } else if (type == "Metaspace") {
    allow_only(description, {"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}, where);
    const auto mark =
        std::make_shared<const Regex>(quoted_for_regex(text_or(description, "replacement", "\u2581", where)));
    const bool prefixed = flag_or(description, "add_prefix_space", true, where) &&
                          text_or(description, "prepend_scheme", "always", where) != "never";
    steps_.push_back([mark, prefixed](std::vector<std::string>* tokens) {
      for (std::size_t i = 0; i < tokens->size(); ++i) {
        std::string& token = (*tokens)[i];
        token = replaced(token, *mark, " ");
        if (i == 0 && prefixed && starts_with(token, " ")) token.erase(0, 1);
      }
    });
  } else {
    throw Error(Blame::model, cat(where, " of type ", type, " is not supported"));
  }
}

std::string Decoder::text_of(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) step(&tokens);
  return join(tokens, joins_by_space_ ? " " : "");
}

}  // namespace zt::text
